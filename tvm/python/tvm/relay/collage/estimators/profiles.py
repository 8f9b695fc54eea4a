# SPDX-License-Identifier: Apache-2.0
"""Costs foreseen from one profiled run of each backend alone. Test: estimators/test_profiles.py.

A run of a whole backend tells how long each operator took inside its library. A candidate of that
backend takes at least a share of the sum of its operators' times: less where a smaller part can be
compiled better, or where the profile was taken in a slow moment. The share is one that nearly all
costs that were measured beside their profiles were above (calibration.py). It orders and ends the
search, and no plan ships by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvm.target import Target

from ..relay_util.external import TVM_BACKEND, is_external


class Foresight(NamedTuple):
    """The costs of candidates as they are foreseen (border.schema.json)."""

    seconds: list[float]  # hardly ever above the cost; 0.0 where nothing is known
    rival_seconds: float  # of the fastest backend alone, measured whole; 0.0 where none is known


@dataclasses.dataclass(frozen=True)
class Profiles:
    """The profiled runs of each backend alone, on a module with one function to place."""

    # By backend (TVM_BACKEND for TVM), what each node took: those that it does not take have none.
    seconds: Mapping[str, Mapping[int, float]]
    shares: Mapping[str, float]  # by backend, of the sum, which a cost is hardly ever below
    rival_seconds: float = 0.0

    def foresee(self, targets: Sequence[Target], nodes: Sequence[Sequence[int]]) -> Foresight:
        """Return what candidates on these targets, of these nodes, will hardly cost less than."""
        rows = zip(targets, nodes, strict=True)
        return Foresight([self._least(*row) for row in rows], self.rival_seconds)

    def _least(self, target: Target, nodes: Sequence[int]) -> float:
        return self.shares.get(name_of(target), 0.0) * self.sum_of(name_of(target), nodes)

    def sum_of(self, backend: str, nodes: Sequence[int]) -> float:
        """Return what these nodes took in the profile of a backend, 0.0 where there is none."""
        known = self.seconds.get(backend, {})
        return sum(known.get(node, 0.0) for node in nodes)


def name_of(target: Target) -> str:
    """Return the backend that a target is."""
    return target.kind.name if is_external(target) else TVM_BACKEND
