# SPDX-License-Identifier: Apache-2.0
"""Why each part runs where it does: for each node what could take it, at what cost, who refused it;
and why this plan and not another. Docs: docs/report.md. Test: report/test_explain.py.
"""

from __future__ import annotations

import json
from typing import Any

from ..backends import which_was_meant
from ..costs.statistics import Interval
from ..errors import FileError, OptionError
from ..files.records import RecordError, read
from ..plans.competing import OP_LEVEL, TVM_ALONE
from ..plans.placement import SeenPlans
from ..views.function_report import FunctionGraph, GraphNode
from .explain_nodes import NodeFacts
from .head import doubt, head_lines
from .layers import Layers, Part
from .times import FAR, sum_remark, times_alike

# From here on a plan takes so many times as long, and not so many percent longer.
_TIMES = 2.0
# Kinds of nodes that run nowhere, by what they are.
_LEAVES = {"var": "an input", "const": "a constant"}
# Calls that are named beside a node that is none.
_MOST_CALLS = 3
# Tables of an explanation in a file, by the fields that hold their rows.
_TABLE_OF = {
    **dict.fromkeys(("candidate", "here_candidate", "there_candidate"), "candidates"),
    **dict.fromkeys(("candidates", "failures", "rest"), "candidates"),
    **dict.fromkeys(("here", "part", "ships", "there"), "parts"),
    "reason": "reasons",
    "refusals": "refusals",
}


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
    is another, and what is known of it on each backend; without `node` and `op` also `parts`, what
    runs as one, with what each backend would cost there. Docs: docs/report.md. Of a replay `plans`
    tells why they did not ship when it was decided, what now `ships` among them.

    `node` and `op` choose nodes, `backend` backends; conv2d is nn.conv2d as well. UnknownPlanError
    or OptionError where there is none of them, FileError where the report has no graph.
    """
    ships = report["plan"]
    # A replay measured nothing: what it replays was measured before. It may ship another plan than
    # that decision did, with which all the others were compared.
    measured = {**report, **(report.get("decision") or {})}
    decided = measured["plan"]
    seen = _read(SeenPlans, report.get("placements"))
    names = {*seen.names()}
    seen.placement(plan)  # UnknownPlanError
    asked = {row["name"] for row in measured["plans"]} if plan == ships else {plan, ships}
    plans = [_plan(row, measured) for row in measured["plans"] if row["name"] in asked - {decided}]
    second = _second(measured, names - {decided}) if plan == ships == decided else None
    told: dict[str, list[Any]] = {"functions": [], "parts": [], "nodes": []}
    pairs: list[dict[str, Any]] = []
    timed: dict[str, list[Part]] = {}
    backends = {TVM_ALONE}
    is_op_level, is_optimal = True, True
    for function in report["functions"]:
        if function["skipped"]:
            continue
        graph = _read(FunctionGraph, function.get("graph"))
        layers = Layers(report, seen, function, graph)
        other = ships if ships in names - {plan} else ""
        is_searched = OP_LEVEL in names and not layers.differences(plan, OP_LEVEL)
        facts = NodeFacts(function, layers, plan, other, backend, is_searched)
        for row in plans:
            # A plan whose placement no file holds is told of without places.
            if row["is_slower"] and {row["plan"], decided} <= names:
                lost = layers.differences(decided, row["plan"])
                row["loss_seconds"] = _sum(row["loss_seconds"], *(each.loss for each in lost))
                row["places"] += [facts.place(each) for each in lost if (each.loss or 0.0) > 0]
        backends |= {each.name for each in graph.backends if each.is_external}
        for name in filter(None, (plan, other)):
            timed.setdefault(name, []).extend(layers.parts(name))
        is_op_level &= is_searched
        is_optimal &= function["is_optimal"]
        told["functions"].append(facts.function())
        is_full = node is not None or op is not None
        told["parts"] += [] if is_full else facts.parts()
        told["nodes"] += [
            facts.node(each, is_full) for each in graph.nodes if _is_asked(each, node, op)
        ]
        if second and len(told["parts"]) == 1:
            pairs += facts.best_pairs(layers.parts(second))
    _check_found(report, told["nodes"], node, op)
    if backend is not None and backend not in backends:
        known = ", ".join(sorted(backends))
        raise OptionError(
            f"there was no backend {backend!r} in the search{which_was_meant(backend, backends)}; "
            f"it had {known}"
        )
    return {
        "head": [*head_lines(report)[:2], *_before(report, measured)],
        "doubt": doubt(measured),
        "ships": ships,
        "plan": plan,
        "is_op_level": is_op_level,
        "is_optimal": is_optimal,
        "plans": [{**row, "remark": _loss_remark(row, measured)} for row in plans],
        "second": {"plan": second, "pairs": pairs},
        "remarks": [*filter(None, (sum_remark(measured, *item) for item in timed.items()))],
        "backend": backend,
        "nearest_calls": [] if node is None else _nearest_calls(node, report),
        **told,
    }


def once(told: dict[str, Any]) -> dict[str, Any]:
    """For a file, what `explain` gave: each part, candidate, reason and refusal stands once, in
    `tables`, and wherever else it stood is its place there."""
    tables = _Tables()
    return {**tables.without_rows(told), "tables": tables.rows}


class _Tables:
    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in _TABLE_OF.values()}
        self._place_of: dict[tuple[str, str], int] = {}

    def without_rows(self, value: Any, table: str = "") -> Any:
        if isinstance(value, list):
            return [self.without_rows(each, table) for each in value]
        if not isinstance(value, dict):
            return value
        if table:
            return self._place(value, table)
        return {
            name: self.without_rows(each, _TABLE_OF.get(name, "")) for name, each in value.items()
        }

    def _place(self, row: dict[str, Any], table: str) -> int:
        key = (table, json.dumps(row))
        if key not in self._place_of:
            self._place_of[key] = len(self.rows[table])
            self.rows[table].append(row)
        return self._place_of[key]


def _check_found(
    report: dict[str, Any], nodes: list[dict[str, Any]], node: int | None, op: str | None
) -> None:
    """FileError or OptionError where there is nothing to tell of."""
    if not report["functions"]:
        why = report["guard_skipped"] or "TVM was alone"
        ask = "; `collage explain` of the report or library where that was decided tells why"
        raise FileError(
            f"the report tells of no search: {why}{ask if report['guard_skipped'] else ''}"
        )
    if all(row["skipped"] for row in report["functions"]):
        why = "; ".join(f"@{row['function']}: {row['skipped']}" for row in report["functions"])
        raise FileError(f"no function was searched, so that there is no node: {why}")
    if not nodes and node is None and op is None:
        raise FileError("the functions have no operator that launches a kernel")
    if not nodes:
        raise OptionError(_no_node(node, op, report))


def _before(report: dict[str, Any], measured: dict[str, Any]) -> list[str]:
    """What is to be known of figures that are those of the decision that a replay is of."""
    if not report.get("decision") or not measured["plans"]:
        return []
    return [
        "A replay measures nothing. What follows was measured when that was decided, and plan "
        f"{measured['plan']} shipped. {head_lines(measured)[1]}"
    ]


def _second(report: dict[str, Any], others: set[str]) -> str | None:
    """The fastest of the other plans that ran, by the rounds that it shares with what ships."""
    ratios = {
        row["name"]: row["ratio_to_chosen"]["value"]
        for row in report["plans"]
        if row["ratio_to_chosen"] and not row["same_as"] and row["name"] in others
    }
    return min(ratios, key=lambda name: ratios[name], default=None)


def _is_asked(each: GraphNode, node: int | None, op: str | None) -> bool:
    """Whether a node is to be told of; without an index or an operator all kernels are."""
    if op is not None and op.lower() not in (each.op.lower(), each.op.rpartition(".")[2].lower()):
        return False
    if node is not None:
        return each.index == node and each.kind not in _LEAVES
    return op is not None or each.is_kernel


def _plan(row: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Why a plan was not the one that was decided for."""
    decided, name = report["plan"], row["name"]
    ratio = row["ratio_to_chosen"]
    is_slower = False
    if row["same_as"]:
        text = f"{name} is the same as {row['same_as']}."
    elif row["seconds"] is None:
        text = f"{name} failed: {row['status']}{': ' if row['message'] else ''}{row['message']}."
    elif ratio and ratio["value"] <= 1:
        text = f"{name} is no slower than {decided}, which is simpler: {_percent(row)} end to end."
    elif ratio and ratio["value"] >= _TIMES:
        is_slower = True
        text = f"{name} takes {_times(ratio, f'times as long as {decided} end to end')}."
    else:
        is_slower = True
        text = f"{name} lost to {decided} by {_percent(row)} end to end."
    return {
        "plan": name,
        "text": text,
        "ratio": ratio,
        "is_slower": is_slower,
        "places": [],
        "loss_seconds": 0.0,
    }


def _loss_remark(row: dict[str, Any], report: dict[str, Any]) -> str:
    """One sentence where a plan's places tell another loss than the plan has end to end; "" where
    they do not, or where one of both is not known."""
    decided = next((each for each in report["plans"] if each["is_chosen"]), None)
    if not row["places"] or row["loss_seconds"] is None or not decided or not decided["seconds"]:
        return ""
    whole = (row["ratio"]["value"] - 1) * decided["seconds"]
    if abs(whole - row["loss_seconds"]) <= (FAR - 1) * decided["seconds"]:
        return ""
    lost, alone = times_alike(whole, row["loss_seconds"])
    return (
        f"end to end it takes some {lost} more than {report['plan']}, by its parts alone {alone}: "
        "what is timed alone does not add up to a run"
    )


def _sum(*seconds: float | None) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


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
