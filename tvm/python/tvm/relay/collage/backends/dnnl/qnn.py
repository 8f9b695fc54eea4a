# SPDX-License-Identifier: Apache-2.0
"""From Relay's quantised ops to oneDNN primitives: products of bytes, and arithmetic in float32.

A product's sums are int32; a scale and a zero point on the way to bytes are elementwise float32
work, and a conversion that rounds to the nearest. fuse.py makes one primitive of such a chain.
Scales and zero points must be constants. Test: backends/dnnl/test_qnn.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tvm

from ...errors import UnsupportedOpError
from ..partition.graph import Graph, Operation

_FEW = 16  # elements of a constant that a predicate may look at (Backend.local_predicates)


class Chain:
    """Elementwise work on one tensor, a node after another; in float32 unless said otherwise."""

    def __init__(self, graph: Graph, tensor: int) -> None:
        self.graph, self.tensor = graph, tensor
        self.nodes: list[Operation] = []

    def _add(self, op: str, inputs: list[int], attrs: dict, dtype: str = "float32") -> None:
        tensor = self.graph.new_tensor(self.graph.shapes[self.tensor], dtype)
        self.nodes.append(Operation(op, inputs, tensor, attrs=attrs))
        self.tensor = tensor

    def as_float(self) -> Chain:
        if self.graph.dtypes[self.tensor] != "float32":
            self._add("convert", [self.tensor], conversion("nearest"))
        return self

    def linear(self, alpha: float, beta: float) -> Chain:
        """Return the chain of alpha * x + beta."""
        if (alpha, beta) != (1.0, 0.0):
            self._add("eltwise", [self.tensor], linear(alpha, beta))
        return self

    def binary(self, algorithm: str, other: int) -> Chain:
        self._add("binary", [self.tensor, other], {"strings": {"algorithm": algorithm}})
        return self

    def scale(self, factors: np.ndarray, axis: int) -> Chain:
        """Multiply by one factor, or by one for each index along the axis."""
        if factors.size == 1:
            return self.linear(float(factors.reshape(())), 0.0)
        return self.binary("mul", self._along(factors, axis))

    def shift(self, summands: np.ndarray, axis: int) -> Chain:
        """Add one number, or one for each index along the axis."""
        if summands.size == 1:
            return self.linear(1.0, float(summands.reshape(())))
        return self.binary("add", self._along(summands, axis)) if summands.any() else self

    def _along(self, numbers: np.ndarray, axis: int) -> int:
        shape = [1] * len(self.graph.shapes[self.tensor])
        shape[axis] = numbers.size
        return self.graph.new_constant(tvm.nd.array(numbers.reshape(shape).astype("float32")))

    def ending_as(self, output: int) -> list[Operation]:
        """Return the nodes; the last one is a conversion to the type of the op's result."""
        self.nodes.append(Operation("convert", [self.tensor], output, attrs=conversion("nearest")))
        return self.nodes


def linear(alpha: float, beta: float) -> dict:
    """Return the attributes of alpha * x + beta."""
    return {"strings": {"algorithm": "linear"}, "floats": {"alpha": alpha, "beta": beta}}


def conversion(rounding: str) -> dict:
    """Return the attributes of a conversion that rounds so."""
    return {"strings": {"rounding": rounding}}


def product(
    lower_float: Callable[[Graph, Operation], Operation],
) -> Callable[[Graph, Operation], Operation]:
    """Return the lowering of a quantised product, given that of the op in float32."""

    def lower(graph: Graph, node: Operation) -> Operation:
        zero_point = _one(graph, node, 2, name="input_zero_point")
        weights_zero = _constant(graph, node, 3, name="kernel_zero_point")
        if weights_zero.size > _FEW or weights_zero.any():
            raise _unsupported(node, "kernel_zero_point", "other than 0")
        plain = lower_float(graph, dataclasses.replace(node, inputs=node.inputs[:2]))
        if zero_point:
            plain.attrs["ints"]["src_zero_point"] = [int(zero_point)]
        return plain

    return lower


def requantize(graph: Graph, node: Operation) -> list[Operation]:
    """(x - in_zero) * in_scale / out_scale + out_zero."""
    in_scale = _constant(graph, node, 1, name="input_scale")
    in_zero = _one(graph, node, 2, name="input_zero_point")
    out_scale = _one(graph, node, 3, name="output_scale")
    out_zero = _one(graph, node, 4, name="output_zero_point")
    factors = in_scale / np.float32(out_scale)
    chain = Chain(graph, node.inputs[0]).as_float()
    if factors.size == 1:
        factor = float(factors.reshape(()))
        chain.linear(factor, out_zero - in_zero * factor)
    else:
        chain.linear(1.0, -in_zero).scale(factors, _axis(graph, node)).linear(1.0, out_zero)
    return chain.ending_as(node.output)


def quantize(graph: Graph, node: Operation) -> list[Operation]:
    """x / scale + zero."""
    scales = _constant(graph, node, 1, name="output_scale")
    chain = Chain(graph, node.inputs[0]).as_float()
    if scales.size > 1:
        axis, zeros = _axis(graph, node), _constant(graph, node, 2, name="output_zero_point")
        return chain.scale(1 / scales, axis).shift(zeros, axis).ending_as(node.output)
    scale = _one(graph, node, 1, name="output_scale")
    zero = _one(graph, node, 2, name="output_zero_point")
    return chain.linear(1.0 / scale, zero).ending_as(node.output)


def dequantize(graph: Graph, node: Operation) -> list[Operation]:
    """(x - zero) * scale."""
    scales = _constant(graph, node, 1, name="input_scale")
    if scales.size > 1:
        return _dequantize_channels(graph, node, scales)
    scale = _one(graph, node, 1, name="input_scale")
    zero = _one(graph, node, 2, name="input_zero_point")
    chain = Chain(graph, node.inputs[0]).as_float()
    attrs = linear(scale, -zero * scale)
    return [*chain.nodes, Operation("eltwise", [chain.tensor], node.output, attrs=attrs)]


def _dequantize_channels(graph: Graph, node: Operation, scales: np.ndarray) -> list[Operation]:
    """Dequantise with a scale and a zero point for each channel."""
    axis = _axis(graph, node)
    zeros = _constant(graph, node, 2, name="input_zero_point")
    chain = Chain(graph, node.inputs[0]).as_float().shift(-zeros, axis).scale(scales, axis)
    chain.nodes[-1].output = node.output
    return chain.nodes


def add(graph: Graph, node: Operation) -> list[Operation]:
    """((a - a_zero) * a_scale + (b - b_zero) * b_scale) / out_scale + out_zero."""
    names = [f"{of}_{what}" for of in ("lhs", "rhs", "output") for what in ("scale", "zero_point")]
    values = [_one(graph, node, 2 + i, name=name) for i, name in enumerate(names)]
    a_scale, a_zero, b_scale, b_zero, out_scale, out_zero = values
    a, b = a_scale / out_scale, b_scale / out_scale
    first, second = node.inputs[:2]
    shapes = {graph.shapes[tensor] for tensor in (first, second, node.output)}
    if len(shapes) > 1:
        raise _unsupported(node, "shapes", "that broadcast")
    right = Chain(graph, second).as_float().linear(b, -b_zero * b)
    left = Chain(graph, first).as_float().linear(a, out_zero - a_zero * a)
    return [*right.nodes, *left.binary("add", right.tensor).ending_as(node.output)]


def _axis(graph: Graph, node: Operation) -> int:
    return int(node.attrs.axis) % len(graph.shapes[node.inputs[0]])


def _constant(graph: Graph, node: Operation, index: int, name: str) -> np.ndarray:
    array = graph.constants.get(node.inputs[index])
    if array is None:
        raise _unsupported(node, name, "that is not a constant")
    return array.numpy()


def _one(graph: Graph, node: Operation, index: int, name: str) -> float:
    values = _constant(graph, node, index, name=name)
    if values.size != 1:
        raise _unsupported(node, name, f"of {values.size} elements")
    value = float(values.reshape(()))
    if not math.isfinite(value) or ("scale" in name and value <= 0):
        raise _unsupported(node, name, f"{value}")
    return value


def _unsupported(node: Operation, name: str, what: str) -> UnsupportedOpError:
    return UnsupportedOpError("dnnl", node.op, f"{name} {what} is not supported")
