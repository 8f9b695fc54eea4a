# SPDX-License-Identifier: Apache-2.0
"""ONNX's recurrent layers as one operator each, where TVM writes out the operators of all steps.

The inputs of all steps are multiplied by their weights at once, in one `nn.dense` that any backend
can take; what is left is an operator of ours (ops/recurrence.py). A layer that this operator does
not describe is TVM's to import, but for what TVM would drop without a word.

Test: ops/test_recurrence.py. Docs: docs/import.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relay

from ..ops import KINDS, Recurrence, recurrence
from ..relay_util.walk import static_shape

RECURRENT = frozenset(KINDS)
# What a node may do without: places of its inputs, after data and the two weights.
_BIAS, _LENGTHS, _STATE, _PEEPHOLES = 3, 4, 5, 7


def layer(
    op: str,
    inputs: Sequence[relay.Expr | None],
    attrs: dict[str, Any],
    type_of: Callable[[relay.Expr], relay.Type],
) -> relay.expr.TupleWrapper | None:
    """Return a node's results, or None for a node that is left to TVM. ValueError for one that TVM
    would import as if something of it were not there."""
    given = [*inputs, *[None] * 8][:8]
    what, extents = _recurrence(op, attrs), [_extents(type_of(item)) for item in given[:3]]
    is_static = all(_shape(type_of(item)) for item in given[_BIAS:_PEEPHOLES] if item is not None)
    if what is not None and None not in extents and is_static and given[_PEEPHOLES] is None:
        return _layer(what, given, extents, is_batch_first=bool(attrs.get("layout", 0)))
    dropped = [name for name in ("clip", "input_forget") if attrs.get(name)]
    if given[_LENGTHS] is not None and op != "GRU":
        dropped.append("sequence_lens")
    if dropped:
        raise ValueError(f"it has no {' and no '.join(dropped)} for a layer of this kind")
    return None


def _recurrence(op: str, attrs: dict[str, Any]) -> Recurrence | None:
    """Return what a node computes; None where there is no kernel for it."""
    if attrs.get("clip") or attrs.get("input_forget"):
        return None
    direction = _text(attrs.get("direction", "forward"))
    default = KINDS[op].activations
    names = [_text(name) for name in attrs.get("activations", ())] or [*default] * 2
    # Each direction may have its own, in TVM's kernels alone.
    first, second = names[: len(default)], names[len(default) :]
    if direction == "bidirectional" and first != second[: len(default)]:
        return None
    try:
        return Recurrence(
            op,
            direction,
            tuple(first),
            linear_before_reset=bool(attrs.get("linear_before_reset", 0)),
        )
    except ValueError:
        return None


def _layer(
    what: Recurrence, given: Sequence[Any], extents: Sequence[Any], is_batch_first: bool
) -> relay.expr.TupleWrapper:
    swap = [1, 0, 2]
    data, weights, state_weights, bias = given[: _BIAS + 1]
    steps, batch, width = extents[0]
    if is_batch_first:
        steps, batch = batch, steps
        data = relay.transpose(data, swap)
    directions, gates, units = extents[2]
    rows = relay.reshape(data, (steps * batch, width))
    projected = relay.nn.dense(rows, relay.reshape(weights, (directions * gates, width)))
    if bias is None:
        state_bias = relay.const(np.zeros((directions, gates), "float32"))
    else:
        halves = relay.split(bias, 2, axis=1)
        projected = relay.nn.bias_add(projected, relay.reshape(halves[0], (directions * gates,)))
        state_bias = halves[1]
    projected = relay.reshape(projected, (steps, batch, directions, gates))
    lengths = given[_LENGTHS]
    if lengths is None:
        lengths = relay.const(np.full(batch, steps, "int32"))
    states = []
    for state in given[_STATE : _STATE + KINDS[what.kind].states]:
        if state is None:
            state = relay.const(np.zeros((directions, batch, units), "float32"))
        elif is_batch_first:
            state = relay.transpose(state, swap)
        states.append(state)
    turned = relay.transpose(state_weights, [0, 2, 1])
    call = recurrence(what, projected, turned, state_bias, lengths, *states)
    results = relay.expr.TupleWrapper(call, 1 + len(states))
    if not is_batch_first:
        return results
    all_states, *last = results
    fields = [
        relay.transpose(all_states, [2, 0, 1, 3]),
        *(relay.transpose(state, swap) for state in last),
    ]
    return relay.expr.TupleWrapper(relay.Tuple(fields), len(fields))


def _extents(tensor_type: relay.Type) -> tuple[int, ...] | None:
    """Return the extents of a float32 tensor of known shape, else None."""
    return _shape(tensor_type) if getattr(tensor_type, "dtype", "") == "float32" else None


def _shape(tensor_type: relay.Type) -> tuple[int, ...] | None:
    """Return the shape of a tensor, None where an extent is not known."""
    return static_shape(tensor_type) if isinstance(tensor_type, relay.TensorType) else None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
