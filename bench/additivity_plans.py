# SPDX-License-Identifier: Apache-2.0
"""The plans that bench/additivity.py compares: from the search, and of single backends.

Test: bench/test_additivity.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from random_costs import RandomCosts
from tvm.relay import collage
from tvm.relay.collage.backends.targets import TargetList
from tvm.relay.collage.candidate.footprint import bytes_in_turn
from tvm.relay.collage.estimators.session import Session
from tvm.relay.collage.measure import CandidateModule, Cost
from tvm.relay.collage.optimizer import partition
from tvm.relay.collage.plans.competing import OP_LEVEL, TVM_ALONE
from tvm.relay.collage.plans.placement.describe import placed_parts
from tvm.relay.collage.plans.placement.replay import as_deployed, rewrite
from tvm.relay.collage.relay_util.external import is_external
from tvm.relay.collage.report.kernels import part_candidates

# Seconds of a transition beside made-up costs, which are some microseconds a part.
_TRANSITION = 1e-6
# Operators of a part in a mixed plan of made-up costs.
_MOST_CALLS = 8


@dataclasses.dataclass(frozen=True)
class Plan:
    """name, what ships, candidates of its parts (as often as they occur), types of the transitions
    that are charged, bytes that the network touches between two runs of a part."""

    name: str
    module: tvm.IRModule
    parts: list[CandidateModule]
    transitions: list[Any]
    network_bytes: int


def _unless_measured(plan: str, target: Any) -> Cost:
    """Of an external candidate: the plan of a backend alone has on it all that it can take, in the
    largest parts, and nothing on another."""
    if target.kind.name == plan:
        return Cost.estimated(0.0)
    return Cost.failed("unsupported", "not of this plan")


class _Alone(collage.CostEstimator):
    """Measured costs for TVM alone."""

    def __init__(self, plan: str, session: Session | None) -> None:
        super().__init__(session)
        self._plan = plan

    def estimate_batch(
        self, mods: Sequence[Any], targets: Sequence[Any], labels: Sequence[str]
    ) -> list[Cost]:
        hosts = [k for k, target in enumerate(targets) if not is_external(target)]
        asked = [[items[k] for k in hosts] for items in (mods, targets, labels)]
        measured = dict(zip(hosts, super().estimate_batch(*asked), strict=True))
        return [
            measured.get(k) or _unless_measured(self._plan, target)
            for k, target in enumerate(targets)
        ]


class _MadeUp(RandomCosts):
    """Made-up costs; for the mixed plan of parts of few operators: both backends, many borders."""

    def __init__(self, plan: str, seed: int) -> None:
        super().__init__(seed, transition=_TRANSITION)
        self._plan = plan

    def _one(self, signature: str, count: int, target: Any) -> Cost:
        if self._plan != OP_LEVEL and is_external(target):
            return _unless_measured(self._plan, target)
        if self._plan == OP_LEVEL and count > _MOST_CALLS:
            return Cost.failed("unsupported", "too large for a mixed plan")
        return super()._one(signature, count, target)


def find_plans(
    prepared: tvm.IRModule,
    targets: TargetList,
    names: Sequence[str] = (),
    made_up: int | None = None,
    session: Session | None = None,
) -> Iterator[Plan]:
    """The plans of a prepared module, or those that are named, by the kernels of the session, which
    measures; with a seed `made_up` nothing is measured to find them."""
    kernels = session.kernels if session else ()
    network_bytes = bytes_in_turn(prepared)
    for name in (OP_LEVEL, TVM_ALONE, *(target.kind.name for target in targets.external)):
        if names and name not in names:
            continue
        if made_up is not None:
            estimator: collage.CostEstimator = _MadeUp(name, made_up)
        elif name == OP_LEVEL:
            estimator = collage.CostEstimator(session)
        else:
            estimator = _Alone(name, session)
        partition(prepared, targets, estimator)
        [report] = [each for each in estimator.reports if each.function == "main"]
        parts = {"main": placed_parts(report.placement)}
        alone = part_candidates(prepared, parts, targets.host, kernels)
        candidates = [each.candidate for each in alone]
        graph = collage.dataflow_graph(prepared["main"])
        types = [graph.expr(moved.node).checked_type for moved in report.transitions]
        module = as_deployed(rewrite(prepared, parts), kernels)
        yield Plan(name, module, candidates, types, network_bytes)
