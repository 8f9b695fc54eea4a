# SPDX-License-Identifier: Apache-2.0
"""The recurrent cell found by architecture search (arXiv 1611.01578, appendix), unrolled.

The weights are the same in each step; each gate has a matrix of its own for the input and one for
the state, so that joining them is the compiler's to find. Test: bench/test_models.py.
"""

from __future__ import annotations

import math

import onnx

from .graph import Graph
from .net import Net

WIDTH, STEPS, GATES = 512, 5, 8
# How a gate combines its two products, and what follows.
_COMBINE = ("Add", "Add", "Add", "Mul", "Add", "Add", "Add", "Add")
_ACTIVATION = ("Sigmoid", "Relu", "Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Sigmoid")


def nasrnn(batch: int) -> onnx.ModelProto:
    g = Graph("nasrnn")
    sequence = [g.input(f"step_{k}", (batch, WIDTH)) for k in range(STEPS)]
    state, cell = g.input("state", (batch, WIDTH)).name, g.input("cell", (batch, WIDTH)).name
    deviation = math.sqrt(1 / WIDTH)
    of_input = [g.normal((WIDTH, WIDTH), deviation) for _ in range(GATES)]
    of_state = [g.normal((WIDTH, WIDTH), deviation) for _ in range(GATES)]
    for x in sequence:
        gates = []
        for k in range(GATES):
            products = g.op("MatMul", x, of_input[k]), g.op("MatMul", state, of_state[k])
            gates.append(g.op(_ACTIVATION[k], g.op(_COMBINE[k], *products)))
        forgotten = g.op("Tanh", g.op("Mul", gates[0], gates[1]))
        added = g.op("Tanh", g.op("Add", gates[2], gates[3]))
        shown = g.op("Tanh", g.op("Mul", gates[4], gates[5]))
        kept = g.op("Sigmoid", g.op("Add", gates[6], gates[7]))
        cell = g.op("Mul", g.op("Tanh", g.op("Add", forgotten, cell)), added)
        output = g.op("Tanh", g.op("Add", shown, kept))
        state = g.op("Tanh", g.op("Mul", g.op("Tanh", cell), output))
    return g.model(state, cell)


_MATRICES = 2 * GATES * WIDTH**2

NETS = [
    Net(
        "nasrnn",
        "NAS RNN cell of width 512, 5 steps",
        nasrnn,
        "by definition: 8 gates with a matrix each for input and state; none published",
        _MATRICES,
        STEPS * _MATRICES,
    ),
]
