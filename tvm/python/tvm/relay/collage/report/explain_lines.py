# SPDX-License-Identifier: Apache-2.0
"""Explanations as lines for people. Docs: docs/report.md. Test: report/test_explain.py,
report/test_node_ranges.py.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from ..views.function_report import Refusal
from .explanation import (
    Explanation,
    InsteadRow,
    NodeBackend,
    NodeRow,
    PartBackend,
    PartRow,
    Why,
)
from .facts import Timed, flags_text, in_order, label_of, time_text, times_alike, why_text
from .net import Difference, Part

# Where plans differ, reasons, and parts or nodes that are told, unless all are asked for.
_MOST_PLACES = 2
MOST_REASONS = 3
MOST_TOLD = 10
# Reasons that are about the op-level plan, and not about the backend.
_OF_A_PLAN = ("slower", "no_better_plan", "not_measured")
_HOW_TO_READ = (
    "Times are of each part alone, and node numbers count weights and inputs too, so that those of "
    "operators have gaps."
)
# Ranges in a line, and operators from which on it is said of how many they are.
_MOST_RANGES = 12
_MANY = 12


def explain_lines(told: Explanation, is_long: bool, is_whole: bool = False) -> list[str]:
    """Return an explanation for people, the dearest first: `is_long` tells nodes, all of each, and
    nothing before them; else why this plan, and one line a part. `is_whole` leaves none out."""
    writer = _Writer(told, is_whole)
    rows: Sequence[NodeRow | PartRow] = told.nodes if is_long else told.parts
    order = sorted(rows, key=lambda row: -_seconds_of(row))
    shown = order if is_whole else order[:MOST_TOLD]
    lines = [] if is_long else writer.plan_lines()
    for row in shown:
        lines += writer.node_lines(row) if isinstance(row, NodeRow) else writer.part_lines(row)
    if left := order[len(shown) :]:
        what = "nodes" if is_long else "parts"
        most = _seconds_of(left[0])
        dear = f", none of which takes longer than {time_text(most, ())} alone" if most else ""
        lines.append(f"There are {len(left)} other {what}{dear}: --all tells them too.")
    last = [*(told.remarks if is_long else ()), told.doubt]
    return [*lines, *filter(None, last)]


def _seconds_of(row: NodeRow | PartRow) -> float:
    """Return those of its part alone, 0 where it is in none or nobody measured that."""
    return (row.part.seconds if row.part else None) or 0.0


class _Writer:
    def __init__(self, told: Explanation, is_whole: bool) -> None:
        self._told, self._is_whole = told, is_whole
        self._operators = {
            row.function: Operators(row.operators, is_whole) for row in told.functions
        }

    def plan_lines(self) -> list[str]:
        """Return what ships, why the others do not, and what the parts below are of."""
        told = self._told
        plan, ships = told.plan, told.ships
        lines = [*told.head]
        for row in told.plans:
            remark = [f"  {row.remark}."] if row.remark else []
            lines += [row.text, *self._place_lines(row.places), *remark]
        if plan != ships and not told.plans:
            lines.append(f"{plan} was not measured beside {ships}.")
        beside = "" if plan == ships else f", and what {ships} has there"
        return [
            *lines,
            *told.remarks,
            f"Parts of plan {plan}, the dearest first{beside}. {_HOW_TO_READ}",
        ]

    def _place_lines(self, places: Sequence[Difference]) -> list[str]:
        # All operators are no place.
        some = [each for each in places if not self._is_all(each)]
        lines = []
        for k, each in enumerate(some):
            there, here = each.there, each.here
            lost, left = times_alike(_total(there), _total(here))
            lines.append(
                f"  {'then' if k else 'mostly'} at {label_of(each.ops)} "
                f"({self._text(each)}): {lost} ({_who(there)}) there, {left} ({_who(here)}) here, "
                "each part alone"
            )
        return self._some(lines, _MOST_PLACES)

    def _text(self, row: Difference | PartRow) -> str:
        return self._operators[row.function].text(row.nodes)

    def _is_all(self, row: Difference) -> bool:
        operators = self._operators[row.function]
        return operators.count(row.nodes) == operators.total

    def node_lines(self, node: NodeRow) -> list[str]:
        """Return all of one node."""
        told, operators = self._told, self._operators[node.function]
        name = f" {node.name}" if node.name else ""
        attrs = ", ".join(f"{key}={value}" for key, value in node.attrs.items())
        part = node.part
        what = node.op or node.kind
        if part is None:
            calls = ", ".join(map(str, told.nearest_calls))
            why = "  launches no kernel and is in no part: there is nothing to decide for it"
            why += f"; the nearest calls are {calls}" if calls else ""
            return [f"node {node.node}{name}: {what} {node.type}", why]
        lines = [
            f"node {node.node}{name}: {what} {node.type}",
            *([f"  attributes: {attrs}"] if attrs else []),
            f"  {part.backend} runs it: {_time(part)} for {operators.text(part.nodes)}",
        ]
        if there := node.ships:
            where = f"{_time(there)} for {operators.text(there.nodes)}"
            lines.append(f"  in {told.ships}, which ships, {there.backend} runs it: {where}")
        for row in node.backends:
            lines += self._backend_lines(row, node, operators)
        return lines

    def _backend_lines(self, row: NodeBackend, node: NodeRow, operators: Operators) -> list[str]:
        if row.instead:
            first, *lines = InsteadText(row.instead, operators, self._told).lines()
        else:
            lines = []
            first = "runs it" if row.has_it else self._state(row.reason, node.is_kernel)
        told = row.instead.candidate.nodes if row.instead else node.part and node.part.nodes
        is_told = row.instead or row.has_it
        others = [each for each in row.candidates if not (is_told and each.nodes == told)]
        also = "also " if is_told else ""
        text = operators.text
        for found in (
            (f"{also}measured: {_time(each)} for {text(each.nodes)}" for each in others),
            (f"{each.status} for {text(each.nodes)}: {each.message}" for each in row.failures),
            (f"{each.rule} refused: {each.reason}" for each in _telling(row)),
        ):
            lines += self._some(found, MOST_REASONS)
        return [f"  {row.backend}: {first}", *(f"    {line}" for line in lines)]

    def _some(self, lines: Iterable[str], most: int, left: str = "") -> list[str]:
        """Return the first lines unless all are asked for; `left` says how many are left out."""
        lines = list(lines)
        shown = lines if self._is_whole else lines[:most]
        more = [left.format(len(lines) - len(shown))] if left and len(shown) < len(lines) else []
        return [*shown, *more]

    def part_lines(self, row: PartRow) -> list[str]:
        """Return one line on a part; of another plan one on each part of what ships there; one on
        each other backend."""
        told, part = self._told, row.part
        ops = label_of(row.ops)
        lines = [f"{part.backend}: {ops} ({self._text(row)}), {_time(part)}"]
        if told.plan != told.ships:
            lines += self._shipped_lines(row)
            # Another plan's are beside those of what ships, unless a backend was asked for.
            if told.backend is None:
                return lines
        if self._is_compared_whole(row):
            lines += self._whole_lines(row)
        for each in row.backends:
            lines += [f"  not {each.backend}: {why}" for why in self._why_not(each, row)]
        return lines

    def _shipped_lines(self, row: PartRow) -> list[str]:
        """Return what the plan that ships has there."""
        ships, operators = self._told.ships, self._operators[row.function]
        dearest = sorted(row.ships, key=lambda each: -(each.seconds or 0.0))
        if dearest == [row.part]:
            return [f"  {ships}: the same"]
        lines = [
            f"  {ships}: {each.backend}, {operators.text(each.nodes)}, {_time(each)}"
            for each in dearest
        ]
        return self._some(lines, _MOST_PLACES, f"  {ships}: {{}} other parts")

    def _is_compared_whole(self, row: PartRow) -> bool:
        """Return whether a part is the whole net, and other plans of it ran."""
        return row.is_whole and self._told.second.plan is not None

    def _whole_lines(self, row: PartRow) -> list[str]:
        """Return, where one part is all, what the second best plan tells of it."""
        second, operators = self._told.second, self._operators[row.function]
        lines = [
            "  It is the whole net. The plans above tell more of it, as each ran end to end: the "
            f"next best is {second.plan}."
        ]
        for pair in second.pairs:
            other, own = pair.there_candidate, pair.here_candidate
            seconds = other.seconds or 0.0, own.seconds or 0.0  # both were measured
            there, here = times_alike(*seconds)
            is_loss = seconds[0] > seconds[1]
            lines.append(
                f"  Of equal operators, each started alone, {other.backend} "
                f"{'loses' if is_loss else 'gains'} most at {label_of(pair.ops)} "
                f"({operators.nodes(pair.nodes)}): "
                f"{there}{flags_text(other.flags)} there, "
                f"{here}{flags_text(own.flags)} with {own.backend}"
            )
        return lines

    def _why_not(self, each: PartBackend, row: PartRow) -> list[str]:
        """Return what a backend would cost in place of a part, and why it cannot have some of
        it."""
        operators, instead = self._operators[row.function], each.instead
        known = []
        # Of the whole net the plans above tell it, by what they took end to end.
        if instead and not self._is_compared_whole(row):
            known = [InsteadText(instead, operators, self._told).short()]
        states: dict[str, list[int]] = {}
        for reason in each.reasons:
            if not (instead and reason.reason.why in _OF_A_PLAN):
                states.setdefault(self._state(reason.reason), []).extend(reason.nodes)
        texts = [
            state if len(nodes) == len(row.nodes) else f"{state} ({operators.text(nodes)})"
            for state, nodes in states.items()
        ]
        return [*known, *self._some(texts, MOST_REASONS, "{} more: --all tells all")]

    def _state(self, reason: Why | None, is_kernel: bool = True) -> str:
        """Say why a backend does not have a node."""
        if reason is None and not is_kernel:
            return "it launches no kernel"
        if reason is None:
            return "it runs this in the op-level plan"
        rule = f"{reason.rule}: " if reason.why == "refused" and reason.rule else ""
        return f"{why_text(reason.why)}: {rule}{reason.message}".removesuffix(": ")


def _total(parts: Iterable[Part]) -> float:
    return sum(part.seconds or 0.0 for part in parts)


def _who(parts: Sequence[Part]) -> str:
    """Return the parts by backend, and what makes their times doubtful."""
    names = Counter(part.backend for part in parts)
    shown = [name if n == 1 else f"{n} of {name}" for name, n in sorted(names.items())]
    return ", ".join([*shown, *in_order(flag for part in parts for flag in part.flags)])


def _time(part: Timed) -> str:
    alone = " alone" * (part.seconds is None)
    return time_text(part.seconds, part.flags) + alone


def _telling(row: NodeBackend) -> list[Refusal]:
    """Return the refusals of what no candidate of the backend holds, another pattern's for
    instance."""
    held = [set(each.nodes) for each in row.candidates]
    return [each for each in row.refusals if not any(set(each.nodes) <= nodes for nodes in held)]


# --- what a backend would cost in place of parts -------------------------------------------------


class InsteadText:
    """Words on a candidate in place of parts, its times in one unit."""

    def __init__(self, instead: InsteadRow, operators: Operators, told: Explanation) -> None:
        self._instead, self._told = instead, told
        candidate = instead.candidate
        rest, here, more = instead.rest_seconds, instead.here_seconds, instead.more_seconds
        own = candidate.seconds or 0.0  # it was measured
        whole = own + (rest or 0.0)
        charged = instead.transition_seconds
        alike = times_alike(abs(more or 0.0), own, rest or 0.0, here or 0.0, whole, charged)
        self._transitions = (
            f"without transitions of layouts; the plan is charged {alike[5]} for those there"
            if charged
            else ""
        )
        held = {node for part in instead.here for node in part.nodes}
        left = operators.count(held - {*candidate.nodes})
        self._own = alike[1] + flags_text(candidate.flags)
        place = operators.text(candidate.nodes)
        self._candidate = f"{self._own} for {place}"
        # In just the place of one part, whose operators stand above.
        self._is_same = len(instead.here) == 1 and not left
        others = f"the other {f'{left} operators' if left > 1 else 'operator'}"
        self._rest = f", {alike[2]}{_marks(instead.rest or ())} for {others}" if left else ""
        self._here = alike[3] + _marks(instead.here)
        self._total = f"{alike[4]} for what takes {self._here} here"
        self._verdict = f"{alike[0]} {'less' if more is not None and more < 0 else 'more'}"
        # A sum of some of the costs would read as that of all.
        self._unknown = ""
        if rest is None:
            were = "were not all" if left > 1 else "was not"
            self._unknown = (
                f"{time_text(own, candidate.flags)} for {place}; {others} of {_those(instead)} "
                f"{were} measured, so that the total is not known"
            )
        elif here is None:
            self._unknown = (
                f"{self._candidate}{self._rest}; what it would replace here was not measured "
                "alone, so that nobody knows which is faster"
            )

    def short(self) -> str:
        """Return one line, to stand behind "not dnnl: "."""
        if self._unknown:
            return self._unknown
        there = self._own if self._is_same else self._candidate + self._rest
        text = f"{self._verdict}: {there} there, {self._here} here"
        return "; ".join(filter(None, [text, self._why_not_less()]))

    def lines(self) -> list[str]:
        """Return the verdict, then one line on each thing that is in it; where a cost is not known,
        one line that says which."""
        if self._unknown:
            return [self._unknown]
        rest = f"{self._rest.removeprefix(', ')} of {_those(self._instead)}{self._who_runs()}"
        lines = [
            f"{self._verdict} in all, with its best candidate for this: {self._total}",
            self._candidate,
            rest if self._rest else "",
            self._transitions,
            self._why_not_less(),
        ]
        return [*filter(None, lines)]

    def _who_runs(self) -> str:
        """Say who would run the other operators."""
        rest = self._instead.rest or ()
        by = Counter(each.backend for each in rest)
        if len(rest) < 2:
            return "".join(f", on {name}" for name in by)
        return ", in pieces: " + ", ".join(f"{count} on {name}" for name, count in by.most_common())

    def _why_not_less(self) -> str:
        """Say why a plan that seems to cost less is none."""
        if self._instead.more_seconds is None or self._instead.more_seconds >= 0:
            return ""
        if not self._told.is_op_level:
            return "by parts alone it is faster, but plans ship by what they take end to end"
        if not self._told.is_optimal:
            return "the search ended before it had looked at every plan"
        return (
            "no plan with it costs less in all: transitions between layouts, which these times "
            "leave out, take at least that, or these parts would wait for each other"
        )


def _marks(timed: Iterable[Timed]) -> str:
    """Say what makes the sum of several times doubtful."""
    return flags_text(flag for each in timed for flag in each.flags)


def _those(instead: InsteadRow) -> str:
    return "its part" if len(instead.here) == 1 else f"the {len(instead.here)} parts there"


# --- nodes as ranges -----------------------------------------------------------------------------


class Operators:
    """The operators of a function by their nodes' indexes. `is_whole` cuts no list of
    ranges."""

    def __init__(self, nodes: Iterable[int], is_whole: bool = False) -> None:
        self._place_of = {node: place for place, node in enumerate(sorted(nodes))}
        self._is_whole = is_whole

    @property
    def total(self) -> int:
        return len(self._place_of)

    def count(self, nodes: Iterable[int]) -> int:
        return sum(node in self._place_of for node in nodes)

    def text(self, nodes: Iterable[int]) -> str:
        """Return as "3 operators, nodes 6-8", "209 of 243 operators, nodes 13-221" or "all 243
        operators"; nodes that are no operators do not count."""
        held = [node for node in sorted(nodes) if node in self._place_of]
        count, total = len(held), len(self._place_of)
        if count == total > 1:
            return f"all {total} operators"
        of = f" of {total}" if count >= _MANY else ""
        return f"{count}{of} operator{'s' * (count != 1)}, {self.nodes(held)}"

    def nodes(self, nodes: Iterable[int]) -> str:
        """Return as "nodes 6, 8-13": a range is of operators between which there is no other."""
        numbered = enumerate(sorted(nodes))
        groups = itertools.groupby(numbered, lambda item: self._place_of[item[1]] - item[0])
        runs = [[node for _, node in group] for _, group in groups]
        if len(runs) > _MOST_RANGES and not self._is_whole:
            return f"nodes {runs[0][0]}-{runs[-1][-1]} in {len(runs)} ranges"
        texts = [
            f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
        ]
        return f"node{'s' * (sum(map(len, runs)) > 1)} {', '.join(texts)}"
