# SPDX-License-Identifier: Apache-2.0
"""Explanations as lines for people. Docs: docs/report.md. Test: report/test_explain.py."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .instead_lines import in_short, instead_lines
from .node_ranges import Operators
from .placement import label_of
from .times import flags_text, in_order, time_text, times_alike
from .unplaced import why_text

# Where plans differ, reasons, and parts or nodes that are told, unless all are asked for.
_MOST_PLACES = 2
_MOST_REASONS = 3
_MOST_TOLD = 10
# Reasons that are about the op-level plan, and not about the backend.
_OF_A_PLAN = ("slower", "no_better_plan", "not_measured")
_HOW_TO_READ = (
    "Times are of each part alone, and node numbers count weights and inputs too, so that those of "
    "operators have gaps."
)


def explain_lines(told: dict[str, Any], is_long: bool, is_whole: bool = False) -> list[str]:
    """The same for people, the dearest first: `is_long` tells nodes, all of each, and nothing
    before them; else why this plan, and one line a part. `is_whole` leaves none out."""
    order = sorted(told["nodes" if is_long else "parts"], key=lambda row: -_seconds_of(row))
    shown = order if is_whole else order[:_MOST_TOLD]
    writer = _Writer(told, is_whole)
    lines = [] if is_long else writer.plan_lines()
    for row in shown:
        lines += writer.node_lines(row) if is_long else writer.part_lines(row)
    if left := order[len(shown) :]:
        what = "nodes" if is_long else "parts"
        most = _seconds_of(left[0])
        dear = f", none of which takes longer than {time_text(most, ())} alone" if most else ""
        lines.append(f"There are {len(left)} other {what}{dear}: --all tells them too.")
    last = [*(told["remarks"] if is_long else []), told["doubt"]]
    return [*lines, *filter(None, last)]


def _seconds_of(row: dict[str, Any]) -> float:
    """Of its part alone, 0 where it is in none or nobody measured that."""
    return (row["part"] or {"seconds": None})["seconds"] or 0.0


class _Writer:
    def __init__(self, told: dict[str, Any], is_whole: bool) -> None:
        self._told, self._is_whole = told, is_whole
        self._operators = {
            row["function"]: Operators(row["operators"], is_whole) for row in told["functions"]
        }

    def plan_lines(self) -> list[str]:
        """What ships, why the others do not, and what the parts below are of."""
        told = self._told
        plan, ships = told["plan"], told["ships"]
        lines = [*told["head"]]
        for row in told["plans"]:
            remark = [f"  {row['remark']}."] if row["remark"] else []
            lines += [row["text"], *self._place_lines(row["places"]), *remark]
        if plan != ships and not told["plans"]:
            lines.append(f"{plan} was not measured beside {ships}.")
        beside = "" if plan == ships else f", and what {ships} has there"
        return [
            *lines,
            *told["remarks"],
            f"Parts of plan {plan}, the dearest first{beside}. {_HOW_TO_READ}",
        ]

    def _place_lines(self, places: list[dict[str, Any]]) -> list[str]:
        # All operators are no place.
        some = [each for each in places if not self._is_all(each)]
        lines = []
        for k, each in enumerate(self._some(some, _MOST_PLACES)):
            there, here = each["there"], each["here"]
            lost, left = times_alike(_total(there), _total(here))
            lines.append(
                f"  {'then' if k else 'mostly'} at {label_of(each['ops'])} "
                f"({self._text(each)}): {lost} ({_who(there)}) there, {left} ({_who(here)}) here, "
                "each part alone"
            )
        return lines

    def _text(self, row: dict[str, Any]) -> str:
        return self._operators[row["function"]].text(row["nodes"])

    def _is_all(self, row: dict[str, Any]) -> bool:
        operators = self._operators[row["function"]]
        return operators.count(row["nodes"]) == operators.total

    def node_lines(self, node: dict[str, Any]) -> list[str]:
        """All of one node."""
        told, operators = self._told, self._operators[node["function"]]
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
            f"  {part['backend']} runs it: {_time(part)} for {operators.text(part['nodes'])}",
        ]
        if there := node["ships"]:
            where = f"{_time(there)} for {operators.text(there['nodes'])}"
            lines.append(f"  in {told['ships']}, which ships, {there['backend']} runs it: {where}")
        for row in node["backends"]:
            lines += self._backend_lines(row, node, operators)
        return lines

    def _backend_lines(
        self, row: dict[str, Any], node: dict[str, Any], operators: Operators
    ) -> list[str]:
        if row["instead"]:
            first, *lines = instead_lines(row["instead"], operators, self._told)
        else:
            lines = []
            first = "runs it" if row["has_it"] else self._state(row["reason"], node["is_kernel"])
        told = (row["instead"] or {"candidate": node["part"]})["candidate"]["nodes"]
        is_told = row["instead"] or row["has_it"]
        others = [each for each in row["candidates"] if not (is_told and each["nodes"] == told)]
        lines += [
            f"{'also ' if is_told else ''}measured: {_time(each)} for "
            + operators.text(each["nodes"])
            for each in self._some(others, _MOST_REASONS)
        ]
        lines += [
            f"{each['status']} for {operators.text(each['nodes'])}: {each['message']}"
            for each in self._some(row["failures"], _MOST_REASONS)
        ]
        lines += [
            f"{each['rule']} refused: {each['reason']}"
            for each in self._some(_telling(row), _MOST_REASONS)
        ]
        return [f"  {row['backend']}: {first}", *(f"    {line}" for line in lines)]

    def _some(self, rows: list[Any], most: int) -> list[Any]:
        return rows if self._is_whole else rows[:most]

    def part_lines(self, row: dict[str, Any]) -> list[str]:
        """One line on a part; of another plan one on each part of what ships there; one on each
        other backend."""
        told, part = self._told, row["part"]
        ops = label_of(row["ops"])
        lines = [f"{part['backend']}: {ops} ({self._text(row)}), {_time(part)}"]
        if told["plan"] != told["ships"]:
            lines += self._shipped_lines(row)
            # Another plan's are beside those of what ships, unless a backend was asked for.
            if told["backend"] is None:
                return lines
        if self._is_compared_whole(row):
            lines += self._whole_lines(row)
        for each in row["backends"]:
            lines += [f"  not {each['backend']}: {why}" for why in self._why_not(each, row)]
        return lines

    def _shipped_lines(self, row: dict[str, Any]) -> list[str]:
        """What the plan that ships has there."""
        ships, operators = self._told["ships"], self._operators[row["function"]]
        dearest = sorted(row["ships"], key=lambda each: -(each["seconds"] or 0.0))
        if dearest == [row["part"]]:
            return [f"  {ships}: the same"]
        shown = self._some(dearest, _MOST_PLACES)
        lines = [
            f"  {ships}: {each['backend']}, {operators.text(each['nodes'])}, {_time(each)}"
            for each in shown
        ]
        left = len(dearest) - len(shown)
        return [*lines, *([f"  {ships}: {left} other parts"] if left else [])]

    def _is_compared_whole(self, row: dict[str, Any]) -> bool:
        """Whether a part is the whole net, and other plans of it ran."""
        return row["is_whole"] and self._told["second"]["plan"] is not None

    def _whole_lines(self, row: dict[str, Any]) -> list[str]:
        """Where one part is all: what the second best plan tells of it."""
        second, operators = self._told["second"], self._operators[row["function"]]
        lines = [
            "  It is the whole net. The plans above tell more of it, as each ran end to end: the "
            f"next best is {second['plan']}."
        ]
        for pair in second["pairs"]:
            other, own = pair["there_candidate"], pair["here_candidate"]
            there, here = times_alike(other["seconds"], own["seconds"])
            is_loss = other["seconds"] > own["seconds"]
            lines.append(
                f"  Of equal operators, each started alone, {other['backend']} "
                f"{'loses' if is_loss else 'gains'} most at {label_of(pair['ops'])} "
                f"({operators.nodes(pair['nodes'])}): "
                f"{there}{flags_text(other['flags'])} there, "
                f"{here}{flags_text(own['flags'])} with {own['backend']}"
            )
        return lines

    def _why_not(self, each: dict[str, Any], row: dict[str, Any]) -> list[str]:
        """What a backend would cost in place of a part, and why it cannot have some of it."""
        operators, instead = self._operators[row["function"]], each["instead"]
        # Of the whole net the plans above tell it, by what they took end to end.
        is_told = instead and not self._is_compared_whole(row)
        known = [in_short(instead, operators, self._told)] if is_told else []
        states: dict[str, list[int]] = {}
        for reason in each["reasons"]:
            if not (instead and reason["reason"]["why"] in _OF_A_PLAN):
                states.setdefault(self._state(reason["reason"]), []).extend(reason["nodes"])
        texts = [
            state if len(nodes) == len(row["nodes"]) else f"{state} ({operators.text(nodes)})"
            for state, nodes in states.items()
        ]
        shown = self._some(texts, _MOST_REASONS)
        left = len(texts) - len(shown)
        return [*known, *shown, *([f"{left} more: --all tells all"] if left else [])]

    def _state(self, reason: dict[str, Any] | None, is_kernel: bool = True) -> str:
        """Why a backend does not have a node."""
        if reason is None and not is_kernel:
            return "it launches no kernel"
        if reason is None:
            return "it runs this in the op-level plan"
        rule = f"{reason['rule']}: " if reason["why"] == "refused" and reason["rule"] else ""
        return f"{why_text(reason['why'])}: {rule}{reason['message']}".removesuffix(": ")


def _total(parts: list[dict[str, Any]]) -> float:
    return sum(part["seconds"] or 0.0 for part in parts)


def _who(parts: list[dict[str, Any]]) -> str:
    """The parts by backend, and what makes their times doubtful."""
    names = Counter(part["backend"] for part in parts)
    shown = [name if n == 1 else f"{n} of {name}" for name, n in sorted(names.items())]
    return ", ".join([*shown, *in_order(flag for part in parts for flag in part["flags"])])


def _time(part: dict[str, Any]) -> str:
    alone = " alone" * (part["seconds"] is None)
    return time_text(part["seconds"], part["flags"]) + alone


def _telling(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The refusals of what no candidate of the backend holds, another pattern's for instance."""
    held = [set(each["nodes"]) for each in row["candidates"]]
    return [
        each for each in row["refusals"] if not any(set(each["nodes"]) <= nodes for nodes in held)
    ]
