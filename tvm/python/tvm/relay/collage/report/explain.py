# SPDX-License-Identifier: Apache-2.0
"""Why each part runs where it does: for each node what could take it, at what cost, who refused it;
and why this plan and not another. Docs: docs/explain.md. Test: report/test_explain.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..costs.cost import format_seconds
from ..costs.statistics import Interval
from ..errors import OptionError
from ..function_report import CostedCandidate, FunctionGraph, GraphNode, Reason
from ..placement import SeenPlans
from ..plans import OP_LEVEL, TVM_ALONE
from ..records import RecordError, read
from .head import head_lines
from .layers import Difference, Layers, Part
from .placement import label_of

# From here on a plan takes so many times as long, and not so many percent longer.
_FAR = 2.0
# Names of other nodes in a line at most.
_MOST_NODES = 12
# Parts, or nodes that are told in full, unless all are asked for.
_MOST_TOLD = 10


def explain(
    report: dict[str, Any],
    plan: str,
    *,
    node: int | None = None,
    op: str | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """JSON values: `plans`, why each other plan did not ship, and `nodes`, each kernel with where
    it runs in `plan` and what is known of it on each backend.

    `node` and `op` choose nodes, `backend` backends; conv2d is nn.conv2d as well. OptionError where
    there is none of them, or the report has no graph.
    """
    found = []
    names: set[str] = set()
    seen = _read(SeenPlans, report.get("placements"))
    if plan not in seen.names():
        known = ", ".join(seen.names()) or "none"
        raise OptionError(f"there is no plan {plan!r}: the report has {known}")
    plans = [_plan(row, report) for row in report["plans"] if row["name"] != report["plan"]]
    for function in report["functions"]:
        if function["skipped"]:
            continue
        graph = _read(FunctionGraph, function.get("graph"))
        layers = Layers(report, seen, function, graph)
        for row in plans:
            # A plan whose placement no file holds is told of without places.
            if row["is_slower"] and {row["plan"], report["plan"]} <= {*seen.names()}:
                row["places"] += _places(layers, report["plan"], row["plan"])
        names |= {each.name for each in graph.backends if each.is_external} | {TVM_ALONE}
        part_of = {index: part for part in layers.parts(plan) for index in part.nodes}
        for each in graph.nodes:
            if _is_asked(each, node, op):
                part = part_of.get(each.index)
                rows = _backends(each, part, graph, backend)
                found.append(_node(function["function"], each, part, rows))
    if not report["functions"]:
        raise OptionError("the report tells of no search: it was a replay, or TVM was alone")
    if backend is not None and backend not in names:
        known = ", ".join(sorted(names))
        raise OptionError(f"there was no backend {backend!r} in the search: {known} were")
    if not found:
        raise OptionError(_no_node(node, op, report))
    return {"head": list(head_lines(report)[:2]), "plan": plan, "plans": plans, "nodes": found}


def explain_lines(told: dict[str, Any], is_long: bool, is_whole: bool = False) -> list[str]:
    """The same for people, the dearest first: `is_long` tells all of each node, else one line a
    part; `is_whole` leaves none out."""
    lines = [*told["head"]]
    lines += [text for row in told["plans"] for text in (row["text"], *row["places"][:2])]
    if told["plan"] != OP_LEVEL:
        lines.append("Reasons are those against the plan by operators, by what parts take alone.")
    parts: dict[tuple, list[dict[str, Any]]] = {}
    for node in sorted(told["nodes"], key=lambda node: -_seconds_of(node)):
        key = (node["node"],) if is_long else tuple(node["part"]["nodes"])
        parts.setdefault((node["function"], *key), []).append(node)
    order = list(parts.values())
    shown = order if is_whole else order[:_MOST_TOLD]
    if not is_long:
        lines.append(f"Parts of plan {told['plan']}, the dearest first:")
    for nodes in shown:
        lines += _node_lines(nodes[0]) if is_long else _part_lines(nodes)
    if left := order[len(shown) :]:
        what = "nodes" if is_long else "parts"
        most = _seconds_of(left[0][0])
        dear = f", none of which takes longer than {format_seconds(most)} alone" if most else ""
        lines.append(f"There are {len(left)} other {what}{dear}: --all tells them too.")
    return lines


def _seconds_of(node: dict[str, Any]) -> float:
    """Of its part alone, 0 where it is in none or nobody measured that."""
    return (node["part"] or {"seconds": None})["seconds"] or 0.0


def _is_asked(each: GraphNode, node: int | None, op: str | None) -> bool:
    """Whether a node is to be told of; without an index or an operator all kernels are."""
    if op is not None and op.lower() not in (each.op.lower(), each.op.rpartition(".")[2].lower()):
        return False
    return each.index == node if node is not None else op is not None or each.is_kernel


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


def _places(layers: Layers, ships: str, plan: str) -> list[str]:
    """Where a plan that lost costs most, by what parts take alone."""
    lost = [each for each in layers.differences(ships, plan) if (each.loss or 0.0) > 0]
    words = ("mostly", "then", "then")
    return [_place_text(word, each) for word, each in zip(words, lost, strict=False)]


def _place_text(word: str, place: Difference) -> str:
    there, here = _parts_text(place.there), _parts_text(place.here)
    return (
        f"  {word} at {label_of(list(place.ops))} (nodes {_nodes_text(place.nodes)}): "
        f"{there} there, {here} here, each part alone"
    )


def _parts_text(parts: Iterable[Part]) -> str:
    parts = list(parts)
    total = sum(part.seconds or 0.0 for part in parts)
    names = Counter(part.backend for part in parts)
    shown = ", ".join(name if n == 1 else f"{n} of {name}" for name, n in sorted(names.items()))
    return f"{format_seconds(total)} ({shown})"


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
        "part": part
        and {
            "backend": part.backend,
            "nodes": sorted(part.nodes),
            "seconds": part.seconds,
        },
        "backends": backends,
    }


def _backends(
    node: GraphNode, part: Part | None, graph: FunctionGraph, only: str | None
) -> list[dict[str, Any]]:
    """What is known of a node on each backend."""
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
        rows.append(
            {
                "backend": name,
                "has_it": part is not None and part.backend == name,
                "candidates": [_candidate(r) for r in usable],
                "failures": [_candidate(r) for r in costed if r.cost.seconds is None],
                "reason": _reason(reasons[0], graph) if reasons else None,
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
            raise OptionError(
                f"the report is damaged: a reason names candidate {reason.candidate}, of which "
                f"there are {len(graph.costed)}: build again with the option report"
            )
        there = graph.costed[reason.candidate].cost.seconds
    return {
        "why": reason.why,
        "message": reason.message,
        "rule": reason.rule,
        "seconds": there,
        "instead_seconds": reason.instead_seconds,
    }


def _node_lines(node: dict[str, Any]) -> list[str]:
    """All of one node."""
    name = f" {node['name']}" if node["name"] else ""
    attrs = ", ".join(f"{key}={value}" for key, value in node["attrs"].items())
    part = node["part"]
    what = node["op"] or node["kind"]
    if part is None:
        why = "  launches no kernel and is in no part: there is nothing to decide for it"
        return [f"node {node['node']}{name}: {what} {node['type']}", why]
    others = f", with nodes {_nodes_text(part['nodes'])}" if len(part["nodes"]) > 1 else ""
    seconds = "" if part["seconds"] is None else f", {format_seconds(part['seconds'])}"
    lines = [
        f"node {node['node']}{name}: {what} {node['type']}",
        *([f"  attributes: {attrs}"] if attrs else []),
        f"  runs on {part['backend']}{others}{seconds}",
    ]
    for row in node["backends"]:
        lines.append(f"  {row['backend']}: {_state(row, node['is_kernel'])}")
        for each in row["candidates"][:3]:
            lines.append(
                f"    {format_seconds(each['seconds'])} for nodes {_nodes_text(each['nodes'])}"
                + (f" ({', '.join(each['flags'])})" if each["flags"] else "")
            )
        lines += [
            f"    {each['status']} for nodes {_nodes_text(each['nodes'])}: {each['message']}"
            for each in row["failures"][:2]
        ]
        lines += [f"    {each['rule']} refused: {each['reason']}" for each in _telling(row)[:3]]
    return lines


def _telling(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The refusals of what no candidate of the backend holds, another pattern's for instance."""
    held = [set(each["nodes"]) for each in row["candidates"]]
    return [
        each for each in row["refusals"] if not any(set(each["nodes"]) <= nodes for nodes in held)
    ]


def _part_lines(nodes: list[dict[str, Any]]) -> list[str]:
    """One line on a part, and one on each other backend."""
    first = nodes[0]
    part = first["part"]
    seconds = "not measured alone" if part["seconds"] is None else format_seconds(part["seconds"])
    ops = label_of([node["op"] or "call of a function" for node in nodes])
    head = f"{part['backend']}: {ops} (nodes {_nodes_text([n['node'] for n in nodes])}), {seconds}"
    lines = [head]
    for row in first["backends"]:
        if not row["has_it"]:
            states = dict.fromkeys(
                _state(other)
                for node in nodes
                for other in node["backends"]
                if other["backend"] == row["backend"]
            )
            count = len(states) - 1
            more = f" (and {count} other reason{'s' * (count > 1)})" if count else ""
            lines.append(f"  not {row['backend']}: {next(iter(states))}{more}")
    return lines


def _state(row: dict[str, Any], is_kernel: bool = True) -> str:
    """Why a backend does not have a node, or that it has."""
    if row["has_it"]:
        return "has it"
    reason = row["reason"]
    if reason is None:  # which kernels alone have
        return "has it in the plan by operators" if is_kernel else "it launches no kernel"
    if reason["why"] == "slower":
        there, here = reason["seconds"], reason["instead_seconds"]
        ratio = f", {there / here:.2f} times as long" if here else ""
        return f"slower: {format_seconds(there)} there, {format_seconds(here)} here{ratio}"
    rule = f"{reason['rule']}: " if reason["why"] == "refused" and reason["rule"] else ""
    return f"{reason['why'].replace('_', ' ')}: {rule}{reason['message']}".removesuffix(": ")


def _nodes_text(nodes: Iterable[int]) -> str:
    """3-7, 9: runs of neighbours."""
    runs: list[list[int]] = []
    for node in sorted(nodes):
        if runs and node == runs[-1][1] + 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MOST_NODES]]
    return ", ".join([*shown, "..."] if len(runs) > _MOST_NODES else shown)


def _no_node(node: int | None, op: str | None, report: dict[str, Any]) -> str:
    names: Counter[str] = Counter()
    for function in report["functions"]:
        graph = function.get("graph") or {"nodes": []}
        names.update(each["op"] for each in graph["nodes"] if each["is_kernel"])
    known = ", ".join(sorted(name for name in names if name)) or "none"
    if node is not None:
        return f"the graph has no node {node}" + (f" that is {op}" if op else "")
    if op is None:
        return "the functions have no operator that launches a kernel"
    return (
        f"no node is {op}: it is of another name in TVM, or was folded or simplified away before "
        f"the search; the operators are {known}"
    )


def _read(kind: Any, value: Any) -> Any:
    try:
        return read(kind, value)
    except RecordError as error:
        raise OptionError(
            f"the report is of another version of tvm-collage and cannot be explained ({error}): "
            "make it again"
        ) from None
