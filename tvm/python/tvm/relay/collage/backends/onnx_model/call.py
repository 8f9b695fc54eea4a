# SPDX-License-Identifier: Apache-2.0
"""One Relay call on its way to ONNX: what the converters get.
Test: backends/onnx_model/test_export.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedOpError
from .builder import GraphBuilder, Value

# The axes of space, by their number, as layouts name them.
SPACE = {1: "W", 2: "HW", 3: "DHW"}


@dataclasses.dataclass(frozen=True)
class ExportedCall:
    """`values`: the operands, a tuple as a tuple; `results`: (shape, dtype) of each result."""

    graph: GraphBuilder
    backend: str
    op: str
    attrs: Any
    values: list
    results: list[tuple[tuple[int, ...], str]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return self.results[0][1]

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

    def require_dtypes(self, *dtypes: str) -> None:
        """Refuse the call unless all operands have one of these dtypes."""
        for value in self.values:
            for each in value if isinstance(value, tuple) else [value]:
                self.require(each.dtype in dtypes, "dtype", each.dtype)

    def result(self, operator: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """Add the node that gives the call's result."""
        return self.graph.node(operator, inputs, self.shape, self.dtype, **attrs)

    def result_in(
        self, layout: str, operator: str, inputs: Sequence[Value | None], **attrs: Any
    ) -> Value:
        """Add the node that gives the call's result, on NC.. inputs, and bring it into a layout."""
        plain = "NC" + SPACE[len(layout) - 2]
        shape = [self.shape[layout.index(axis)] for axis in plain]
        result = self.graph.node(operator, inputs, shape, self.dtype, **attrs)
        return self.in_layout(result, plain, layout)

    def in_layout(self, value: Value, layout: str, wanted: str) -> Value:
        """Return a value of one layout in another of the same letters."""
        return self.transposed(value, [layout.index(axis) for axis in wanted])

    def transposed(self, value: Value, order: Iterable[int]) -> Value:
        """Return a value with its axes in that order: constants at once, others by a node."""
        order = [int(axis) for axis in order]
        if order == list(range(value.rank)):
            return value
        array = self.graph.array_of(value)
        if array is not None:
            return self.graph.constant(np.transpose(array, order))
        shape = [value.shape[axis] for axis in order]
        return self.graph.node("Transpose", [value], shape, value.dtype, perm=order)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value with another shape of as many elements."""
        shape = tuple(int(extent) for extent in shape)
        if shape == value.shape:
            return value
        array = self.graph.array_of(value)
        if array is not None:
            return self.graph.constant(array.reshape(shape))
        return self.graph.node("Reshape", [value, self.graph.ints(shape)], shape, value.dtype)
