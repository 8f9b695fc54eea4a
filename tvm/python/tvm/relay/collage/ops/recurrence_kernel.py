# SPDX-License-Identifier: Apache-2.0
"""The kernel of a recurrent layer for CPUs, in TIR. Test: ops/test_recurrence.py.

A step is a product of the state by the weights, then functions of gates. For one row the product
takes as long as its weights take to arrive from the cache: they are read in the order in which they
lie, and sums stay in the first cache. For several rows it goes by tiles whose sums stay in
registers. Rows and directions don't know of each other, so each thread has some of them from the
first step to the last. One row of one direction with many weights is spread over threads in each
step instead.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import tir

from .recurrent_layer import KINDS, Recurrence

# A place, or a number, that may be known when the kernel is made.
Index: TypeAlias = tir.PrimExpr | int

# Rows that are multiplied at once; rows of weights that are added to one row's sums at once.
_MOST_ROWS, _DEPTH = 4, 8
# Products from which on threads are worth what it takes to wake them.
MANY = 1 << 20
# Columns that a thread takes at once in a step that is spread over threads.
BLOCK = 256

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda x: tir.max(x, tir.const(0, "float32")),
    "Sigmoid": tir.sigmoid,
    "Tanh": tir.tanh,
}


@dataclasses.dataclass(frozen=True)
class Registers:
    """The numbers that a vector holds, and the vectors that sums may take."""

    lanes: int
    sums: int


def registers_of(target: tvm.target.Target) -> Registers:
    """Return the registers of AVX-512, else of AVX2, which LLVM splits where there is less."""
    has_features = tvm.target.codegen.target_has_features
    is_wide = target.kind.name == "llvm" and has_features("avx512f", target)
    return Registers(16, 24) if is_wide else Registers(8, 12)


def kernel(
    what: Recurrence, registers: Registers, operands: Sequence[Any], results: Sequence[Any]
) -> tir.Stmt:
    """Return the statement that fills the results' buffers from the operands'."""
    steps, directions, batch, units = (int(extent) for extent in results[0].shape)
    rows = next(n for n in range(_MOST_ROWS, 0, -1) if batch % n == 0)
    layer = _Layer(
        what,
        registers,
        tir.ir_builder.create(),
        operands=operands,
        results=results,
        units=units,
        rows=rows,
    )
    products = batch * units * units * KINDS[what.kind].gates
    groups = max(1, batch // rows)
    parts = directions * (batch // rows)
    is_shared = parts > 1 and steps * directions * products >= MANY
    layer.blocks_are_shared = parts == 1 and products >= MANY
    ib = layer.ib
    with ib.for_range(0, parts, name="part", kind="parallel" if is_shared else "serial") as part:
        layer.run(steps, part // groups, part % groups * rows)
    return ib.get()


@dataclasses.dataclass
class _Layer:
    """A kernel under construction, for `rows` rows of one direction at a time."""

    what: Recurrence
    registers: Registers
    ib: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    units: int
    rows: int
    blocks_are_shared: bool = False

    def run(self, steps: int, direction: Index, first: Index) -> None:
        """Run all steps for the rows from `first` on."""
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
            self.step = _turned(self.what.direction, direction, step, steps=steps)
            _STEPS[self.what.kind](self)
        for state, last in zip(self.states, lasts):
            self._store(last, state)

    def _load(self, state: tir.Buffer, start: tir.Buffer) -> None:
        self.for_units(
            lambda row, unit: _set(
                state, (row, unit), start[self.direction, self.first + row, unit]
            )
        )

    def _store(self, last: tir.Buffer, state: tir.Buffer) -> None:
        self.for_units(
            lambda row, unit: _set(last, (self.direction, self.first + row, unit), state[row, unit])
        )

    def function(self, index: int, value: Index) -> Any:
        return _FUNCTIONS[self.what.activations[index]](value)

    def input(self, row: Index, column: Index) -> Any:
        return self.projected[self.step, self.first + row, self.direction, column]

    def product(self, state: tir.Buffer, begin: int, end: int, with_input: bool = True) -> None:
        """Columns of the sums: bias, the inputs' part and the state by the weights."""
        if not self.blocks_are_shared:
            self._columns(state, begin, end - begin, with_input=with_input)
            return
        whole, rest = divmod(end - begin, BLOCK)
        with self.ib.for_range(0, whole, name="block", kind="parallel") as block:
            self._columns(state, begin + block * BLOCK, BLOCK, with_input=with_input)
        if rest:
            self._columns(state, end - rest, rest, with_input=with_input)

    def _columns(self, state: tir.Buffer, begin: Index, extent: int, with_input: bool) -> None:
        if self.rows == 1:
            self._row(state, begin, extent, with_input=with_input)
            return
        tile = self.registers.lanes * (self.registers.sums // self.rows)
        whole, rest = divmod(extent, tile)
        if whole:
            with self.ib.for_range(0, whole, name="tile") as index:
                self._tile(state, begin + index * tile, tile, with_input=with_input)
        if rest:
            self._tile(state, begin + whole * tile, rest, with_input=with_input)

    def _start(self, row: Index, column: Index, with_input: bool) -> Any:
        bias = self.bias[self.direction, column]
        return bias + self.input(row, column) if with_input else bias

    def _tile(self, state: tir.Buffer, begin: Index, extent: int, with_input: bool) -> None:
        size = self.rows * extent
        sums = self.ib.allocate("float32", (size,), name="in_registers", scope="local")

        def for_sums(body: Callable[[int, Index, Index], None]) -> None:
            for row in range(self.rows):
                for at in range(0, extent, self.registers.lanes):
                    lanes = min(self.registers.lanes, extent - at)
                    with self._lanes(lanes) as lane:
                        body(row, row * extent + at + lane, begin + at + lane)

        def add(k: Index, row: int, place: Index, column: Index) -> None:
            weight = self.weights[self.direction, k, column]
            sums[place] = sums[place] + state[row, k] * weight

        for_sums(lambda r, place, column: _set(sums, place, self._start(r, column, with_input)))
        with self.ib.for_range(0, self.units, name="k") as k:
            for_sums(functools.partial(add, k))
        for_sums(lambda r, place, column: _set(self.sums, (r, column), sums[place]))

    def _row(self, state: tir.Buffer, begin: Index, extent: int, with_input: bool) -> None:
        def start(column: Index) -> None:
            self.sums[0, begin + column] = self._start(0, begin + column, with_input)

        def add(first: Index, depth: int, column: Index) -> None:
            value = self.sums[0, begin + column]
            for k in range(depth):
                weight = self.weights[self.direction, first + k, begin + column]
                value = value + state[0, first + k] * weight
            self.sums[0, begin + column] = value

        self._in_vectors(extent, start)
        whole, rest = divmod(self.units, _DEPTH)
        with self.ib.for_range(0, whole, name="k") as k:
            self._in_vectors(extent, lambda column: add(k * _DEPTH, _DEPTH, column))
        if rest:
            self._in_vectors(extent, lambda column: add(whole * _DEPTH, rest, column))

    def renew(self, state: tir.Buffer, value: Callable[[Index, Index], Index]) -> None:
        """Set a state's next values from row and unit; those of rows that have ended stay."""
        self.for_units(
            lambda row, unit: _set(
                state, (row, unit), tir.Select(self._lasts(row), value(row, unit), state[row, unit])
            )
        )

    def finish(self, value: Callable[[Index, Index], Index]) -> None:
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

    def _lasts(self, row: Index) -> Any:
        return self.step < self.lengths[self.first + row]

    def for_units(self, body: Callable[[Index, Index], None]) -> None:
        with self.ib.for_range(0, self.rows, name="row") as row:
            self._in_vectors(self.units, lambda unit: body(row, unit))

    def _in_vectors(self, extent: int, body: Callable[[Index], None]) -> None:
        size = self.registers.lanes
        whole, rest = divmod(extent, size)
        if whole:
            vectors = self.ib.for_range(0, whole, name="vector")
            with vectors as vector, self._lanes(size) as lane:
                body(vector * size + lane)
        if rest:
            with self._lanes(rest) as lane:
                body(whole * size + lane)

    def _lanes(self, count: int) -> Any:
        # TVM knows no vector of one number.
        return self.ib.for_range(0, count, name="lane", kind="vectorize" if count > 1 else "serial")


def _set(buffer: tir.Buffer, index: Sequence[Index] | Index, value: Index) -> None:
    buffer[index] = value


def _turned(name: str, direction: Index, step: Index, steps: int) -> Any:
    """Return the place in time of a step."""
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

    def next_cell(row: Index, unit: Index) -> Any:
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

    def value(row: Index, unit: Index) -> Any:
        hidden = sums[row, unit + 2 * units]
        if layer.what.linear_before_reset:
            gate = layer.function(0, sums[row, unit + units])
            hidden = layer.input(row, unit + 2 * units) + gate * hidden
        kept = layer.function(0, sums[row, unit])
        new = layer.function(1, hidden)
        return new + kept * (state[row, unit] - new)

    layer.finish(value)


_STEPS: dict[str, Callable[[_Layer], None]] = {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}
