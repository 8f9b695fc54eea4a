# SPDX-License-Identifier: Apache-2.0
"""The precisions of layers that save most within an error, and the front of such choices.

Each layer has, by precision, the seconds that it saves and the squared error that it brings.
Squared errors of layers add up to first order (arXiv 2505.13060), so a choice is an integer program
with one constraint on them, which HiGHS solves exactly. A change of precisions between neighbours
is charged: it is a border of parts, or a value is converted.
Assumption: layers neither save nor err together; who asks measures the error of each choice whole,
and builds a few of them.
Test: precision/test_choice.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

# Limits of squared errors, evenly spread by their logarithms.
_POINTS = 12
# A layer whose error is so much smaller than the mean one has no limit of its own.
_SMALL_SHARE = 1e-3
# Of one program, and how far the best that is known then may be off.
_SECONDS, _GAP = 5.0, 1e-4


class LayerGain(NamedTuple):
    """The price and the gain of a layer in another precision than float32."""

    seconds: float  # that it saves; less than 0 where it costs
    square_error: float


# By layer, in the model's order, and by precision.
Gains = Mapping[str, Mapping[str, LayerGain]]
# By precision: the seconds of a change from or to it, from each layer of the gains to the next.
Borders = Mapping[str, Sequence[float]]
FREE: Borders = MappingProxyType({})


class Choice(NamedTuple):
    """A precision for some layers; the others stay in float32."""

    precisions: Mapping[str, str]  # by layer
    seconds: float  # that they save, less what changes between neighbours cost
    square_error: float  # the sum over them

    def of(self, precision: str) -> frozenset[str]:
        """Return the layers in that precision."""
        return frozenset(name for name, each in self.precisions.items() if each == precision)


def choose(gains: Gains, most: float, borders: Borders = FREE) -> Choice:
    """Return the choice that saves most with a squared error of at most that."""
    columns = [
        (index, name, precision, gain)
        for index, (name, each) in enumerate(gains.items())
        for precision, gain in each.items()
        if gain.square_error <= most and math.isfinite(gain.seconds)
    ]
    if not any(gain.seconds > 0 for *_, gain in columns):
        return Choice({}, 0.0, 0.0)
    found = _solved(columns, len(gains), most, borders=borders)
    precisions = {name: p for (_, name, p, _), is_in in zip(columns, found, strict=True) if is_in}
    return _priced(precisions, gains, borders)


def front(gains: Gains, borders: Borders = FREE) -> list[Choice]:
    """Return choices by rising errors, each of which saves more than those before it; the last one
    has no limit of its error."""
    every = _without_limit(gains, borders)
    if not every.precisions:
        return []
    errors = [gains[name][p].square_error for name, p in every.precisions.items()]
    least = max(min(errors), _SMALL_SHARE * sum(errors) / len(errors))
    limits: list[float] = []
    if every.square_error > least:
        limits = np.geomspace(least, every.square_error, _POINTS)[:-1].tolist()
    found: list[Choice] = []
    for choice in [*(choose(gains, limit, borders) for limit in limits), every]:
        if choice.precisions and choice.seconds > (found[-1].seconds if found else 0.0):
            found.append(choice)
    return found


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Throw away what C++ prints to standard output in the block: HiGHS tells of its steps there,
    whatever it is asked, and commands print JSON."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as nothing:
            flush(None)
            os.dup2(nothing.fileno(), 1)
            yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _without_limit(gains: Gains, borders: Borders) -> Choice:
    """Return the choice without a limit, of what has a finite error."""
    errors = [g.square_error for each in gains.values() for g in each.values()]
    return choose(gains, sum(filter(math.isfinite, errors)), borders)


def _priced(precisions: Mapping[str, str], gains: Gains, borders: Borders) -> Choice:
    chosen = [gains[name][precision] for name, precision in precisions.items()]
    seconds = sum(gain.seconds for gain in chosen)
    for precision, prices in borders.items():
        is_in = [precisions.get(name) == precision for name in gains]
        pairs = zip(is_in, is_in[1:], prices, strict=False)
        seconds -= sum(price for a, b, price in pairs if a != b)
    return Choice(precisions, seconds, sum(gain.square_error for gain in chosen))


def _solved(columns: list, layers: int, most: float, borders: Borders) -> list[bool]:
    """Return which columns (layer, its name, precision, gain) are chosen."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # which costs as much as all else
    from scipy.sparse import lil_array

    # Behind the columns: for each price whether its change is made.
    changes = [
        (precision, layer, price)
        for precision, prices in borders.items()
        for layer, price in enumerate(prices[: layers - 1])
        if price > 0
    ]
    count = len(columns)
    seconds = np.array([gain.seconds for *_, gain in columns])
    scale = np.abs(seconds).max()  # numbers near one: the solver's tolerances are absolute
    prices = np.concatenate([-seconds, [price for *_, price in changes]]) / scale
    # The errors together, one precision a layer, and each change above both differences.
    rows = lil_array((1 + layers + 2 * len(changes), count + len(changes)))
    upper = np.concatenate([np.ones(1 + layers), np.zeros(2 * len(changes))])
    for place, (layer, _, _, gain) in enumerate(columns):
        rows[0, place] = gain.square_error / (most or 1.0)
        rows[1 + layer, place] = 1.0
    places = {(layer, kind): place for place, (layer, _, kind, _) in enumerate(columns)}
    for index, (precision, layer, _) in enumerate(changes):
        for row, sign in ((1 + layers + 2 * index, 1.0), (2 + layers + 2 * index, -1.0)):
            rows[row, count + index] = -1.0
            for of, own in ((layer, sign), (layer + 1, -sign)):
                if (of, precision) in places:
                    rows[row, places[of, precision]] = own
    with silent():
        found = milp(
            prices,
            constraints=LinearConstraint(rows.tocsr(), ub=upper),
            integrality=np.concatenate([np.ones(count), np.zeros(len(changes))]),
            bounds=Bounds(0, 1),
            options={"time_limit": _SECONDS, "mip_rel_gap": _GAP},
        )
    if found.x is None:
        return [False] * count
    return [value > 0.5 for value in found.x[:count]]
