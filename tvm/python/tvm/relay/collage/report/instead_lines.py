# SPDX-License-Identifier: Apache-2.0
"""What a backend would cost in place of a plan's parts, for people: the verdict, then what it is
made of. Test: report/test_explain.py.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .node_ranges import Operators
from .times import flags_text, time_text, times_alike


def in_short(instead: dict[str, Any], operators: Operators, told: dict[str, Any]) -> str:
    """One line, behind "not dnnl: "."""
    text = _Text(instead, operators)
    if text.unknown:
        return text.unknown
    there = f"{text.own if text.is_same else text.candidate + text.rest} there, {text.here} here"
    return "; ".join(filter(None, [f"{text.verdict}: {there}", _why_not_less(instead, told)]))


def instead_lines(instead: dict[str, Any], operators: Operators, told: dict[str, Any]) -> list[str]:
    """The verdict, then one line on each thing that is in it; where a cost is not known, one line
    that says which."""
    text = _Text(instead, operators)
    if text.unknown:
        return [text.unknown]
    lines = [
        f"{text.verdict} in all, with its best candidate for this: {text.total}",
        text.candidate,
    ]
    for rest in filter(None, [text.rest.removeprefix(", ")]):
        lines.append(f"{rest} of {_those(instead)}{_who(instead['rest'] or [])}")
    return [*lines, *filter(None, [text.transitions, _why_not_less(instead, told)])]


class _Text:
    """The pieces of both, their times in one unit."""

    def __init__(self, instead: dict[str, Any], operators: Operators) -> None:
        candidate = instead["candidate"]
        rest, here, more = (instead[f"{each}_seconds"] for each in ("rest", "here", "more"))
        own = candidate["seconds"]
        whole = own + (rest or 0.0)
        charged = instead["transition_seconds"]
        alike = times_alike(abs(more or 0.0), own, rest or 0.0, here or 0.0, whole, charged)
        self.transitions = (
            f"without transitions of layouts; the plan is charged {alike[5]} for those there"
            if charged
            else ""
        )
        held = {node for part in instead["here"] for node in part["nodes"]}
        left = operators.count(held - {*candidate["nodes"]})
        self.own = alike[1] + flags_text(candidate["flags"])
        place = operators.text(candidate["nodes"])
        self.candidate = f"{self.own} for {place}"
        # In just the place of one part, whose operators stand above.
        self.is_same = len(instead["here"]) == 1 and not left
        others = f"the other {f'{left} operators' if left > 1 else 'operator'}"
        self.rest = f", {alike[2]}{_marks(instead['rest'] or [])} for {others}" if left else ""
        self.here = alike[3] + _marks(instead["here"])
        self.total = f"{alike[4]} for what takes {self.here} here"
        self.verdict = f"{alike[0]} {'less' if more is not None and more < 0 else 'more'}"
        # A sum of some of the costs would read as that of all.
        self.unknown = ""
        if rest is None:
            were = "were not all" if left > 1 else "was not"
            self.unknown = (
                f"{time_text(own, candidate['flags'])} for {place}; {others} of {_those(instead)} "
                f"{were} measured, so that the total is not known"
            )
        elif here is None:
            self.unknown = (
                f"{self.candidate}{self.rest}; what it would replace here was not measured alone, "
                "so that nobody knows which is faster"
            )


def _marks(timed: list[dict[str, Any]]) -> str:
    """What makes the sum of several times doubtful."""
    return flags_text(flag for each in timed for flag in each["flags"])


def _who(rest: list[dict[str, Any]]) -> str:
    """Who would run the other operators."""
    by = Counter(each["backend"] for each in rest)
    if len(rest) < 2:
        return "".join(f", on {name}" for name in by)
    return ", in pieces: " + ", ".join(f"{count} on {name}" for name, count in by.most_common())


def _those(instead: dict[str, Any]) -> str:
    return "its part" if len(instead["here"]) == 1 else f"the {len(instead['here'])} parts there"


def _why_not_less(instead: dict[str, Any], told: dict[str, Any]) -> str:
    """Why a plan that seems to cost less is none."""
    if instead["more_seconds"] is None or instead["more_seconds"] >= 0:
        return ""
    if not told["is_op_level"]:
        return "by parts alone it is faster, but plans ship by what they take end to end"
    if not told["is_optimal"]:
        return "the search ended before it had looked at every plan"
    return (
        "no plan with it costs less in all: transitions between layouts, which these times "
        "leave out, take at least that, or these parts would wait for each other"
    )
