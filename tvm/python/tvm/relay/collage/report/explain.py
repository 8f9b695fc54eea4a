# SPDX-License-Identifier: Apache-2.0
"""Explanations why each part runs where it does: for each node what could take it, at what cost,
who refused it; and why this plan and not another. Docs: docs/report.md. Test:
report/test_explain.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tvm_collage.words import did_you_mean

from ..costs.compared import ComparedPlan, Ratio
from ..costs.cost import CostStatus
from ..costs.statistics import Interval
from ..errors import FileError, OptionError
from ..plans.names import OP_LEVEL, TVM_ALONE
from ..views.function_report import GraphNode
from .elsewhere import elsewhere_text
from .explain_nodes import NodeFacts
from .explanation import (
    Explanation,
    NodeRow,
    OtherPlan,
    Pair,
    PartRow,
    SecondPlan,
)
from .facts import FAR, doubt, head_lines, sum_remark, times_alike
from .net import Difference, PlanParts
from .precision import layer_lines, precision_lines
from .record import Report

# From here on a plan takes so many times as long, and not so many percent longer.
_TIMES = 2.0
# Kinds of nodes that run nowhere, by what they are.
_LEAVES = {"var": "an input", "const": "a constant"}
# Calls that are named beside a node that is none.
_MOST_CALLS = 3


def explain(
    report: Report,
    plan: str,
    *,
    node: int | None = None,
    op: str | None = None,
    backend: str | None = None,
) -> Explanation:
    """Return why the other plans did not ship, or why `plan` did not where that is another than
    what ships; and for each part of `plan`, or for each node that `node` and `op` choose, what is
    known of it on each backend, or on `backend` alone. Of a replay `plans` tells why they did not
    ship when it was decided, what now `ships` among them. Docs: docs/report.md.

    conv2d is nn.conv2d as well. UnknownPlanError or OptionError where there is none of them,
    FileError where the report has no graph.
    """
    seen = report.placements
    if seen is None or any(row.graph is None for row in report.searched):
        raise FileError(
            "the report is of another version of tvm-collage and cannot be explained (it lacks "
            "graphs or placements): make it again"
        )
    seen.placement(plan)  # UnknownPlanError
    ships, names = report.plan, {*seen.names()}
    # A replay measured nothing: what it replays was measured before. It may ship another plan than
    # that decision did, with which all the others were compared.
    measured = report.measured()
    decided = measured.plan
    over = [PlanParts(report, row) for row in report.searched]
    graph_nodes = [each for parts in over for each in parts.graph.nodes]
    in_search = [OP_LEVEL in names and not each.differences(plan, OP_LEVEL) for each in over]
    other = ships if ships in names - {plan} else ""
    facts = [
        NodeFacts(row, each, plan, ships=other, only=backend, is_op_level=is_op_level)
        for row, each, is_op_level in zip(report.searched, over, in_search, strict=True)
    ]
    is_full = node is not None or op is not None
    parts = [] if is_full else [row for each in facts for row in each.parts()]
    nodes = [
        fact.node(each, is_full)
        for fact in facts
        for each in fact.plan_parts.graph.nodes
        if _is_asked(each, node, op)
    ]
    _check_found(report, nodes, node=node, op=op)
    _check_backend(backend, over)
    second = _second(measured, names - {decided}) if plan == ships == decided else None
    timed = {
        name: [part for each in over for part in each.parts(name)]
        for name in filter(None, (plan, other))
    }
    remarks = (sum_remark(measured, name, of) for name, of in timed.items())
    told = {row.name for row in measured.plans} if plan == ships else {plan, ships}
    with_places = names if decided in names else set()
    return Explanation(
        head=(*head_lines(report)[:2], *_before(report, measured), *_precisions(report)),
        doubt=doubt(measured),
        ships=ships,
        plan=plan,
        is_op_level=all(in_search),
        is_optimal=all(row.is_optimal for row in report.searched),
        plans=tuple(
            _with_places(_other_plan(row, decided), measured, over)
            if row.name in with_places
            else _other_plan(row, decided)
            for row in measured.plans
            if row.name in told - {decided}
        ),
        second=SecondPlan(second, _pairs(second, parts, facts)),
        remarks=tuple(filter(None, [*remarks, elsewhere_text(measured)])),
        backend=backend,
        nearest_calls=() if node is None else _nearest(node, graph_nodes),
        functions=tuple(fact.function() for fact in facts),
        parts=tuple(parts),
        nodes=tuple(nodes),
    )


def _pairs(
    second: str | None, parts: Sequence[PartRow], facts: Sequence[NodeFacts]
) -> tuple[Pair, ...]:
    """Return what the next best plan tells where one part is all."""
    if not second or len(parts) != 1:
        return ()
    return tuple(
        pair
        for fact in facts
        if fact.has_parts
        for pair in fact.best_pairs(fact.plan_parts.parts(second))
    )


def _check_found(
    report: Report, nodes: Sequence[NodeRow], *, node: int | None, op: str | None
) -> None:
    """FileError or OptionError where there is nothing to tell of."""
    if not report.functions and report.ended_early:
        raise FileError(
            f"the report tells of no search, which was not finished: {report.ended_early}; compile "
            "again for one"
        )
    if not report.functions:
        why = report.guard_skipped or "TVM was alone"
        ask = "; `collage explain` of the report or library where that was decided tells why"
        raise FileError(
            f"the report tells of no search: {why}{ask if report.guard_skipped else ''}"
        )
    if not report.searched:
        why = "; ".join(f"@{row.function}: {row.skipped}" for row in report.functions)
        raise FileError(f"no function was searched, so that there is no node: {why}")
    if not nodes and node is None and op is None:
        raise FileError("the functions have no operator that launches a kernel")
    if not nodes:
        raise OptionError(_no_node(node, op, report))


def _check_backend(backend: str | None, over: Iterable[PlanParts]) -> None:
    """UnknownBackendError for one that was not in the search."""
    known = {row.name for each in over for row in each.graph.backends if row.is_external}
    known.add(TVM_ALONE)
    if backend is not None and backend not in known:
        meant = did_you_mean(backend.lower(), known)
        raise OptionError(
            f"there was no backend {backend!r} in the search{meant}; it had "
            + ", ".join(sorted(known))
        )


def _before(report: Report, measured: Report) -> list[str]:
    """Say what is to be known of figures that are those of the decision that a replay is of."""
    if not report.decision or not measured.plans:
        return []
    return [
        "A replay measures nothing. What follows was measured when that was decided, and plan "
        f"{measured.plan} shipped. {head_lines(measured)[1]}"
    ]


def _precisions(report: Report) -> list[str]:
    told = report.precision
    return [*precision_lines(told), *layer_lines(told)] if told else []


def _second(report: Report, others: set[str]) -> str | None:
    """Return the fastest of the other plans that ran, by the rounds that it shares with what
    ships."""
    ratios = {
        row.name: row.ratio_to_chosen.value
        for row in report.plans
        if row.ratio_to_chosen and not row.same_as and row.name in others
    }
    return min(ratios, key=lambda name: ratios[name], default=None)


def _is_asked(each: GraphNode, node: int | None, op: str | None) -> bool:
    """Return whether a node is to be told of; without an index or an operator all kernels are."""
    if op is not None and op.lower() not in (each.op.lower(), each.op.rpartition(".")[2].lower()):
        return False
    if node is not None:
        return each.index == node and each.kind not in _LEAVES
    return op is not None or each.is_kernel


# --- why not another plan ------------------------------------------------------------------------


def _other_plan(row: ComparedPlan, decided: str) -> OtherPlan:
    """Say why a plan was not the one that was decided for."""
    name, ratio = row.name, row.ratio_to_chosen
    is_slower = False
    if row.same_as:
        text = f"{name} is the same as {row.same_as}."
    elif row.seconds is None and row.status == CostStatus.UNKNOWN:
        text = f"{name}: {row.message}."
    elif row.seconds is None:
        text = f"{name} failed: {row.status}{': ' if row.message else ''}{row.message}."
    elif ratio and ratio.value <= 1:
        text = (
            f"{name} is no slower than {decided}, which is simpler: {_percent(ratio)} end to end."
        )
    elif ratio and ratio.value >= _TIMES:
        is_slower = True
        text = f"{name} takes {_times(ratio, f'times as long as {decided} end to end')}."
    else:
        is_slower = True
        text = f"{name} lost to {decided} by {_percent(ratio)} end to end."
    return OtherPlan(name, text, ratio, is_slower=is_slower)


def _with_places(row: OtherPlan, report: Report, over: Iterable[PlanParts]) -> OtherPlan:
    """Say where the parts of a slower plan lose. A plan whose placement no file holds is told of
    without places."""
    if not row.is_slower:
        return row
    lost: list[Difference] = []
    for each in over:
        lost += each.differences(report.plan, row.plan)
    losses = [place.loss for place in lost]
    whole = None if None in losses else sum(filter(None, losses), 0.0)
    places = tuple(place for place in lost if (place.loss or 0.0) > 0)
    found = dataclasses.replace(row, places=places, loss_seconds=whole)
    return dataclasses.replace(found, remark=_loss_remark(found, report))


def _loss_remark(row: OtherPlan, report: Report) -> str:
    """Return one sentence where a plan's places tell another loss than the plan has end to end; ""
    where they do not, or where one of both is not known."""
    seconds = report.chosen and report.chosen.seconds
    if not row.places or row.loss_seconds is None or not seconds or not row.ratio:
        return ""
    whole = (row.ratio.value - 1) * seconds
    if abs(whole - row.loss_seconds) <= (FAR - 1) * seconds:
        return ""
    lost, alone = times_alike(whole, row.loss_seconds)
    return (
        f"end to end it takes some {lost} more than {report.plan}, by its parts alone {alone}: "
        "what is timed alone does not add up to a run"
    )


def _times(ratio: Ratio, unit: str) -> str:
    """Return three digits at least, the bounds with as many decimals as the value."""
    form = ".2f" if ratio.value < 10 else ".1f" if ratio.value < 100 else ".0f"
    return ratio.Summary(form, unit)


def _percent(ratio: Ratio | None) -> str:
    """Say by how much slower, with the interval."""
    if not ratio:
        return "an unknown share"
    percent = Interval(*(100 * (each - 1) for each in ratio.interval))
    return percent.Summary(".1f", "%")


# --- nodes that are not there --------------------------------------------------------------------


def _no_node(node: int | None, op: str | None, report: Report) -> str:
    nodes = [each for row in report.searched if row.graph for each in row.graph.nodes]
    last = max((each.index for each in nodes), default=-1)
    if node is not None and not 0 <= node <= last:
        return f"there is no node {node}: the graph's nodes are 0 to {last}"
    if node is not None and op is not None:
        return f"the graph has no node {node} that is {op}"
    if node is not None:
        calls = ", ".join(map(str, _nearest(node, nodes)))
        kind = next((each.kind for each in nodes if each.index == node), "")
        what = _LEAVES.get(kind, "the name of an operator or a function")
        return (
            f"node {node} is {what}, no call; the nearest calls are {calls}: `collage explain "
            "--all` shows all"
        )
    names = {each.op for each in nodes if each.is_kernel}
    known = ", ".join(sorted(filter(None, names))) or "none"
    return (
        f"no node is {op}: it is of another name in TVM, or was folded or simplified away before "
        f"the search; the operators are {known}"
    )


def _nearest(node: int, nodes: Iterable[GraphNode]) -> tuple[int, ...]:
    """Return the nodes nearest to one of this index that launch a kernel, in order."""
    calls = {each.index for each in nodes if each.is_kernel}
    near = sorted(sorted(calls), key=lambda call: (abs(call - node), call))
    return tuple(sorted(near[:_MOST_CALLS]))
