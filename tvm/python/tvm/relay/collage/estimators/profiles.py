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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvm.target import Target

from ..relay_util.external import backend_of
from .calibration import CAUTIOUS, Multiples

# Seconds of a candidate that is taken where nothing else can be.
_NEVER = 1e3


class Foresight(NamedTuple):
    """The costs of candidates as they are foreseen (border.schema.json), 0.0 where nothing is
    known."""

    least: list[float]  # a cost is hardly ever below
    likely: list[float]  # a cost is seldom below
    rival_seconds: float  # of the fastest backend alone, measured whole; 0.0 where none is known
    is_final: bool = False  # whether no cost is asked for, and what is likely is all that is known


@dataclasses.dataclass(frozen=True)
class Profiles:
    """The profiled runs of each backend alone, on a module with one function to place."""

    # By backend (TVM_BACKEND for TVM), what each node took: those that it does not take have none.
    seconds: Mapping[str, Mapping[int, float]]
    multiples: Mapping[str, Multiples]  # by backend
    rival_seconds: float = 0.0
    is_final: bool = False  # whether the plan of what is likely is wanted, and no cost is asked for
    rival: str = ""  # the plan that takes rival_seconds

    def foresee(self, targets: Sequence[Target], nodes: Sequence[Sequence[int]]) -> Foresight:
        """Return what candidates on these targets, of these nodes, will cost."""
        name_of = {target: backend_of(target) for target in set(targets)}
        rows = [self._both(name_of[t], of) for t, of in zip(targets, nodes, strict=True)]
        least, likely = [low for low, _ in rows], [high for _, high in rows]
        return Foresight(least, likely, self.rival_seconds, self.is_final)

    def _both(self, backend: str, nodes: Sequence[int]) -> tuple[float, float]:
        known = self.seconds.get(backend)
        if known is None:
            # Nobody will learn it, so it is taken where nothing else can be.
            return 0.0, _NEVER if self.is_final else 0.0
        seconds = sum(known.get(node, 0.0) for node in nodes)
        least, likely = self.multiples.get(backend, CAUTIOUS).of(seconds)
        return least * seconds, likely * seconds
