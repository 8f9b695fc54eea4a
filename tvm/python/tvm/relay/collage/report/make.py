# SPDX-License-Identifier: Apache-2.0
"""Records of a report, made of what the pass and the measuring of kernels gave; result.py puts them
together.

Test: report/test_tables.py.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Iterable, Mapping

import tvm
from tvm import relay

from ..costs.compared import ComparedPlan
from ..costs.kernel import KernelChoice
from ..plans.names import TVM_ALONE
from ..relay_util.external import is_external_function
from ..relay_util.walk import operator_calls
from ..views.function_report import FunctionGraph, FunctionReport, ReportedPart, Unplaced
from .facts import grouped, label_of, tally
from .record import (
    BackendShare,
    Group,
    PartGroup,
    PlacedOps,
    SearchedFunction,
    Step,
    TriedStep,
    WantedCosts,
)

# What equal parts agree in, and what equal failures agree in.
_WHAT = ("backend", "rule", "ops", "cost.status")
_WHY = (*_WHAT, "cost.message")
# Rows of a graph that name a backend, and by which field.
_NAMED = {"backends": "name", "costed": "backend", "reasons": "backend", "refusals": "backend"}


def searched_functions(
    reports: Iterable[FunctionReport], host: str, plans: Iterable[ComparedPlan]
) -> tuple[SearchedFunction, ...]:
    """Return what the search decided for each function, without its graph; `host` is the kind of
    the host target. What `plans` tell of a backend alone that failed is told of its operators."""
    failed = {row.name: _failure(row) for row in plans if row.status.is_failure}
    return tuple(_function(report, host, failed) for report in reports)


def wanted_costs(report: FunctionReport) -> WantedCosts:
    """Return how many costs the search of one function asked for, and did without."""
    costs = report.costs
    return WantedCosts(**vars(costs), never_needed=costs.distinct - costs.asked)


def _failure(row: ComparedPlan) -> str:
    return f"{row.status}: {row.message}" if row.message else row.status


# --- what ships ----------------------------------------------------------------------------------


def placement_of(mod: tvm.IRModule, host: str) -> tuple[PlacedOps, ...]:
    """Return what a module runs where, external parts first; equal parts are one row.

    `mod` is a module for the host target whose external parts are functions with a Compiler
    attribute; `host` names what runs the rest, one row for all its operators.
    """
    parts: Counter[tuple[str, str, int]] = Counter()
    rest: list[str] = []
    for _, function in mod.functions_items():
        if not isinstance(function, relay.Function):
            continue
        ops = operators_of(function)
        if is_external_function(function):
            parts[str(function.attrs["Compiler"]), label_of(ops), len(ops)] += 1
        else:
            rest += ops
    rows = [
        PlacedOps(backend, ops, parts=count, operators=count * size)
        for (backend, ops, size), count in parts.most_common()
    ]
    if rest:
        rows.append(PlacedOps(host, tally(rest), parts=None, operators=len(rest)))
    return tuple(rows)


def operators_of(function: relay.Function) -> list[str]:
    """Return the operators called in a function, functions inside it included, inputs first."""
    return [call.op.name for call in operator_calls(function)]


def step_of(choice: KernelChoice) -> Step:
    """Return the step whose kernel was chosen, with what its kernels took."""
    costs = [(each.name, each.cost) for each in choice.tried]
    tried = tuple(
        TriedStep(name, cost.status, cost.seconds, message=cost.message) for name, cost in costs
    )
    is_usual = choice.is_usual
    return Step(choice.backend, choice.label, choice.kernel, is_usual=is_usual, tried=tried)


# --- what the search of a function found ---------------------------------------------------------


def _function(report: FunctionReport, host: str, failed: Mapping[str, str]) -> SearchedFunction:
    """`failed`: by backend, why its plan alone failed."""
    kernels = [part for part in report.parts if part.is_kernel]
    total = sum(part.cost.seconds or 0.0 for part in kernels)
    groups = grouped(kernels, operator.attrgetter(*_WHAT)).values()
    parts = sorted((_parts(group, host, total) for group in groups), key=lambda p: -p.total_seconds)
    failures = grouped(report.failed, operator.attrgetter(*_WHY)).values()
    return SearchedFunction(
        function=report.function,
        nodes=report.nodes,
        candidates=report.candidates,
        costs=wanted_costs(report),
        seconds=report.seconds,
        transitions=report.transitions,
        is_optimal=report.is_optimal,
        least_seconds=report.lower_bound_seconds,
        rival_seconds=report.rival_seconds,
        is_beaten=report.is_beaten,
        below_bounds=report.below_bounds,
        search=report.search,
        cuts=report.cuts,
        parts=tuple(parts),
        backends=_backends(parts),
        failures=tuple(_group(group, host) for group in failures),
        unplaced=tuple(_with_failure(row, failed) for row in report.unplaced),
        skipped=report.skipped,
    )


def _group(group: list[ReportedPart], host: str) -> Group:
    first = group[0]
    return Group(
        backend=_name(first.backend, host),
        ops=first.ops,
        rule=first.rule,
        status=first.cost.status,
        message=first.cost.message,
        count=len(group),
    )


def _parts(group: list[ReportedPart], host: str, total: float) -> PartGroup:
    seconds = [row.cost.seconds or 0.0 for row in group]
    remarks = dict.fromkeys(row.cost.message for row in group if row.cost.message)
    flags = Counter(flag for row in group for flag in row.cost.flags)
    return PartGroup(
        **{**vars(_group(group, host)), "message": "; ".join(remarks)},
        seconds=sum(seconds) / len(seconds),
        total_seconds=sum(seconds),
        share=sum(seconds) / total if total > 0 else 0.0,
        estimated=flags["estimated"],
        noisy=flags["noisy"],
        busy=flags["busy"],
    )


def _name(backend: str, host: str) -> str:
    """Return how reports call a backend: the host's kind is TVM, whatever it compiles for."""
    return TVM_ALONE if backend == host else backend


def _backends(parts: Iterable[PartGroup]) -> tuple[BackendShare, ...]:
    """Return parts, seconds and share by backend, the largest first."""
    rows = [
        BackendShare(
            backend=name,
            parts=sum(part.count for part in of),
            seconds=sum(part.total_seconds for part in of),
            share=sum(part.share for part in of),
        )
        for name, of in grouped(parts, lambda part: part.backend).items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _with_failure(row: Unplaced, failed: Mapping[str, str]) -> Unplaced:
    """Say why the plan of the backend alone failed where the search did without a cost: that is all
    that is known."""
    if row.why != "not_measured" or row.backend not in failed:
        return row
    message = f"{row.message}; the plan of {row.backend} alone: {failed[row.backend]}"
    return dataclasses.replace(row, message=message)


def graph_of(graph: FunctionGraph, host: str) -> FunctionGraph:
    """Return the graph in which TVM goes by "tvm"."""
    renamed = {
        rows: tuple(
            dataclasses.replace(row, **{name: _name(getattr(row, name), host)})
            for row in getattr(graph, rows)
        )
        for rows, name in _NAMED.items()
    }
    return dataclasses.replace(graph, **renamed)
