# SPDX-License-Identifier: Apache-2.0
"""The kernel of a recurrent layer for CPUs, in TIR. Test: tests/python/collage/test_recurrence.py.

A step is a product of the state by the weights, then functions of gates. Products of one or a few
rows take as long as their weights take to arrive from the cache: so the weights are read once a
step, in the order in which they lie, for several rows at a time, and sums stay in the first cache.
Rows and directions don't know of each other, so each thread has some of them from the first step to
the last. One row of one direction with many weights is spread over threads in each step instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tir

from .recurrent_layer import KINDS, Recurrence

# Numbers in a vector, as many as the widest CPUs have; TVM's LLVM splits them for others.
_LANES = 16
# Rows of weights that are added to a sum at once, and rows of state that they are read for.
_DEPTH, _MOST_ROWS = 8, 4
# Products from which on threads are worth what it takes to wake them.
_MANY = 1 << 20
# Columns that a thread takes at once in a step that is spread over threads.
_BLOCK = 256

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda x: tir.max(x, tir.const(0, "float32")),
    "Sigmoid": tir.sigmoid,
    "Tanh": tir.tanh,
}


def kernel(what: Recurrence, operands: Sequence[Any], results: Sequence[Any]) -> tir.Stmt:
    """The statement that fills the results' buffers from the operands'."""
    steps, directions, batch, units = (int(extent) for extent in results[0].shape)
    rows = next(n for n in range(_MOST_ROWS, 0, -1) if batch % n == 0)
    layer = _Layer(what, tvm.tir.ir_builder.create(), operands, results, units, rows)
    products = batch * units * units * KINDS[what.kind].gates
    parts = directions * (batch // rows)
    is_shared = parts > 1 and steps * directions * products >= _MANY
    layer.blocks_are_shared = parts == 1 and products >= _MANY
    ib = layer.ib
    with ib.for_range(0, parts, name="part", kind="parallel" if is_shared else "serial") as part:
        layer.run(steps, part // (batch // rows), part % (batch // rows) * rows)
    return ib.get()


@dataclasses.dataclass
class _Layer:
    """A kernel under construction, for `rows` rows of one direction at a time."""

    what: Recurrence
    ib: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    units: int
    rows: int
    blocks_are_shared: bool = False

    def run(self, steps: int, direction: Any, first: Any) -> None:
        """All steps for the rows from `first` on."""
        ib, units, width = self.ib, self.units, self.units * KINDS[self.what.kind].gates
        self.direction, self.first = direction, first
        operands = map(ib.buffer_ptr, self.operands)
        self.projected, self.weights, self.bias, self.lengths, *starts = operands
        self.all, *lasts = map(ib.buffer_ptr, self.results)
        self.states = [
            ib.allocate("float32", (self.rows, units), name=name, scope="global")
            for name in ("state", "cell")[: len(starts)]
        ]
        self.sums = ib.allocate("float32", (self.rows, width), name="sums", scope="global")
        for start, state in zip(starts, self.states):
            self._load(state, start)
        with ib.for_range(0, steps, name="step") as step:
            self.step = _turned(self.what.direction, direction, step, steps)
            _STEPS[self.what.kind](self)
        for state, last in zip(self.states, lasts):
            self._store(last, state)

    def _load(self, state: Any, start: Any) -> None:
        self.for_units(
            lambda row, unit: _set(
                state, (row, unit), start[self.direction, self.first + row, unit]
            )
        )

    def _store(self, last: Any, state: Any) -> None:
        self.for_units(
            lambda row, unit: _set(last, (self.direction, self.first + row, unit), state[row, unit])
        )

    def function(self, index: int, value: Any) -> Any:
        return _FUNCTIONS[self.what.activations[index]](value)

    def input(self, row: Any, column: Any) -> Any:
        return self.projected[self.step, self.first + row, self.direction, column]

    def product(self, state: Any, begin: int, end: int, with_input: bool = True) -> None:
        """Columns of the sums: bias, the inputs' part and the state by the weights."""
        if not self.blocks_are_shared:
            self._columns(state, begin, end - begin, with_input)
            return
        whole, rest = divmod(end - begin, _BLOCK)
        with self.ib.for_range(0, whole, name="block", kind="parallel") as block:
            self._columns(state, begin + block * _BLOCK, _BLOCK, with_input)
        if rest:
            self._columns(state, end - rest, rest, with_input)

    def _columns(self, state: Any, begin: Any, extent: int, with_input: bool) -> None:
        def start(column: Any) -> None:
            for row in range(self.rows):
                value = self.bias[self.direction, begin + column]
                if with_input:
                    value = value + self.input(row, begin + column)
                self.sums[row, begin + column] = value

        def add(first: Any, depth: int, column: Any) -> None:
            for row in range(self.rows):
                value = self.sums[row, begin + column]
                for k in range(depth):
                    weight = self.weights[self.direction, first + k, begin + column]
                    value = value + state[row, first + k] * weight
                self.sums[row, begin + column] = value

        self._in_vectors(extent, start)
        whole, rest = divmod(self.units, _DEPTH)
        with self.ib.for_range(0, whole, name="k") as k:
            self._in_vectors(extent, lambda column: add(k * _DEPTH, _DEPTH, column))
        if rest:
            self._in_vectors(extent, lambda column: add(whole * _DEPTH, rest, column))

    def renew(self, state: Any, value: Callable[[Any, Any], Any]) -> None:
        """A state's next values from row and unit; those of rows that have ended stay."""
        self.for_units(
            lambda row, unit: _set(
                state, (row, unit), tir.Select(self._lasts(row), value(row, unit), state[row, unit])
            )
        )

    def finish(self, value: Callable[[Any, Any], Any]) -> None:
        """Renews the first state, which is a result too."""
        state = self.states[0]
        self.renew(state, value)
        self.for_units(
            lambda row, unit: _set(
                self.all,
                (self.step, self.direction, self.first + row, unit),
                tir.Select(self._lasts(row), state[row, unit], tir.const(0, "float32")),
            )
        )

    def _lasts(self, row: Any) -> Any:
        return self.step < self.lengths[self.first + row]

    def for_units(self, body: Callable[[Any, Any], None]) -> None:
        with self.ib.for_range(0, self.rows, name="row") as row:
            self._in_vectors(self.units, lambda unit: body(row, unit))

    def _in_vectors(self, extent: int, body: Callable[[Any], None]) -> None:
        whole, rest = divmod(extent, _LANES)
        if whole:
            vectors = self.ib.for_range(0, whole, name="vector")
            lanes = self.ib.for_range(0, _LANES, name="lane", kind="vectorize")
            with vectors as vector, lanes as lane:
                body(vector * _LANES + lane)
        if rest:
            with self.ib.for_range(0, rest, name="lane", kind="vectorize") as lane:
                body(whole * _LANES + lane)


def _set(buffer: Any, index: Any, value: Any) -> None:
    buffer[index] = value


def _turned(name: str, direction: Any, step: Any, steps: int) -> Any:
    """The place in time of a step."""
    if name == "forward":
        return step
    back = steps - 1 - step
    return back if name == "reverse" else tir.if_then_else(direction == 0, step, back)


def _rnn(layer: _Layer) -> None:
    layer.product(layer.states[0], 0, layer.units)
    layer.finish(lambda row, unit: layer.function(0, layer.sums[row, unit]))


def _lstm(layer: _Layer) -> None:
    units, sums, cell = layer.units, layer.sums, layer.states[1]
    layer.product(layer.states[0], 0, 4 * units)

    def next_cell(row: Any, unit: Any) -> Any:
        given, kept = (layer.function(0, sums[row, unit + gate * units]) for gate in (0, 2))
        new = layer.function(1, sums[row, unit + 3 * units])
        return kept * cell[row, unit] + given * new

    layer.renew(cell, next_cell)
    layer.finish(
        lambda row, unit: (
            layer.function(0, sums[row, unit + units]) * layer.function(2, cell[row, unit])
        )
    )


def _gru(layer: _Layer) -> None:
    units, sums, state = layer.units, layer.sums, layer.states[0]
    if layer.what.linear_before_reset:
        layer.product(state, 0, 2 * units)
        layer.product(state, 2 * units, 3 * units, with_input=False)
    else:
        reset = layer.ib.allocate("float32", (layer.rows, units), name="reset", scope="global")
        layer.product(state, 0, 2 * units)
        layer.for_units(
            lambda row, unit: _set(
                reset,
                (row, unit),
                layer.function(0, sums[row, unit + units]) * state[row, unit],
            )
        )
        layer.product(reset, 2 * units, 3 * units)

    def value(row: Any, unit: Any) -> Any:
        hidden = sums[row, unit + 2 * units]
        if layer.what.linear_before_reset:
            gate = layer.function(0, sums[row, unit + units])
            hidden = layer.input(row, unit + 2 * units) + gate * hidden
        kept = layer.function(0, sums[row, unit])
        new = layer.function(1, hidden)
        return new + kept * (state[row, unit] - new)

    layer.finish(value)


_STEPS: dict[str, Callable[[_Layer], None]] = {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}
