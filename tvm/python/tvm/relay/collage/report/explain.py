# SPDX-License-Identifier: Apache-2.0
"""Why each part runs where it does: for each node what could take it, at what cost, who refused it;
and why this plan and not another. Docs: docs/explain.md. Test: report/test_explain.py.
"""

from __future__ import annotations

from typing import Any

from ..costs.statistics import Interval
from ..errors import FileError, OptionError
from ..function_report import CostedCandidate, FunctionGraph, GraphNode, Reason
from ..named_options import option
from ..placement import SeenPlans
from ..plans import OP_LEVEL, TVM_ALONE
from ..records import RecordError, read
from .head import doubt, head_lines
from .layers import Difference, Layers, Part
from .times import sum_remark

# From here on a plan takes so many times as long, and not so many percent longer.
_FAR = 2.0
# Reasons that are about the plan by operators, and not about the backend.
_OF_A_PLAN = ("slower", "no_better_plan", "not_measured")
# Kinds of nodes that run nowhere, by what they are.
_LEAVES = {"var": "an input", "const": "a constant"}
# Calls that are named beside a node that is none.
_MOST_CALLS = 3


def explain(
    report: dict[str, Any],
    plan: str,
    *,
    node: int | None = None,
    op: str | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """JSON values: `plans`, why each other plan did not ship, or `plan` alone where that is another
    than what ships; `nodes`, each kernel with where it runs in `plan`, in what `ships` where that
    is another, and what is known of it on each backend.

    `node` and `op` choose nodes, `backend` backends; conv2d is nn.conv2d as well. OptionError where
    there is none of them, FileError where the report has no graph.
    """
    found = []
    parts: dict[str, list[Part]] = {}
    is_by_operators = True
    ships = report["plan"]
    names: set[str] = set()
    seen = _read(SeenPlans, report.get("placements"))
    if plan not in seen.names():
        known = ", ".join(seen.names()) or "none"
        raise OptionError(f"there is no plan {plan!r}: the report has {known}")
    asked = {row["name"] for row in report["plans"]} if plan == ships else {plan}
    plans = [_plan(row, report) for row in report["plans"] if row["name"] in asked - {ships}]
    for function in report["functions"]:
        if function["skipped"]:
            continue
        graph = _read(FunctionGraph, function.get("graph"))
        layers = Layers(report, seen, function, graph)
        for row in plans:
            # A plan whose placement no file holds is told of without places.
            if row["is_slower"] and {row["plan"], ships} <= {*seen.names()}:
                lost = layers.differences(ships, row["plan"])
                row["places"] += [_place(each) for each in lost if (each.loss or 0.0) > 0]
        names |= {each.name for each in graph.backends if each.is_external} | {TVM_ALONE}
        for name in dict.fromkeys([plan, *({ships} & {*seen.names()})]):
            parts.setdefault(name, []).extend(layers.parts(name))
        beside = _beside(layers, plan, graph, seen.names())
        is_by_operators = is_by_operators and not beside
        part_of = _part_of(layers, plan)
        shipped = _part_of(layers, ships) if ships in {*seen.names()} - {plan} else {}
        for each in graph.nodes:
            if _is_asked(each, node, op):
                part = part_of.get(each.index)
                rows = _backends(each, part, graph, backend, beside)
                told = _node(function["function"], each, part, rows)
                found.append({**told, "ships": _part(shipped.get(each.index))})
    if not report["functions"]:
        why = report["guard_skipped"] or "TVM was alone"
        ask = "; `collage explain` of the report or library where that was decided tells why"
        raise FileError(
            f"the report tells of no search: {why}{ask if report['guard_skipped'] else ''}"
        )
    if all(row["skipped"] for row in report["functions"]):
        why = "; ".join(f"@{row['function']}: {row['skipped']}" for row in report["functions"])
        raise FileError(f"no function was searched, so that there is no node: {why}")
    if backend is not None and backend not in names:
        known = ", ".join(sorted(names))
        raise OptionError(f"there was no backend {backend!r} in the search: {known} were")
    if not found:
        raise OptionError(_no_node(node, op, report))
    return {
        "head": list(head_lines(report)[:2]),
        "doubt": doubt(report),
        "ships": ships,
        "plan": plan,
        "is_by_operators": is_by_operators,
        "plans": plans,
        "remarks": [*filter(None, (sum_remark(report, *item) for item in parts.items()))],
        "backend": backend,
        "nearest_calls": [] if node is None else _nearest_calls(node, report),
        "nodes": found,
    }


def _is_asked(each: GraphNode, node: int | None, op: str | None) -> bool:
    """Whether a node is to be told of; without an index or an operator all kernels are."""
    if op is not None and op.lower() not in (each.op.lower(), each.op.rpartition(".")[2].lower()):
        return False
    if node is not None:
        return each.index == node and each.kind not in _LEAVES
    return op is not None or each.is_kernel


def _part_of(layers: Layers, plan: str) -> dict[int, Part]:
    """By a node's index, the part that holds it in a plan."""
    return {index: part for part in layers.parts(plan) for index in part.nodes}


def _beside(
    layers: Layers, plan: str, graph: FunctionGraph, seen: list[str]
) -> dict[str, tuple[str, dict[int, Difference]]]:
    """By backend the plan that says what it takes where `plan` has another: its own, else that by
    operators; with the differences by node. {} for the plan by operators itself, which the search's
    reasons are about."""
    known = {*seen} - {plan}
    if OP_LEVEL not in known or not layers.differences(plan, OP_LEVEL):
        return {}
    others = {each.name: each.name if each.name in known else OP_LEVEL for each in graph.backends}
    by_node = {
        other: {node: each for each in layers.differences(plan, other) for node in each.nodes}
        for other in set(others.values())
    }
    return {backend: (other, by_node[other]) for backend, other in others.items()}


def _plan(row: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Why a plan did not ship."""
    ships, name = report["plan"], row["name"]
    ratio = row["ratio_to_chosen"]
    is_slower = False
    if row["same_as"]:
        text = f"{name} is the same as {row['same_as']}."
    elif row["seconds"] is None:
        text = f"{name} failed: {row['status']}{': ' if row['message'] else ''}{row['message']}."
    elif ratio and ratio["value"] <= 1:
        text = f"{name} is no slower than {ships}, which is simpler: {_percent(row)} end to end."
    elif ratio and ratio["value"] >= _FAR:
        is_slower = True
        text = f"{name} takes {_times(ratio, f'times as long as {ships} end to end')}."
    else:
        is_slower = True
        text = f"{name} lost to {ships} by {_percent(row)} end to end."
    return {"plan": name, "text": text, "is_slower": is_slower, "places": []}


def _times(ratio: dict[str, Any], unit: str) -> str:
    """Three digits at least, the bounds with as many decimals as the value."""
    value = ratio["value"]
    form = ".2f" if value < 10 else ".1f" if value < 100 else ".0f"
    return Interval.from_json(ratio).Summary(form, unit)


def _percent(row: dict[str, Any]) -> str:
    """By how much slower, with the interval."""
    ratio = row["ratio_to_chosen"]
    if not ratio:
        return "an unknown share"
    percent = Interval(*(100 * (each - 1) for each in Interval.from_json(ratio)))
    return percent.Summary(".1f", "%")


def _place(each: Difference) -> dict[str, Any]:
    """Where a plan that lost costs more, by what parts take alone."""
    return {
        "ops": list(each.ops),
        "nodes": list(each.nodes),
        "there": [_part(part) for part in each.there],
        "here": [_part(part) for part in each.here],
    }


def _part(part: Part | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {
        "backend": part.backend,
        "nodes": sorted(part.nodes),
        "seconds": part.seconds,
        "flags": list(part.flags),
    }


def _node(
    function: str, node: GraphNode, part: Part | None, backends: list[dict[str, Any]]
) -> dict[str, Any]:
    if part is None and node.is_kernel:
        part = Part(TVM_ALONE, frozenset({node.index}), None)
    return {
        "function": function,
        "node": node.index,
        "op": node.op,
        "kind": node.kind,
        "name": node.name,
        "type": node.type,
        "is_kernel": node.is_kernel,
        "attrs": node.attrs,
        # What launches no kernel may be in none.
        "part": _part(part),
        "backends": backends,
    }


def _backends(
    node: GraphNode,
    part: Part | None,
    graph: FunctionGraph,
    only: str | None,
    beside: dict[str, tuple[str, dict[int, Difference]]],
) -> list[dict[str, Any]]:
    """What is known of a node on each backend; `beside`: see _beside."""
    rows = []
    for name in [
        each.name for each in graph.backends if each.is_external or each.name == TVM_ALONE
    ]:
        if only is not None and name != only:
            continue
        costed = [r for r in graph.costed if r.backend == name and node.index in r.nodes]
        usable = sorted(
            (r for r in costed if r.cost.seconds is not None), key=lambda r: len(r.nodes)
        )
        reasons = [r for r in graph.reasons if r.backend == name and node.index in r.nodes]
        refused = [r for r in graph.refusals if r.backend == name and node.index in r.nodes]
        refused.sort(key=lambda r: len(r.nodes))
        has_it = part is not None and part.backend == name
        is_of_a_plan = not reasons or reasons[0].why in _OF_A_PLAN
        other, lost = beside.get(name, ("", {}))
        place = None if has_it or not is_of_a_plan else lost.get(node.index)
        is_known = place is not None and place.loss is not None
        rows.append(
            {
                "backend": name,
                "has_it": has_it,
                "candidates": [_candidate(r) for r in usable],
                "failures": [_candidate(r) for r in costed if r.cost.seconds is None],
                "reason": _reason(reasons[0], graph) if reasons else None,
                "beside": {"plan": other, **_place(place)} if place and is_known else None,
                "refusals": list(
                    {
                        (r.rule, r.reason): {
                            "rule": r.rule,
                            "reason": r.reason,
                            "nodes": list(r.nodes),
                        }
                        for r in reversed(refused)
                    }.values()
                )[::-1],
            }
        )
    return rows


def _candidate(row: CostedCandidate) -> dict[str, Any]:
    return {
        "rule": row.rule,
        "nodes": list(row.nodes),
        "status": str(row.cost.status),
        "seconds": row.cost.seconds,
        "flags": list(row.cost.flags),
        "message": row.cost.message,
    }


def _reason(reason: Reason, graph: FunctionGraph) -> dict[str, Any]:
    there = None
    if reason.candidate is not None:
        if reason.candidate >= len(graph.costed):
            raise FileError(
                f"the report is damaged: a reason names candidate {reason.candidate}, of which "
                f"there are {len(graph.costed)}: build again with "
                + option("report", "the option report")
            )
        there = graph.costed[reason.candidate].cost.seconds
    return {
        "why": reason.why,
        "message": reason.message,
        "rule": reason.rule,
        "seconds": there,
        "instead_seconds": reason.instead_seconds,
    }


def _no_node(node: int | None, op: str | None, report: dict[str, Any]) -> str:
    nodes = [
        each for row in report["functions"] for each in (row.get("graph") or {"nodes": []})["nodes"]
    ]
    last = max((each["index"] for each in nodes), default=-1)
    if node is not None and not 0 <= node <= last:
        return f"there is no node {node}: the graph's nodes are 0 to {last}"
    if node is not None and op is not None:
        return f"the graph has no node {node} that is {op}"
    if node is not None:
        calls = ", ".join(map(str, _nearest_calls(node, report)))
        kind = next((each["kind"] for each in nodes if each["index"] == node), "")
        what = _LEAVES.get(kind, "the name of an operator or a function")
        return (
            f"node {node} is {what}, no call; the nearest calls are {calls}: `collage explain "
            "--all` shows all"
        )
    names = {each["op"] for each in nodes if each["is_kernel"]}
    known = ", ".join(sorted(filter(None, names))) or "none"
    if op is None:
        return "the functions have no operator that launches a kernel"
    return (
        f"no node is {op}: it is of another name in TVM, or was folded or simplified away before "
        f"the search; the operators are {known}"
    )


def _nearest_calls(node: int, report: dict[str, Any]) -> list[int]:
    """The nodes nearest to one of this index that launch a kernel, in order."""
    calls = {
        each["index"]
        for row in report["functions"]
        for each in (row.get("graph") or {"nodes": []})["nodes"]
        if each["is_kernel"]
    }
    return sorted(sorted(calls, key=lambda call: (abs(call - node), call))[:_MOST_CALLS])


def _read(kind: Any, value: Any) -> Any:
    try:
        return read(kind, value)
    except RecordError as error:
        raise FileError(
            f"the report is of another version of tvm-collage and cannot be explained ({error}): "
            "make it again"
        ) from None
