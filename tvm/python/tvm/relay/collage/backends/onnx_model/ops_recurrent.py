# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of Relay in ONNX. Test: test_onnx_recurrent.py.

Relay has the product of the inputs by their weights before the layer, ONNX in it. A node is written
whose input weights are the identity; the rule here, of the tables in rewrites.py, then moves what
is in front of it into them.
"""

from __future__ import annotations

import functools

import numpy as np

from ...ops import KINDS, Recurrence
from .builder import Node, Value
from .call import ExportedCall
from .rewriting import Rewriting


def _recurrent(kind: str, call: ExportedCall) -> list[Value]:
    what = Recurrence.of(kind, call.attrs)
    projected, weights, bias, lengths, *states = call.values
    steps, batch, directions, width = projected.shape
    all_steps = call.graph.array_of(lengths)
    has_lengths = all_steps is None or bool((all_steps != steps).any())
    columns = directions * width
    identity = np.eye(columns, dtype="float32").reshape(directions, width, columns)
    inputs = [
        call.reshaped(projected, (steps, batch, columns)),
        call.graph.constant(identity),
        call.transposed(weights, [0, 2, 1]),
        _after_zeros(call, bias),
        lengths if has_lengths else None,
        *(state if _may_be_set(call, state) else None for state in states),
    ]
    while inputs[-1] is None:
        inputs.pop()
    fields = {"hidden_size": weights.shape[1], "direction": what.direction}
    if what.activations != KINDS[kind].activations:
        fields["activations"] = [*what.activations] * directions
    if kind == "GRU":
        fields["linear_before_reset"] = int(what.linear_before_reset)
    return call.graph.nodes(kind, inputs, call.results, **fields)


def _after_zeros(call: ExportedCall, bias: Value) -> Value:
    """Both biases in a row: that of the inputs is in front of the layer, or there is none."""
    zeros, array = np.zeros(bias.shape, "float32"), call.graph.array_of(bias)
    if array is not None:
        return call.graph.constant(np.concatenate([zeros, array], axis=1))
    both = [call.graph.constant(zeros), bias]
    shape = (bias.shape[0], 2 * bias.shape[1])
    return call.graph.node("Concat", both, shape, bias.dtype, axis=1)


def _may_be_set(call: ExportedCall, state: Value) -> bool:
    """Whether a state at the start is other than zero, which is what ONNX takes for none."""
    array = call.graph.array_of(state)
    return array is None or bool(array.any())


def projected_input(walk: Rewriting, node: Node) -> list[Value] | None:
    """A layer of Reshape(Reshape(MatMul(x, a)) + b) is one of x, with a and b in its weights."""
    data, weights, bias = node.inputs[0], walk.array(node.inputs[1]), walk.array(node.inputs[3])
    if weights is None or bias is None:
        return None
    steps, batch, columns = walk.shape(data)
    shift = np.zeros(columns, "float32")
    # Rows stay rows: what one reshape splits the last axis into, another one joins again.
    while (before := walk.made_once(data, "Add", "Reshape")) is not None:
        data = before.inputs[0]
        if before.operator == "Add":
            added = walk.array(before.inputs[1])
            if added is None or added.shape[-1:] != (columns,) or added.size != columns:
                return None
            shift = shift + added.reshape(-1)
    product = walk.made_once(data, "MatMul")
    factor = walk.array(product.inputs[1]) if product else None
    if factor is None or factor.ndim != 2 or factor.shape[1] != columns:
        return None
    gates = weights.shape[1]
    in_bias = bias[:, :gates] + weights @ shift
    inputs = [
        walk.reshape(walk[product.inputs[0]], (steps, batch, factor.shape[0])),
        walk.new.constant(np.ascontiguousarray(weights @ factor.T)),
        walk[node.inputs[2]],
        walk.new.constant(np.concatenate([in_bias, bias[:, gates:]], axis=1)),
        *(walk[name] if name else None for name in node.inputs[4:]),
    ]
    types = [(value.shape, value.dtype) for value in node.outputs]
    return walk.new.nodes(node.operator, inputs, types, **node.attrs)


# Relay op -> function of an ExportedCall that adds its nodes and returns the results.
RECURRENT = {KINDS[kind].operator: functools.partial(_recurrent, kind) for kind in KINDS}
