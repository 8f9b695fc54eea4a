# SPDX-License-Identifier: Apache-2.0
"""Explanations as lines for people. Docs: docs/explain.md. Test: report/test_explain.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..costs.cost import format_seconds
from .placement import label_of
from .times import time_text
from .unplaced import why_text

# Names of other nodes in a line at most.
_MOST_NODES = 12
# Where plans differ, and parts or nodes that are told in full, unless all are asked for.
_MOST_PLACES = 2
_MOST_TOLD = 10
# What reasons compare, where the plan is not the one that the search gave them for.
_REFERS = (
    "Why not another backend: beside the parts of {plan} stands what its own plan takes at the "
    "same nodes, or where it has none the plan by operators, each part alone."
)


def explain_lines(told: dict[str, Any], is_long: bool, is_whole: bool = False) -> list[str]:
    """The same for people, the dearest first: `is_long` tells nodes, all of each, and nothing
    before them; else why this plan, and one line a part. `is_whole` leaves none out."""
    parts: dict[tuple, list[dict[str, Any]]] = {}
    for node in sorted(told["nodes"], key=lambda node: -_seconds_of(node)):
        key = (node["node"],) if is_long else tuple(node["part"]["nodes"])
        parts.setdefault((node["function"], *key), []).append(node)
    order = list(parts.values())
    shown = order if is_whole else order[:_MOST_TOLD]
    lines = [] if is_long else _plan_lines(told, is_whole)
    if not told["is_by_operators"] and (is_long or _has_reasons(told)):
        lines.append(_REFERS.format(plan=told["plan"]))
    for nodes in shown:
        lines += (_node_lines if is_long else _part_lines)(nodes, told, is_whole)
    if left := order[len(shown) :]:
        what = "nodes" if is_long else "parts"
        most = _seconds_of(left[0][0])
        dear = f", none of which takes longer than {format_seconds(most)} alone" if most else ""
        lines.append(f"There are {len(left)} other {what}{dear}: --all tells them too.")
    return [*lines, *filter(None, [told["doubt"]])]


def _plan_lines(told: dict[str, Any], is_whole: bool) -> list[str]:
    """What ships, why the others do not, and what the parts below are of."""
    plan, ships = told["plan"], told["ships"]
    lines = [*told["head"]]
    for row in told["plans"]:
        lines += [row["text"], *_place_lines(row["places"], is_whole)]
    if plan != ships and not told["plans"]:
        lines.append(f"{plan} was not measured beside {ships}.")
    lines += told["remarks"]
    if plan == ships:
        return [*lines, f"Parts of plan {plan}, the dearest first:"]
    return [*lines, f"Parts of plan {plan}, the dearest first, and what {ships} has there:"]


def _has_reasons(told: dict[str, Any]) -> bool:
    """Whether parts are told with why backends do not have them: another plan's are beside those of
    what ships, unless a backend was asked for."""
    return told["plan"] == told["ships"] or told["backend"] is not None


def _seconds_of(node: dict[str, Any]) -> float:
    """Of its part alone, 0 where it is in none or nobody measured that."""
    return (node["part"] or {"seconds": None})["seconds"] or 0.0


def _place_lines(places: list[dict[str, Any]], is_whole: bool) -> list[str]:
    return [
        f"  {'then' if k else 'mostly'} at {label_of(each['ops'])} (nodes "
        f"{_nodes_text(each['nodes'], is_whole)}): {_parts_text(each['there'])} there, "
        f"{_parts_text(each['here'])} here, each part alone"
        for k, each in enumerate(places if is_whole else places[:_MOST_PLACES])
    ]


def _parts_text(parts: list[dict[str, Any]]) -> str:
    total = sum(part["seconds"] or 0.0 for part in parts)
    names = Counter(part["backend"] for part in parts)
    shown = ", ".join(name if n == 1 else f"{n} of {name}" for name, n in sorted(names.items()))
    flags = dict.fromkeys(flag for part in parts for flag in part["flags"])
    return f"{format_seconds(total)} ({', '.join([shown, *flags])})"


def _node_lines(nodes: list[dict[str, Any]], told: dict[str, Any], is_whole: bool) -> list[str]:
    """All of one node."""
    [node] = nodes
    name = f" {node['name']}" if node["name"] else ""
    attrs = ", ".join(f"{key}={value}" for key, value in node["attrs"].items())
    part = node["part"]
    what = node["op"] or node["kind"]
    if part is None:
        calls = ", ".join(map(str, told["nearest_calls"]))
        why = "  launches no kernel and is in no part: there is nothing to decide for it"
        why += f"; the nearest calls are {calls}" if calls else ""
        return [f"node {node['node']}{name}: {what} {node['type']}", why]
    lines = [
        f"node {node['node']}{name}: {what} {node['type']}",
        *([f"  attributes: {attrs}"] if attrs else []),
        f"  runs on {_place_text(part, is_whole)}",
    ]
    if node["ships"]:
        lines.append(f"  in {told['ships']}, which ships: {_place_text(node['ships'], is_whole)}")
    for row in node["backends"]:
        lines.append(f"  {row['backend']}: {_state(row, told, is_whole, node['is_kernel'])}")
        for each in _some(row["candidates"], 3, is_whole):
            lines.append(
                f"    {time_text(each['seconds'], each['flags'])} for nodes "
                + _nodes_text(each["nodes"], is_whole)
            )
        lines += [
            f"    {each['status']} for nodes {_nodes_text(each['nodes'], is_whole)}: "
            f"{each['message']}"
            for each in _some(row["failures"], 2, is_whole)
        ]
        lines += [
            f"    {each['rule']} refused: {each['reason']}"
            for each in _some(_telling(row), 3, is_whole)
        ]
    return lines


def _place_text(part: dict[str, Any], is_whole: bool) -> str:
    """Where a node runs, with which others and how long."""
    nodes = part["nodes"]
    others = f", with nodes {_nodes_text(nodes, is_whole)}" if len(nodes) > 1 else ""
    return f"{part['backend']}{others}, {_time(part)}"


def _time(part: dict[str, Any]) -> str:
    alone = " alone" * (part["seconds"] is None)
    return time_text(part["seconds"], part["flags"]) + alone


def _some(rows: list[Any], most: int, is_whole: bool) -> list[Any]:
    return rows if is_whole else rows[:most]


def _telling(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The refusals of what no candidate of the backend holds, another pattern's for instance."""
    held = [set(each["nodes"]) for each in row["candidates"]]
    return [
        each for each in row["refusals"] if not any(set(each["nodes"]) <= nodes for nodes in held)
    ]


def _part_lines(nodes: list[dict[str, Any]], told: dict[str, Any], is_whole: bool) -> list[str]:
    """One line on a part; of another plan one on each part of what ships there; one on each other
    backend."""
    first = nodes[0]
    part = first["part"]
    ops = label_of([node["op"] or "call of a function" for node in nodes])
    indexes = _nodes_text([node["node"] for node in nodes], is_whole)
    lines = [f"{part['backend']}: {ops} (nodes {indexes}), {_time(part)}"]
    if told["plan"] != told["ships"]:
        there = {tuple(n["ships"]["nodes"]): n["ships"] for n in nodes if n["ships"]}.values()
        dearest = sorted(there, key=lambda each: -(each["seconds"] or 0.0))
        if dearest == [part]:
            lines.append(f"  {told['ships']}: the same")
        else:
            shown = _some(dearest, _MOST_PLACES, is_whole)
            lines += [f"  {told['ships']}: {_place_text(each, is_whole)}" for each in shown]
            if left := len(dearest) - len(shown):
                lines.append(f"  {told['ships']}: {left} other parts")
    if not _has_reasons(told):
        return lines
    for row in first["backends"]:
        if not row["has_it"]:
            states = list(
                dict.fromkeys(
                    _state(other, told, is_whole)
                    for node in nodes
                    for other in node["backends"]
                    if other["backend"] == row["backend"]
                )
            )
            count = len(states) - 1
            more = f" (and {count} other reason{'s' * (count > 1)})" * (count > 0)
            told_states = states if is_whole else [states[0] + more]
            lines += [f"  not {row['backend']}: {state}" for state in told_states]
    return lines


def _state(
    row: dict[str, Any], told: dict[str, Any], is_whole: bool, is_kernel: bool = True
) -> str:
    """Why a backend does not have a node, or that it has."""
    if row["has_it"]:
        return "has it"
    reason, beside = row["reason"], row["beside"]
    if beside is not None:
        whose = "its own plan" if beside["plan"] == row["backend"] else "the plan by operators"
        return (
            f"{_parts_text(beside['there'])} in {whose}, {_parts_text(beside['here'])} here, at "
            f"nodes {_nodes_text(beside['nodes'], is_whole)}"
        )
    if reason is None and not is_kernel:
        return "it launches no kernel"
    if reason is None:
        return "it runs this in the plan by operators, and what both take there was not measured"
    if reason["why"] == "slower":
        there, here = reason["seconds"], reason["instead_seconds"]
        ratio = f", {there / here:.2f} times as long" if here else ""
        place = "here" if told["is_by_operators"] else "in the plan by operators"
        return f"slower: {format_seconds(there)} there, {format_seconds(here)} {place}{ratio}"
    rule = f"{reason['rule']}: " if reason["why"] == "refused" and reason["rule"] else ""
    return f"{why_text(reason['why'])}: {rule}{reason['message']}".removesuffix(": ")


def _nodes_text(nodes: Iterable[int], is_whole: bool) -> str:
    """3-7, 9: runs of neighbours."""
    runs: list[list[int]] = []
    for node in sorted(nodes):
        if runs and node == runs[-1][1] + 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    shown = _some(texts, _MOST_NODES, is_whole)
    return ", ".join(shown if len(shown) == len(texts) else [*shown, "..."])
