# SPDX-License-Identifier: Apache-2.0
"""One Relay call on its way to ONNX: what the converters get.
Test: backends/onnx_model/test_export.py."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from ...errors import UnsupportedOpError
from .builder import GraphBuilder, Value

# The axes of space, by their number, as layouts name them.
SPACE = {1: "W", 2: "HW", 3: "DHW"}
FLOATS = ("float32", "float16")
NUMBERS = (*FLOATS, "int32", "int64")


@dataclasses.dataclass(frozen=True)
class ExportedCall:
    """A call whose nodes are added to the graph."""

    graph: GraphBuilder
    backend: str
    op: str
    attrs: Any
    values: list  # the operands, a tuple as a tuple
    results: list[tuple[tuple[int, ...], str]]  # (shape, dtype) of each

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> str:
        """Return the dtype of the first result."""
        return self.results[0][1]

    @property
    def operands(self) -> list[Value]:
        """Return the operands, those of tuples one by one."""
        return [v for value in self.values for v in (value if type(value) is tuple else [value])]

    def require(self, condition: object, attribute: str, value: Any) -> None:
        """Refuse the call, naming the attribute and its value, unless the condition holds."""
        if not condition:
            raise UnsupportedOpError(self.backend, self.op, f"{attribute}={value} is not supported")

    def known(self, value: Value, attribute: str) -> np.ndarray:
        """Return a constant's elements; refuse the call, naming the attribute, for others."""
        array = self.graph.array_of(value)
        if array is None:
            raise UnsupportedOpError(
                self.backend, self.op, f"{attribute}=not a constant is not supported"
            )
        return array

    def require_floats(self) -> None:
        """Refuse the call unless all operands are floats that the libraries have."""
        self.require_dtypes(*FLOATS)

    def factors(self) -> list[Value]:
        """Return the operands of a product in the type of its result, which may be a wider one."""
        self.require_floats()
        out = str(self.attrs.out_dtype)
        self.require(out in ("", *FLOATS), "out_dtype", out)
        return [self.cast(value, self.dtype) for value in self.values]

    def cast(self, value: Value, dtype: str) -> Value:
        """Return a value in another type."""
        if value.dtype == dtype:
            return value
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.graph.node("Cast", [value], value.shape, dtype, to=int(to))

    def require_dtypes(self, *dtypes: str) -> None:
        """Refuse the call unless all operands have one of these dtypes."""
        for value in self.operands:
            self.require(value.dtype in dtypes, "dtype", value.dtype)

    def result(self, operator: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """Add the node that gives the call's result."""
        return self.graph.node(operator, inputs, self.shape, self.dtype, **attrs)

    def result_in(
        self, layout: str, operator: str, inputs: Sequence[Value | None], **attrs: Any
    ) -> Value:
        """Add the node that gives the call's result, on NC.. inputs, and bring it into a layout."""
        result = self.graph.node(operator, inputs, self.plain_shape(layout), self.dtype, **attrs)
        return self.in_layout(result, "NC" + SPACE[len(layout) - 2], layout)

    def plain_shape(self, layout: str) -> list[int]:
        """Return the extents of the call's result, which has a layout, in the order NC.."""
        return [self.shape[layout.index(axis)] for axis in "NC" + SPACE[len(layout) - 2]]

    def image(self, axes: int = 2) -> tuple[str, Value]:
        """Return the layout of the operand, which has that many axes of space, and it as NC.."""
        self.require_floats()
        layout, plain = str(self.attrs.layout), "NC" + SPACE[axes]
        self.require(sorted(layout) == sorted(plain), "layout", layout)
        return layout, self.in_layout(self.values[0], layout, plain)

    def in_layout(self, value: Value, layout: str, wanted: str) -> Value:
        """Return a value of one layout in another of the same letters."""
        return self.transposed(value, [layout.index(axis) for axis in wanted])

    def transposed(self, value: Value, order: Iterable[int]) -> Value:
        """Return a value with its axes in that order: constants at once, others by a node."""
        order = [int(axis) for axis in order]
        if order == list(range(value.rank)):
            return value
        shape = [value.shape[axis] for axis in order]
        known = self._known_changed(value, lambda array: np.transpose(array, order), order.index)
        if known is not None:
            return known
        return self.graph.node("Transpose", [value], shape, value.dtype, perm=order)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value with another shape of as many elements."""
        shape = tuple(int(extent) for extent in shape)
        if shape == value.shape:
            return value

        def axis_of(axis: int) -> int | None:
            """Return the place of an axis of which all others are one, or before which none
            changed."""
            extent = value.shape[axis]
            is_alone = extent == math.prod(value.shape) and extent in shape
            is_kept = shape[: axis + 1] == value.shape[: axis + 1]
            return shape.index(extent) if is_alone else axis if is_kept else None

        known = self._known_changed(value, lambda array: array.reshape(shape), axis_of)
        if known is not None:
            return known
        return self.graph.node("Reshape", [value, self.graph.ints(shape)], shape, value.dtype)

    def _known_changed(
        self,
        value: Value,
        change: Callable[[np.ndarray], np.ndarray],
        axis_of: Callable[[int], int | None],
    ) -> Value | None:
        """Return what a change of places makes of a constant, or of one that is dequantised: there
        the bytes change, and the axis of the scales. None for other values."""
        array = self.graph.array_of(value)
        if array is not None:
            return self.graph.constant(change(array))
        node = self.graph.producer(value)
        if node is None or node.operator != "DequantizeLinear":
            return None
        data, *parameters = map(self.graph.value_of, node.inputs)
        array, attrs = self.graph.array_of(data), dict(node.attrs)
        if array is None:
            return None
        if "axis" in attrs:
            axis = axis_of(attrs["axis"])
            if axis is None:
                return None
            attrs["axis"] = axis
        changed = self.graph.constant(change(array))
        inputs = [changed, *parameters]
        return self.graph.node(node.operator, inputs, changed.shape, value.dtype, **attrs)
