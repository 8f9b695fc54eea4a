# SPDX-License-Identifier: Apache-2.0
"""Costs foreseen from one profiled run of each backend alone. Test: estimators/test_profiles.py.

A run of a whole backend tells how long each operator took inside its library. A candidate of that
backend takes a multiple of the sum of its operators' times, more where it is a small part, which
has borders and wakes threads. The multiples are those of costs that were measured beside their
profiles (calibration.py): nearly all costs are above one, and most above another. They order and
end the search, and no plan ships by them.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tvm.target import Target

from ..relay_util.external import backend_of
from .calibration import CAUTIOUS, Multiples

# A candidate without a profile is taken to be so many times as slow as others are where no cost is
# asked for: it is then taken where nothing else can be, and no plan seems hopeless for it.
_SLOWER = 10.0


class Foresight(NamedTuple):
    """The costs of candidates as they are foreseen (border.schema.json), 0.0 where nothing is
    known."""

    least: list[float]  # a cost is hardly ever below
    likely: list[float]  # a cost is seldom below
    rival_seconds: float  # of the fastest backend alone, measured whole; 0.0 where none is known
    is_final: bool = False  # whether no cost is asked for, and what is likely is all that is known
    is_rough: bool = False  # whether more can be known, which is asked for if this decides nothing
    # for so long from now on costs may be asked for; 0.0: as long as the pass may take
    asking_seconds: float = 0.0


class Foreseeing(Protocol):
    """The source of foreseen costs: by what is at hand, and sharply once that decides nothing."""

    def foresee(
        self, targets: Sequence[Target], nodes: Sequence[Sequence[int]], sharply: bool
    ) -> Foresight: ...


@dataclasses.dataclass(frozen=True)
class Profiles:
    """The profiled runs of each backend alone, on a module with one function to place."""

    # By backend (TVM_BACKEND for TVM), what each node took in its plan.
    seconds: Mapping[str, Mapping[int, float]]
    multiples: Mapping[str, Multiples]  # by backend
    rival_seconds: float = 0.0
    is_final: bool = False  # whether the plan of what is likely is wanted, and no cost is asked for
    rival: str = ""  # the plan that takes rival_seconds
    # A backend that has no profile yet; until then it is taken to be as quick as most others are as
    # parts. Those whose plans took too long to build are taken to be as quick as most are in runs
    # of their own. Of others without a profile nothing is known.
    awaited: str = ""
    late: frozenset[str] = frozenset()

    def foresee(
        self, targets: Sequence[Target], nodes: Sequence[Sequence[int]], sharply: bool = True
    ) -> Foresight:
        """Return what candidates on these targets, of these nodes, will cost."""
        name_of = {target: backend_of(target) for target in set(targets)}
        rows = [self._both(name_of[t], of) for t, of in zip(targets, nodes, strict=True)]
        least, likely = [low for low, _ in rows], [high for _, high in rows]
        return Foresight(least, likely, self.rival_seconds, self.is_final)

    def alone(self, backend: str) -> float:
        """Return the seconds of the plan of a backend alone; 0.0 where it has no profile."""
        return sum(self.seconds.get(backend, {}).values())

    def _both(self, backend: str, nodes: Sequence[int]) -> tuple[float, float]:
        known = self.seconds.get(backend)
        if known is None and self.is_final:
            likely = max(_SLOWER * self._usual(nodes), self._multiples(backend).start)
            return 0.0, likely  # nobody will learn it
        if known is None and backend not in (self.awaited, *self.late):
            return 0.0, 0.0
        if known is None:
            is_awaited = backend == self.awaited
            guessed = self._likely_by_others(nodes) if is_awaited else self._usual(nodes)
            multiples = self._multiples(backend)
            return multiples.of(guessed)[0] * guessed, max(guessed, multiples.start)
        seconds = sum(known.get(node, 0.0) for node in nodes)
        return self._multiples(backend).foreseen(seconds)

    def _usual(self, nodes: Sequence[int]) -> float:
        """Return what these nodes take on most backends, together: a profile may give a node the
        time of another one that was fused with it."""
        return sum(self._usual_by_node.get(node, 0.0) for node in nodes)

    def _likely_by_others(self, nodes: Sequence[int]) -> float:
        """Return what is likely on most of the backends that take all of these nodes, or else what
        is usual."""
        those = [node for node in nodes if node in self._usual_by_node]
        if not those:
            return 0.0
        found = [
            self._multiples(backend).foreseen(sum(seconds[node] for node in those))[1]
            for backend, seconds in self.seconds.items()
            if all(node in seconds for node in those)
        ]
        return statistics.median(found) if found else self._usual(those)

    @functools.cached_property
    def _usual_by_node(self) -> dict[int, float]:
        known: defaultdict[int, list[float]] = defaultdict(list)
        for of_backend in self.seconds.values():
            for node, seconds in of_backend.items():
                known[node].append(seconds)
        return {node: statistics.median(each) for node, each in known.items()}

    def _multiples(self, backend: str) -> Multiples:
        return self.multiples.get(backend, CAUTIOUS)
