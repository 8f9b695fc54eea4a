# SPDX-License-Identifier: Apache-2.0
"""The operators `collage.lstm`, `collage.gru` and `collage.rnn`: all steps of a recurrent layer.

Relay has no operator for such a layer, so its importers write the operators of all steps: hundreds
of small kernels, none of which knows that the weights are the same. This is what depends on the
step before; the product of all inputs by their weights is an ordinary `nn.dense` before it.

Their operands, with T steps, a batch of B, D directions, H units and G gates (as many as ONNX has):
    projected (T, B, D, G*H)  inputs by their weights, with their bias
    weights   (D, H, G*H)     of the state, transposed, so that kernels read them in order
    bias      (D, G*H)        of the state
    lengths   (B,) of int32   steps of each row: behind them outputs are 0 and the state stays
    state     (D, B, H)       at the start
    cell      (D, B, H)       at the start, of an LSTM alone
The result is a tuple: the states (T, D, B, H), the last ones (D, B, H), an LSTM's last cell too.
Gates are in ONNX's order: input, output, forget, cell; update, reset, hidden.

Test: ops/test_recurrence.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relay, te
from tvm.relay.op import op as registry

from .recurrence_kernel import kernel, registers_of
from .recurrent_layer import KINDS, Recurrence
from .register import register

_OPERANDS = ("projected", "weights", "bias", "lengths", "state", "cell")


def recurrence(what: Recurrence, *operands: Any) -> Any:
    """Call a kind's operator; its results are in a tuple."""
    attrs = tvm.ir.make_node(
        "DictAttrs",
        direction=what.direction,
        activations=list(what.activations),
        linear_before_reset=int(what.linear_before_reset),
    )
    operator = registry.get(KINDS[what.kind].operator)
    return relay.Call(operator, list(operands), attrs)


def _type_of(kind: str, types: Sequence[tvm.ir.Type], attrs: tvm.ir.Attrs) -> Any:
    """Return the results' type; None while TVM does not know the operands'. TVMError for wrong
    ones."""
    if not all(isinstance(item, relay.TensorType) for item in types):
        return None
    what, gates = Recurrence.of(kind, attrs), KINDS[kind].gates
    if [len(item.shape) for item in types[:2]] != [4, 3]:
        raise tvm.TVMError(f"{KINDS[kind].operator}: the first operands are {types[:2]}")
    (steps, batch, *_), units = types[0].shape, types[1].shape[1]
    states = [relay.TensorType([what.directions, batch, units])] * KINDS[kind].states
    wanted = [
        relay.TensorType([steps, batch, what.directions, units * gates]),
        relay.TensorType([what.directions, units, units * gates]),
        relay.TensorType([what.directions, units * gates]),
        relay.TensorType([batch], "int32"),
        *states,
    ]
    for item, expected in zip(types, wanted, strict=True):
        if not tvm.ir.structural_equal(item, expected):
            message = f"an operand is {item}, and should be {expected}"
            raise tvm.TVMError(f"{KINDS[kind].operator}: {message}")
    return relay.TupleType([relay.TensorType([steps, *states[0].shape]), *states])


def _compute_for(kind: str, target: tvm.target.Target) -> Callable[..., Sequence[te.Tensor]]:
    def compute(
        attrs: tvm.ir.Attrs, inputs: Sequence[te.Tensor], out_type: tvm.ir.Type
    ) -> Sequence[te.Tensor]:
        return te.extern(
            [list(field.shape) for field in out_type.fields],
            list(inputs),
            functools.partial(kernel, Recurrence.of(kind, attrs), registers_of(target)),
            dtype=[field.dtype for field in out_type.fields],
            name=kind.lower(),
        )

    return compute


for _kind, _what in KINDS.items():
    register(
        _what.operator,
        _OPERANDS[: 4 + _what.states],
        functools.partial(_type_of, _kind),
        compute_for=functools.partial(_compute_for, _kind),
    )
