# SPDX-License-Identifier: Apache-2.0
"""What operators would cost on what was measured of them: cheap disjoint candidates that hold just
these, by a beam search. Test: report/test_cover.py.

Assumption: candidates that are disjoint can stand in one plan. Two that each read the other cannot,
which the search looks at and this does not. Transitions between them are not in their costs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..views.function_report import CostedCandidate

# Each way to have begun is tried with each candidate that may follow. Of the ways with the same
# operator next as many are kept as so many steps allow: with all of them a net with many branches
# takes minutes. A dozen operators have fewer ways, and a chain has few however long it is.
_MOST_STEPS = 100_000
_LEAST_WIDTH = 16


class Candidate(NamedTuple):
    """One that may run: its kernels alone, without what is free among them."""

    operators: frozenset[int]
    seconds: float
    row: CostedCandidate


class _Begun(NamedTuple):
    """Candidates that were taken: the last of them, and those before it; `excess`, what they cost
    beyond their operators' shares."""

    excess: float
    last: Candidate | None = None
    before: _Begun | None = None

    def candidates(self) -> Iterator[Candidate]:
        begun: _Begun | None = self
        while begun and begun.last:
            yield begun.last
            begun = begun.before


def cheapest_cover(
    operators: Collection[int], candidates: Iterable[Candidate]
) -> list[Candidate] | None:
    """The cheapest candidates found that together are just these operators, in order; None where
    none were found. Where there are so few ways that all are kept, no others cost less."""
    bit_of = {operator: 1 << place for place, operator in enumerate(sorted(operators))}
    cheapest: dict[int, Candidate] = {}
    for each in candidates:
        if each.operators and each.operators <= bit_of.keys():
            mask = sum(bit_of[operator] for operator in each.operators)
            if mask not in cheapest or each.seconds < cheapest[mask].seconds:
                cheapest[mask] = each
    by_first: list[list[int]] = [[] for _ in bit_of]
    # What an operator costs at least as its share of any candidate: by this, ways compare that have
    # taken more or fewer operators beyond the next one.
    share = dict.fromkeys(bit_of, math.inf)
    for mask, each in cheapest.items():
        by_first[_lowest(mask)].append(mask)
        for operator in each.operators:
            share[operator] = min(share[operator], each.seconds / len(each.operators))
    if math.inf in share.values():
        return None
    excess = {
        mask: each.seconds - sum(share[operator] for operator in each.operators)
        for mask, each in cheapest.items()
    }
    width = max(_LEAST_WIDTH, _MOST_STEPS // max(1, len(cheapest)))
    waiting: list[dict[int, _Begun]] = [{} for _ in range(len(bit_of) + 1)]
    waiting[0][0] = _Begun(0.0)
    for place, firsts in enumerate(by_first):
        best = sorted(waiting[place].items(), key=lambda item: item[1].excess)[:width]
        waiting[place] = {}
        for taken, begun in best:
            for mask in firsts:
                if taken & mask:
                    continue
                after, more = taken | mask, begun.excess + excess[mask]
                known = waiting[_lowest(~after)]
                if after not in known or more < known[after].excess:
                    known[after] = _Begun(more, cheapest[mask], begun)
    # Of all operators there is one set.
    return next(([*begun.candidates()][::-1] for begun in waiting[-1].values()), None)


def _lowest(mask: int) -> int:
    """The place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1
