# SPDX-License-Identifier: Apache-2.0
"""Recognises layer normalization over the last axis in the ops that TVM and exporters write it in.

    (x - mean(x)) / sqrt(variance(x) + epsilon) [* scale] [+ shift]

The variance may be the op or the mean of squares of x - mean(x); the division may be a product with
a reciprocal root or with one over the root. Other axes, and what somebody else reads a part of,
stay single ops.
Test: backends/dnnl/test_norms.py.
"""

from __future__ import annotations

import dataclasses
import math

from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard

from ...errors import UnsupportedOpError
from ...relay_util.walk import key_of
from ..partition.graph import Graph, Operation
from ..partition.lowering import check

_RANKS = range(2, 6)  # numbers of axes that oneDNN's primitive takes


@dataclasses.dataclass
class LayerNorm:
    """A layer normalisation; tensors by number."""

    x: int
    epsilon: float
    scale: int | None = None  # one number a column, or None
    shift: int | None = None  # one number a column, or None

    def inputs(self) -> list[int]:
        return [tensor for tensor in (self.x, self.scale, self.shift) if tensor is not None]


def recognise_layer_norms(graph: Graph) -> None:
    """Replace each of them, the largest first, by a node ``layer_norm`` (attrs: a LayerNorm)."""
    finder, inside = _Finder(graph), set()
    for node in reversed(graph.nodes):
        found = None if node.output in inside else finder.ending_at(node)
        if found is not None:
            norm, piece = found
            inside.update(piece)
            node.op, node.attrs, node.inputs = "layer_norm", norm, norm.inputs()
    graph.remove_unused()


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._producers = {node.output: node for node in graph.nodes}
        self._users = graph.users()

    def ending_at(self, node: Operation) -> tuple[LayerNorm, set[int]] | None:
        """Return the norm and the tensors inside that it makes needless."""
        norm = self._normalised(node)
        if norm is not None:
            return norm, set()
        for op, field in (("add", "shift"), ("multiply", "scale")):
            for value, column in self._ordered(node, op):
                producer = self._producers.get(value)
                is_scaled = self._is_inner(value) and self._is_column(column, value)
                if producer is None or not is_scaled:
                    continue
                before = self.ending_at(producer)
                if before and before[0].shift is None and getattr(before[0], field) is None:
                    norm = dataclasses.replace(before[0], **{field: self._graph.flattened(column)})
                    return norm, {*before[1], value}
        return None

    def _normalised(self, node: Operation) -> LayerNorm | None:
        for value, factor in self._ordered(node, "multiply"):
            if found := self._divided(value, self._reciprocal_root(factor)):
                return found
        if node.op == "divide":
            return self._divided(node.inputs[0], self._made_by(node.inputs[1], "sqrt"))
        return None

    def _reciprocal_root(self, tensor: int) -> Operation | None:
        root = self._made_by(tensor, "rsqrt")
        quotient = self._made_by(tensor, "divide")
        if root is None and quotient is not None:
            one, divisor = quotient.inputs
            root = self._made_by(divisor, "sqrt") if self._graph.scalar(one) == 1.0 else None
        return root

    def _divided(self, value: int, root: Operation | None) -> LayerNorm | None:
        """Return the norm of value over the root, if its operand is the variance and epsilon."""
        x = self._centred(value)
        if x is None or root is None:
            return None
        for variance, epsilon in self._ordered(self._made_by(root.inputs[0], "add"), "add"):
            number = self._graph.scalar(epsilon)
            if number is not None and self._is_variance(variance, x):
                return LayerNorm(x, number)
        return None

    def _centred(self, tensor: int) -> int | None:
        """Return x if the tensor is x - mean(x) over the last axis."""
        node = self._made_by(tensor, "subtract")
        if node is None:
            return None
        x, mean = node.inputs
        return x if self._is_mean(mean, x) else None

    def _is_mean(self, tensor: int, x: int) -> bool:
        node = self._made_by(tensor, "mean")
        return node is not None and node.inputs == [x] and self._is_over_last_axis(tensor, x)

    def _is_variance(self, tensor: int, x: int) -> bool:
        if not self._is_over_last_axis(tensor, x):
            return False
        node = self._made_by(tensor, "variance")
        if node is not None:
            is_biased = not node.attrs.unbiased
            return is_biased and node.inputs[0] == x and self._is_mean(node.inputs[1], x)
        node = self._made_by(tensor, "mean")
        square = node and self._producers.get(node.inputs[0])
        if not square:
            return False
        is_square = {
            "multiply": lambda a, b: a == b,
            "power": lambda _, b: self._graph.scalar(b) == 2.0,
        }
        is_known = square.op in is_square and is_square[square.op](*square.inputs)
        return is_known and self._centred(square.inputs[0]) == x

    def _is_over_last_axis(self, reduced: int, x: int) -> bool:
        # By shapes: reducing an axis of one changes nothing, so these say it all but for a last
        # axis of one, which is nothing to normalise.
        shape = self._graph.shapes[x]
        is_known = len(shape) in _RANKS and shape[-1] > 1
        return is_known and self._graph.shapes[reduced] == (*shape[:-1], 1)

    def _made_by(self, tensor: int, op: str) -> Operation | None:
        node = self._producers.get(tensor)
        return node if node is not None and node.op == op else None

    def _ordered(self, node: Operation | None, op: str) -> list[list[int]]:
        """Return the operands of an op whose order does not matter, both ways."""
        if node is None or node.op != op:
            return []
        return [node.inputs, node.inputs[::-1]]

    def _is_inner(self, tensor: int) -> bool:
        return len(self._users.get(tensor, [])) == 1 and tensor not in self._graph.outputs

    def _is_column(self, tensor: int, rows: int) -> bool:
        """Return whether it is one number a column, and gives the rows no further axis."""
        shape = self._graph.shapes[tensor]
        is_flat = len(shape) == 1 or tensor in self._graph.constants
        has_axes = 0 < len(shape) <= len(self._graph.shapes[rows])
        return is_flat and has_axes and math.prod(shape) == shape[-1] > 1


def lower_layer_norm(graph: Graph, node: Operation) -> Operation:
    """Return oneDNN's node: inputs x and, by its flags, scale and shift."""
    norm: LayerNorm = node.attrs
    rank, columns = len(graph.shapes[norm.x]), graph.shapes[norm.x][-1:]
    check(graph, node, rank in _RANKS, "number of axes", rank)
    for tensor in norm.inputs()[1:]:
        if graph.shapes[tensor] != columns:
            shape = graph.shapes[tensor]
            raise UnsupportedOpError("dnnl", "layer_norm", f"scale or shift of shape {shape}")
    ints = {"scale": [int(norm.scale is not None)], "shift": [int(norm.shift is not None)]}
    attrs = {"ints": ints, "floats": {"epsilon": norm.epsilon}}
    return Operation("layer_norm", norm.inputs(), node.output, attrs=attrs)


def layer_norm_pattern() -> DFPattern:
    """Return the pattern of the whole with scale and shift, as SimplifyInference writes it."""
    x = wildcard()
    # The same mean or its twin: common subexpressions may not have been joined yet.
    variance = is_op("variance")(x, is_op("mean")(x))
    root = is_op("sqrt")(is_op("add")(variance, is_constant()))
    difference = is_op("subtract")(x, is_op("mean")(x))
    normalised = is_op("divide")(difference, root) | is_op("multiply")(
        difference, is_op("divide")(is_constant(), root)
    )
    return is_op("add")(is_op("multiply")(normalised, is_constant()), is_constant())


def layer_norm_calls(expr: relay.Call) -> list[relay.Call]:
    """Return the calls of what layer_norm_pattern has matched at expr."""
    difference = expr
    while difference.op.name != "subtract":
        # What is not whole is a column or the root.
        difference = next(
            arg
            for arg in difference.args
            if isinstance(arg, relay.Call) and arg.checked_type == expr.checked_type
        )
    x = difference.args[0]
    found, waiting = {}, [expr]
    while waiting:
        call = waiting.pop()
        if isinstance(call, relay.Call) and not call.same_as(x) and key_of(call) not in found:
            found[key_of(call)] = call
            waiting.extend(call.args)
    return list(found.values())
