# SPDX-License-Identifier: Apache-2.0
"""The costs of a backend in place of a plan's parts: its candidate, and the cheapest that was
measured for the other operators of these parts.

The cheapest are disjoint candidates that hold just these operators, found by a beam search.
Assumption: candidates that are disjoint can stand in one plan. Two that each read the other cannot,
which the search looks at and this does not. Transitions between them are not in their costs.
Test: report/test_alternatives.py, report/test_cover.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..views.function_report import FunctionGraph
from .explanation import CandidateRow, InsteadRow
from .facts import seconds_together
from .net import Part

# Candidates for one place that are compared.
_MOST_TRIED = 8
# Each way to have begun is tried with each candidate that may follow. Of the ways with the same
# operator next as many are kept as so many steps allow: with all of them a net with many branches
# takes minutes. A dozen operators have fewer ways, and a chain has few however long it is.
MOST_STEPS = 100_000
_LEAST_WIDTH = 16


class Candidate(NamedTuple):
    """A candidate that may run."""

    operators: frozenset[int]  # its kernels alone, without what is free among them
    seconds: float  # alone
    row: CandidateRow  # as an explanation has it


class Alternatives:
    """The candidates of a function, beside the parts that a plan has of it."""

    def __init__(
        self,
        graph: FunctionGraph,
        rows: Iterable[CandidateRow],
        parts: Iterable[Part],
        transitions: Mapping[int, float],
    ) -> None:
        """Take a function's graph; `rows`: its candidates. `transitions`: by a value's node, the
        seconds that the plan is charged for its own."""
        self._transitions = transitions
        self._inputs_of = {node.index: node.inputs for node in graph.nodes}
        self._kernels = {node.index for node in graph.nodes if node.is_kernel}
        self._part_of = {index: part for part in parts for index in part.nodes}
        self._of_backend: dict[str, list[Candidate]] = {}
        self._by_first: dict[int, list[Candidate]] = {}
        self._known: dict[frozenset[int], tuple[CandidateRow, ...] | None] = {}
        for row in rows:
            operators = self._kernels.intersection(row.nodes)
            if row.seconds is not None and operators:
                candidate = Candidate(frozenset(operators), row.seconds, row)
                self._of_backend.setdefault(row.backend, []).append(candidate)
                self._by_first.setdefault(min(operators), []).append(candidate)

    def best(self, backend: str, operators: Collection[int]) -> InsteadRow | None:
        """Return of the backend's candidates that hold most of these operators the one with which
        the plan's parts there would cost least; None without any."""
        asked = self._kernels.intersection(operators)
        held = [(len(each.operators & asked), each) for each in self._of_backend.get(backend, [])]
        most = max((count for count, _ in held), default=0)
        found = [each for count, each in held if count == most > 0]
        # Of equally large ones in a large part there may be thousands.
        tried = sorted(found, key=lambda each: each.seconds / len(each.operators))[:_MOST_TRIED]
        return min(map(self._instead, tried), key=_rank, default=None)

    def same(self, here: str, there: Collection[str]) -> list[tuple[Candidate, Candidate]]:
        """Return the cheapest that one backend and one of others were measured at for equal
        operators, but not for all of them; those where the others lose most first."""
        of_here = self._cheapest(here)
        pairs = [
            (of_here[operators], each)
            for backend in there
            for operators, each in self._cheapest(backend).items()
            if operators in of_here and operators != self._kernels
        ]
        return sorted(pairs, key=lambda pair: pair[0].seconds - pair[1].seconds)

    def _cheapest(self, backend: str) -> dict[frozenset[int], Candidate]:
        """Return by their operators the backend's cheapest candidates."""
        dearest_first = sorted(self._of_backend.get(backend, []), key=lambda each: -each.seconds)
        return {each.operators: each for each in dearest_first}

    def _instead(self, candidate: Candidate) -> InsteadRow:
        parts = {self._part_of[each] for each in candidate.operators if each in self._part_of}
        here = tuple(sorted(parts, key=lambda part: min(part.nodes)))
        nodes = {node for part in here for node in part.nodes}
        values = nodes.union(*(self._inputs_of.get(node, ()) for node in nodes))
        rest = self._cover(frozenset(nodes & self._kernels - candidate.operators))
        rest_seconds = None if rest is None else seconds_together(rest)
        here_seconds = seconds_together(here)
        more_seconds = None
        if rest_seconds is not None and here_seconds is not None:
            more_seconds = candidate.seconds + rest_seconds - here_seconds
        return InsteadRow(
            candidate=candidate.row,
            rest=rest,
            here=here,
            rest_seconds=rest_seconds,
            here_seconds=here_seconds,
            more_seconds=more_seconds,
            transition_seconds=sum(
                seconds for value, seconds in self._transitions.items() if value in values
            ),
        )

    def _cover(self, operators: frozenset[int]) -> tuple[CandidateRow, ...] | None:
        if operators not in self._known:
            known = [each for first in operators for each in self._by_first.get(first, [])]
            cover = cheapest_cover(operators, known)
            self._known[operators] = None if cover is None else tuple(c.row for c in cover)
        return self._known[operators]


def _rank(each: InsteadRow) -> tuple[float, float]:
    """Rank those that are known first, the cheapest of them first."""
    more = math.inf if each.more_seconds is None else each.more_seconds
    return more, each.candidate.seconds or 0.0


class _Begun(NamedTuple):
    """Candidates that were taken."""

    excess: float  # what they cost beyond their operators' shares
    last: Candidate | None = None  # of them
    before: _Begun | None = None  # those before it

    def candidates(self) -> Iterator[Candidate]:
        begun: _Begun | None = self
        while begun and begun.last:
            yield begun.last
            begun = begun.before


def cheapest_cover(
    operators: Collection[int], candidates: Iterable[Candidate]
) -> list[Candidate] | None:
    """Return the cheapest candidates found that together are just these operators, in order; None
    where none were found. Where there are so few ways that all are kept, no others cost less."""
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
    width = max(_LEAST_WIDTH, MOST_STEPS // max(1, len(cheapest)))
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
    """Return the place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1
