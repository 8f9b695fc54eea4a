# SPDX-License-Identifier: Apache-2.0
"""The plans that bench/additivity.py compares: from the search, and of single backends.

Test: bench/test_additivity.py.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import tvm
from random_costs import RandomCosts
from tvm.relay import collage
from tvm.relay.collage.function_report import FunctionReport
from tvm.relay.collage.measure import CandidateModule, Cost
from tvm.relay.collage.measured import Session
from tvm.relay.collage.optimizer import partition
from tvm.relay.collage.placement.describe import placed_parts
from tvm.relay.collage.placement.replay import rewrite
from tvm.relay.collage.report.kernels import part_candidates

OP_LEVEL = "collage"
# Seconds of a transition beside made-up costs, which are some microseconds a part.
_TRANSITION = 1e-6
# Operators of a part in a mixed plan of made-up costs.
_MOST_CALLS = 8


@dataclasses.dataclass(frozen=True)
class Plan:
    """name, what ships, candidates of its parts (as often as they occur), types of the transitions
    that are charged. searched_seconds: the sum that the search knew, None for made-up costs."""

    name: str
    module: tvm.IRModule
    parts: list[CandidateModule]
    transitions: list[Any]
    searched_seconds: float | None


class _Single(collage.CostEstimator):
    """Measured costs for TVM; external candidates are free if of `backend`, else out of question:
    the plan then has on that backend all that it can take, in the largest parts."""

    def __init__(self, backend: str, host: tvm.target.Target, session: Session | None):
        super().__init__(session)
        self._backend, self._host = backend, host

    def estimate_batch(self, mods, targets, labels):
        answers = [Cost.failed("unsupported", "not of this plan")] * len(mods)
        measured = []
        for index, target in enumerate(targets):
            if target.kind.name == self._host.kind.name:
                measured.append(index)
            elif target.kind.name == self._backend:
                answers[index] = Cost.estimated(0.0)
        asked = [[items[i] for i in measured] for items in (mods, targets, labels)]
        for index, answer in zip(measured, super().estimate_batch(*asked), strict=True):
            answers[index] = answer
        return answers


class _MixedMadeUp(RandomCosts):
    """Made-up costs of parts of few operators, so that plans are mixed: both backends, many
    borders."""

    def __init__(self, seed: int):
        super().__init__(seed, transition=_TRANSITION)

    def _one(self, signature, count, target):
        if count > _MOST_CALLS:
            return Cost.failed("unsupported", "too large for a mixed plan")
        return super()._one(signature, count, target)


class _SingleMadeUp(RandomCosts):
    """As _Single, over made-up costs."""

    def __init__(self, backend: str, host: tvm.target.Target, seed: int):
        super().__init__(seed, transition=_TRANSITION)
        self._backend, self._host = backend, host

    def _one(self, signature, count, target):
        if target.kind.name == self._host.kind.name:
            return super()._one(signature, count, target)
        if target.kind.name == self._backend:
            return Cost.estimated(0.0)
        return Cost.failed("unsupported", "not of this plan")


def find_plans(
    prepared: tvm.IRModule,
    targets: Any,
    names: list[str] | None = None,
    made_up: int | None = None,
    session: Session | None = None,
) -> list[Plan]:
    """The plans of a prepared module; one with a part that does not run is left out, with a word
    on stderr. `session` measures; with a seed `made_up` nothing is measured to find them."""
    plans = []
    for name in (OP_LEVEL, "tvm", *(target.kind.name for target in targets.external)):
        if names and name not in names:
            continue
        estimator = _estimator(name, targets.host, made_up, session)
        partition(prepared, targets, estimator)
        [report] = [r for r in estimator.reports if r.function == "main"]
        try:
            plans.append(_plan(name, prepared, report, targets.host, made_up is None, session))
        except _NoSum as error:
            print(f"plan {name} has no sum: {error}", file=sys.stderr)
    return plans


def _estimator(
    name: str, host: Any, made_up: int | None, session: Session | None
) -> collage.CostEstimator:
    if made_up is None:
        return collage.CostEstimator(session) if name == OP_LEVEL else _Single(name, host, session)
    if name == OP_LEVEL:
        return _MixedMadeUp(made_up)
    return _SingleMadeUp(name, host, made_up)


class _NoSum(Exception):
    """A part of a plan has no cost."""


def _plan(
    name: str,
    prepared: tvm.IRModule,
    report: FunctionReport,
    host: tvm.target.Target,
    is_measured: bool,
    session: Session | None,
) -> Plan:
    parts = placed_parts(report.placement)
    candidates, free = [], []
    for part, mod, candidate in part_candidates(prepared, {"main": parts}, host):
        candidates.append(candidate)
        if is_measured and part.cost.status == "estimated" and part.is_primitive:
            free.append((mod, tvm.target.Target(part.backend, host), part.label))
    seconds = report.seconds if is_measured else None
    if free:
        asked = [list(items) for items in zip(*free, strict=True)]
        for cost in collage.CostEstimator(session).estimate_batch(*asked):
            if cost.status != "measured":
                raise _NoSum(f"{cost.status}: {cost.message}")
            seconds += cost.seconds
    graph = collage.dataflow_graph(prepared["main"])
    types = [graph.expr(moved.node).checked_type for moved in report.transitions]
    return Plan(name, rewrite(prepared, {"main": parts}), candidates, types, seconds)
