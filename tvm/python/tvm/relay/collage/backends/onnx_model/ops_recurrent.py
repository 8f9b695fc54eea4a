# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of Relay in ONNX. Test: backends/onnx_model/test_ops_recurrent.py.

Relay has the product of the inputs by their weights before the layer, ONNX in it. So a call first
becomes an operator that ONNX does not have, ONNX's without input weights. The rules here, of the
tables in rewrites.py, make it ONNX's: with what is in front of it as the weights, and where that is
no product with the identity.
"""

from __future__ import annotations

import functools

import numpy as np

from ...ops import KINDS, Recurrence
from .builder import OnnxNode, Value
from .call import ExportedCall
from .rewriting import Rewriting, Table

_PROJECTED = "Projected"


def _recurrent(kind: str, call: ExportedCall) -> list[Value]:
    what = Recurrence.of(kind, call.attrs)
    projected, weights, bias, lengths, *states = call.values
    steps, batch, directions, width = projected.shape
    all_steps = call.graph.array_of(lengths)
    has_lengths = all_steps is None or bool((all_steps != steps).any())
    inputs = [
        call.reshaped(projected, (steps, batch, directions * width)),
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
    return call.graph.nodes(_PROJECTED + kind, inputs, call.results, **fields)


def _after_zeros(call: ExportedCall, bias: Value) -> Value:
    """Return both biases in a row: that of the inputs is in front of the layer, or there is
    none."""
    zeros, array = np.zeros(bias.shape, "float32"), call.graph.array_of(bias)
    if array is not None:
        return call.graph.constant(np.concatenate([zeros, array], axis=1))
    both = [call.graph.constant(zeros), bias]
    shape = (bias.shape[0], 2 * bias.shape[1])
    return call.graph.node("Concat", both, shape, bias.dtype, axis=1)


def _may_be_set(call: ExportedCall, state: Value) -> bool:
    """Return whether a state at the start is other than zero, which ONNX takes for none."""
    array = call.graph.array_of(state)
    return array is None or bool(array.any())


def _with_product(walk: Rewriting, node: OnnxNode) -> list[Value] | None:
    """Make a layer of Reshape(Reshape(MatMul(x, a)) + b) one of x, whose weights are a and b."""
    data, bias = node.inputs[0], walk.array(node.inputs[2])
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
    if product is None or factor is None or bias is None:
        return None
    if factor.ndim != 2 or factor.shape[1] != columns:
        return None
    directions, width = bias.shape[0], bias.shape[1] // 2
    source = walk.reshape(walk[product.inputs[0]], (steps, batch, factor.shape[0]))
    weights = np.ascontiguousarray(factor.T).reshape(directions, width, -1)
    both = np.concatenate([shift.reshape(directions, width), bias[:, width:]], axis=1)
    return _as_onnx(walk, node, source, weights=weights, bias=walk.new.constant(both))


def _with_identity(walk: Rewriting, node: OnnxNode) -> list[Value]:
    columns = walk.shape(node.inputs[0])[2]
    identity = np.eye(columns, dtype="float32").reshape(walk.shape(node.inputs[2])[0], -1, columns)
    return _as_onnx(walk, node, walk[node.inputs[0]], weights=identity, bias=walk[node.inputs[2]])


def _as_onnx(
    walk: Rewriting, node: OnnxNode, data: Value, weights: np.ndarray, bias: Value
) -> list[Value]:
    others = [walk[name] if name else None for name in node.inputs[3:]]
    inputs = [data, walk.new.constant(weights), walk[node.inputs[1]], bias, *others]
    types = [(value.shape, value.dtype) for value in node.outputs]
    return walk.new.nodes(node.operator.removeprefix(_PROJECTED), inputs, types, **node.attrs)


# Relay op -> function of an ExportedCall that adds its nodes and returns the results.
RECURRENT = {KINDS[kind].operator: functools.partial(_recurrent, kind) for kind in KINDS}

# For the first and the last stage of rewriting.
WITH_PRODUCT: Table = {_PROJECTED + kind: (_with_product,) for kind in KINDS}
WITH_IDENTITY: Table = {_PROJECTED + kind: (_with_identity,) for kind in KINDS}
