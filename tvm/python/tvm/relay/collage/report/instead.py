# SPDX-License-Identifier: Apache-2.0
"""What a backend would cost in place of a plan's parts: its candidate, and the cheapest that was
measured for the other operators of these parts. Test: report/test_instead.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping

from ..views.function_report import FunctionGraph
from .cover import Candidate, cheapest_cover
from .layers import Part

# Candidates for one place that are compared.
_MOST_TRIED = 8


@dataclasses.dataclass(frozen=True)
class Instead:
    """A candidate in place of the parts that it lies in; `rest`, the others of their operators,
    None where these were not all measured."""

    candidate: Candidate
    rest: tuple[Candidate, ...] | None
    here: tuple[Part, ...]
    # Of those that the plan is charged for values that these parts make or read.
    transition_seconds: float

    @property
    def rest_seconds(self) -> float | None:
        return None if self.rest is None else sum(each.seconds for each in self.rest)

    @property
    def here_seconds(self) -> float | None:
        known = [part.seconds for part in self.here if part.seconds is not None]
        return sum(known) if len(known) == len(self.here) else None

    @property
    def more(self) -> float | None:
        """By how many seconds it costs more than the parts, without transitions; None where a
        cost is not known."""
        if self.rest_seconds is None or self.here_seconds is None:
            return None
        return self.candidate.seconds + self.rest_seconds - self.here_seconds


class Alternatives:
    """The candidates of a function, beside the parts that a plan has of it."""

    def __init__(
        self, graph: FunctionGraph, parts: Iterable[Part], transitions: Mapping[int, float]
    ) -> None:
        """`transitions`: by a value's node, the seconds that the plan is charged for its own."""
        self._transitions = transitions
        self._inputs_of = {node.index: node.inputs for node in graph.nodes}
        self._kernels = {node.index for node in graph.nodes if node.is_kernel}
        self._part_of = {index: part for part in parts for index in part.nodes}
        self._of_backend: dict[str, list[Candidate]] = {}
        self._by_first: dict[int, list[Candidate]] = {}
        self._known: dict[frozenset[int], tuple[Candidate, ...] | None] = {}
        for row in graph.costed:
            operators = self._kernels.intersection(row.nodes)
            if row.cost.seconds is not None and operators:
                candidate = Candidate(frozenset(operators), row.cost.seconds, row)
                self._of_backend.setdefault(row.backend, []).append(candidate)
                self._by_first.setdefault(min(operators), []).append(candidate)

    def best(self, backend: str, operators: Collection[int]) -> Instead | None:
        """Of the backend's candidates that hold most of these operators the one with which the
        plan's parts there would cost least; None without any."""
        asked = self._kernels.intersection(operators)
        held = [(len(each.operators & asked), each) for each in self._of_backend.get(backend, [])]
        most = max((count for count, _ in held), default=0)
        found = [each for count, each in held if count == most > 0]
        # Of equally large ones in a large part there may be thousands.
        tried = sorted(found, key=lambda each: each.seconds / len(each.operators))[:_MOST_TRIED]
        return min(map(self._instead, tried), key=_rank, default=None)

    def same(self, here: str, there: Collection[str]) -> list[tuple[Candidate, Candidate]]:
        """The cheapest that one backend and one of others were measured at for equal operators, but
        not for all of them; those where the others lose most first."""
        of_here = self._cheapest(here)
        pairs = [
            (of_here[operators], each)
            for backend in there
            for operators, each in self._cheapest(backend).items()
            if operators in of_here and operators != self._kernels
        ]
        return sorted(pairs, key=lambda pair: pair[0].seconds - pair[1].seconds)

    def _cheapest(self, backend: str) -> dict[frozenset[int], Candidate]:
        """By their operators, the backend's cheapest candidates."""
        dearest_first = sorted(self._of_backend.get(backend, []), key=lambda each: -each.seconds)
        return {each.operators: each for each in dearest_first}

    def _instead(self, candidate: Candidate) -> Instead:
        here = {self._part_of[each] for each in candidate.operators if each in self._part_of}
        nodes = {node for part in here for node in part.nodes}
        values = nodes.union(*(self._inputs_of.get(node, ()) for node in nodes))
        return Instead(
            candidate,
            self._cover(frozenset(nodes & self._kernels - candidate.operators)),
            tuple(sorted(here, key=lambda part: min(part.nodes))),
            sum(seconds for value, seconds in self._transitions.items() if value in values),
        )

    def _cover(self, operators: frozenset[int]) -> tuple[Candidate, ...] | None:
        if operators not in self._known:
            known = [each for first in operators for each in self._by_first.get(first, [])]
            cover = cheapest_cover(operators, known)
            self._known[operators] = None if cover is None else tuple(cover)
        return self._known[operators]


def _rank(each: Instead) -> tuple[float, float]:
    """Those that are known first, the cheapest of them first."""
    return (math.inf if each.more is None else each.more, each.candidate.seconds)
