# SPDX-License-Identifier: Apache-2.0
"""Ways to run a model whose layers have several precisions: by which backends, what each layer
saves there, and what a change of precisions costs. Each way has choices of its own.

Backends that keep layers exact inside their parts run all of it, so that their own profiles tell
what each layer saves. Others leave what is not theirs to whoever is the fastest.
Test: precision/test_mixes.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tvm

from ..backends.registry import get_backend
from .choice import FREE, Borders, Choice, Gains, LayerGain, front
from .forms import Form, Trader
from .layer_times import border_seconds, conversion_seconds, saved_by_layer
from .layers import INT8, SHORT_FLOATS

# A change to bytes or back is so many passes over a value: it is scaled, rounded and laid out (in
# oneDNN; c015958c).
_PASSES_OF_BYTES = 3

# A backend that trades accuracy, and the model as it was placed with it.
Traded = Sequence[tuple[Trader, Form]]


class Way(NamedTuple):
    """Who may run a choice of precisions, and what its layers gain."""

    traders: frozenset[str]
    among: frozenset[str]  # the other backends
    gains: Gains
    is_timed: bool  # whether seconds are known; else each layer saves as much as another
    # whether layers keep to their precisions inside parts, so that nearly what was judged runs
    is_exact: bool = False
    borders: Borders = FREE

    def choices(self) -> list[Choice]:
        """Return the best choices for errors from small to large."""
        return front(self.gains, self.borders)


class Measured(NamedTuple):
    """Forms and errors, by which ways are found."""

    plain: Form  # in float32
    whole: Form  # all layers in 8 bits
    traded: Traded  # of the short floats alone
    order: Sequence[str]  # layers as modules have them
    # by precision and layer: the square of the error that the layer brings
    squares: Mapping[str, Mapping[str, float]]


def short_floats_of(traded: Traded) -> tuple[str, Traded]:
    """Return the short floats that layers may have beside 8 bits, "" for none, and who computes
    them."""
    kind = next((trader.kind for trader, _ in traded if trader.kind in SHORT_FLOATS), "")
    return kind, [row for row in traded if row[0].kind == kind]


def ways_of(found: Measured, mod: tvm.IRModule) -> list[Way]:
    """Return the ways, first those that keep layers exact inside parts. `mod`: the model as it is
    imported, which tells sizes."""
    conversions = conversion_seconds(mod)
    bytes_alone = {INT8: [_PASSES_OF_BYTES * seconds for seconds in conversions]}
    keeping = [row for row in found.traded if row[0].keeps_calls]
    others = [row for row in found.traded if not row[0].keeps_calls]
    ways = []
    if keeping:
        names = frozenset(trader.backend for trader, _ in keeping)
        names |= {get_backend(name).variant_of for name in names}
        way = _way(found, keeping, names)
        borders = {keeping[0][0].kind: conversions, **bytes_alone}
        ways.append(way._replace(borders=borders, is_exact=True))
    if others:
        way = _way(found, others)
        price = border_seconds(_fastest(others).result)
        ways.append(way._replace(borders={others[0][0].kind: [price] * len(conversions)}))
    if not ways:
        ways.append(_way(found, ())._replace(borders=bytes_alone))
    # A layer that the module calls otherwise has no place in its order.
    is_ordered = set(found.squares[INT8]) <= set(found.order)
    is_priced = [way.is_timed and is_ordered for way in ways]
    return [w if p else w._replace(borders=FREE) for w, p in zip(ways, is_priced, strict=True)]


def _fastest(rows: Traded) -> Form:
    timed = [form for _, form in rows if form.seconds]
    return min(timed, key=lambda form: form.seconds) if timed else rows[0][1]


def _way(found: Measured, rows: Traded, names: frozenset[str] = frozenset()) -> Way:
    """Return the way of these backends that trade accuracy; `names`: who runs all layers of it,
    where that is known."""
    built = {INT8: found.whole, **({rows[0][0].kind: _fastest(rows)} if rows else {})}
    known = {
        kind: saved_by_layer(found.order, found.plain.result, form.result, names)
        for kind, form in built.items()
    }
    is_timed = all(saved is not None for saved in known.values())
    # Prices of changes are of all layers of the module, some of which may have no other precision.
    gains: dict[str, dict[str, LayerGain]] = {name: {} for name in found.order}
    gains |= {name: {} for name in found.squares[INT8]}
    for kind, saved in known.items():
        for name, square in found.squares[kind].items():
            seconds = (saved or {}).get(name, 0.0) if is_timed else 1.0
            gains[name][kind] = LayerGain(seconds, square)
    traders = frozenset(trader.backend for trader, _ in rows)
    among = found.plain.backends.union(*(form.backends for form in built.values()))
    return Way(traders, among | names, gains, is_timed)
