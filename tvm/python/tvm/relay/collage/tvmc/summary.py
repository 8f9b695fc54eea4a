# SPDX-License-Identifier: Apache-2.0
"""What `tvmc compile --collage` prints of a report: a few lines. Test: test_tvmc.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..measure.comparison import DEPENDENT_ROUNDS
from ..measure.cost import format_seconds
from ..report.facts import ratio_text


def summary_lines(report: dict[str, Any], written: Mapping[str, str | None]) -> list[str]:
    """What ships and how fast, beside each backend alone; where its operators run; the files.

    `report` is that of result_to_json, `written` names what each file is.
    """
    lines = [f"collage: plan {report['plan']}"]
    for row in report["plans"]:
        if row["is_chosen"] and row["seconds"] is not None:
            gain = f"; beside the best backend alone {ratio_text(row)}"
            lines[0] += f", {_latency(row)}" + ("" if row["is_single_backend"] else gain)
            lines[0] += f"; {DEPENDENT_ROUNDS}" if row["is_dependent"] else ""
    alone = [
        f"{row['name']} {_latency(row) if row['seconds'] is not None else row['status']}"
        for row in report["plans"]
        if row["is_single_backend"]
    ]
    lines += ["collage: alone: " + ", ".join(alone)] if alone else []
    if report["guard_skipped"]:
        lines.append(f"collage: not measured end to end: {report['guard_skipped']}")
    if report["unverified"]:
        lines.append(f"collage: not verified: {report['unverified']}")
    lines.append("collage: runs on " + _by_backend(report["placement"]))
    lines.append(
        "collage: " + ", ".join(f"{what} {path}" for what, path in written.items() if path)
    )
    return lines


def _latency(row: dict[str, Any]) -> str:
    text = format_seconds(row["seconds"])
    if row["low"] is None or row["high"] is None:
        return text
    return f"{text} [{format_seconds(row['low'])}, {format_seconds(row['high'])}]"


def _by_backend(placement: list[dict[str, Any]]) -> str:
    """Parts and operators of each backend; how many kernels TVM makes is for its fusion to say."""
    operators: dict[str, int] = {}
    parts: dict[str, int] = {}
    for row in placement:
        name = row["backend"]
        operators[name] = operators.get(name, 0) + row["operators"]
        parts[name] = parts.get(name, 0) + (row["parts"] or 0)
    return ", ".join(
        f"{name}: "
        + (f"{_count(parts[name], 'part')}, " if parts[name] else "")
        + _count(n, "operator")
        for name, n in operators.items()
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
