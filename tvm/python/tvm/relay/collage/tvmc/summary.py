# SPDX-License-Identifier: Apache-2.0
"""The few lines that `tvmc compile --collage` prints of a report. Test: tvmc/test_summary.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..costs.compared import ComparedPlan
from ..costs.cost import format_seconds
from ..report import Report
from ..report.facts import busy_text, plan_remarks, plan_time, ratio_text
from ..report.record import PlacedOps


def summary_lines(report: Report, written: Mapping[str, str | None]) -> list[str]:
    """Return what ships and how fast, beside each backend alone; where its operators run; the files
    that `written` names by what they are."""
    chosen = [_figures(row) for row in report.plans if row.is_chosen]
    lines = [", ".join([f"plan {report.plan}", *chosen])]
    lines += [
        f"{row.name} alone, {_figures(row)}"
        for row in report.plans
        if row.is_single_backend and not row.is_chosen
    ]
    if report.guard_skipped:
        lines.append(f"not measured end to end: {report.guard_skipped}")
    if report.ended_early:
        lines.append(f"ended early: {report.ended_early}")
    if report.original:
        lines.append(report.original.summary)
    if report.unverified:
        lines.append(f"not verified: {report.unverified}")
    if busy_text(report):
        lines.append(f"busy machine: {busy_text(report)}")
    lines.append("runs on " + _by_backend(report.placement))
    lines.append(", ".join(f"{what} {path}" for what, path in written.items() if path))
    return [f"collage: {line}" for line in lines]


def _figures(row: ComparedPlan) -> str:
    """Return a plan's latency; by the rounds that both ran, how many times as fast it is as the
    best backend alone; what makes that doubtful."""
    remarks = plan_remarks(row)
    if row.seconds is None:
        return f"{row.status}: {remarks}" if remarks else row.status
    text = plan_time(row)
    if row.low is not None and row.high is not None:
        text += f" [{format_seconds(row.low)}, {format_seconds(row.high)}]"
    if row.ratio_to_best_single is not None:
        text += f", {ratio_text(row, 'x the best backend alone')}"
    return f"{text}; {remarks}" if remarks else text


def _by_backend(placement: Iterable[PlacedOps]) -> str:
    """Return parts and operators of each backend; how many kernels TVM makes is for its fusion to
    say."""
    operators: dict[str, int] = {}
    parts: dict[str, int] = {}
    for row in placement:
        operators[row.backend] = operators.get(row.backend, 0) + row.operators
        parts[row.backend] = parts.get(row.backend, 0) + (row.parts or 0)
    return ", ".join(
        f"{name}: "
        + (f"{_count(parts[name], 'part')}, " if parts[name] else "")
        + _count(n, "operator")
        for name, n in operators.items()
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
