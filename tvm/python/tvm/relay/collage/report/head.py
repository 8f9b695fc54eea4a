# SPDX-License-Identifier: Apache-2.0
"""The three lines with which a report begins. Test: report/test_head.py."""

from __future__ import annotations

from typing import Any

from ..costs.statistics import Interval
from .facts import busy_text, operators_by_backend, ratio_text
from .times import plan_time

MORE = (
    "All plans, parts, reasons: show(details=True), save_html(PAGE); "
    "of a file: collage report FILE --details, --html PAGE."
)


def head_lines(report: dict[str, Any]) -> tuple[str, str, str]:
    """Of result_to_json: what ships and on what; how fast it is, beside what; what to do next."""
    return _ships(report), _latency(report), doubt(report) or MORE


def _ships(report: dict[str, Any]) -> str:
    counts = operators_by_backend(report)
    places = [f"{count} on {name}" for name, count in sorted(counts.items(), key=lambda p: -p[1])]
    operators = f": operators {', '.join(places)}" if places else ""
    return f"Plan {report['plan']} ships{operators}."


def _latency(report: dict[str, Any]) -> str:
    chosen, best = _told(report)
    if chosen is None:
        why = report["guard_skipped"] or "the guard, which measures whole plans, was off"
        return f"How fast it is was not measured: {why}."
    text = f"It takes {plan_time(chosen)} a run"
    if best:
        beside = f"the best backend alone, {best['name']} with {plan_time(best)}"
        return f"{text}, {ratio_text(chosen)} as fast as {beside}."
    second = min(_others(report, chosen), key=_times_as_long, default=None)
    if second is None:
        return f"{text}; there was no other plan to compare with."
    times = Interval.from_json(second["ratio_to_chosen"]).Summary(".2f", "times that")
    return f"{text}; the next plan, {second['name']}, takes {times}."


def agreement_line(report: dict[str, Any]) -> str:
    """How outputs agree with those of the model's file; "" where none was named."""
    found = report.get("original")
    return f"{found['summary'][0].upper()}{found['summary'][1:]}." if found else ""


def doubt(report: dict[str, Any]) -> str:
    """What makes the figures doubtful, and what to do next; "" for nothing."""
    busy = busy_text(report)
    return f"Doubtful: {busy}." if busy else ""


def explained_mark(report: dict[str, Any]) -> str:
    """What "(busy)" in the second line means, and what to do; "" where no time has that mark."""
    if not any("busy" in row.get("flags", ()) for row in _told(report) if row):
        return ""
    return (
        "(busy) marks a time that was taken beside other work: run this command again when "
        "`collage doctor` finds the machine quiet; another plan may ship then"
    )


def _told(report: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The plans whose times the second line tells: the chosen one, if it was measured, and the best
    backend alone, if it is another one that the chosen one was compared with."""
    chosen = next((row for row in report["plans"] if row["is_chosen"]), None)
    if chosen is None or chosen["seconds"] is None:
        return None, None
    best = _best_single(report) if chosen["ratio_to_best_single"] else None
    return chosen, best if best and best["name"] not in _same(report, chosen) else None


def _best_single(report: dict[str, Any]) -> dict[str, Any] | None:
    """The fastest plan of one backend alone: by the rounds that they share, as the ratios are."""
    singles = [row for row in report["plans"] if row["is_single_backend"] and row["seconds"]]
    return max(singles, key=_speed, default=None)


def _speed(row: dict[str, Any]) -> tuple[float, float]:
    ratio = row["ratio_to_best_single"]
    return (ratio["value"] if ratio else 0.0, -row["seconds"])


def _times_as_long(row: dict[str, Any]) -> float:
    """Of the chosen plan's seconds, by the rounds that both ran: the medians of each alone may be
    in another order."""
    return row["ratio_to_chosen"]["value"]


def _others(report: dict[str, Any], chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """Plans that are no other name of the chosen one."""
    same = _same(report, chosen)
    return [
        row
        for row in report["plans"]
        if row["ratio_to_chosen"] and not {row["name"], row["same_as"] or row["name"]} & same
    ]


def _same(report: dict[str, Any], chosen: dict[str, Any]) -> set[str]:
    """The names of the plan that ships."""
    return {report["plan"], chosen["name"], chosen["same_as"]} - {""}
