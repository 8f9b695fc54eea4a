# SPDX-License-Identifier: Apache-2.0
"""Operators that another backend runs faster than the best backend alone does, by their profiles.

It is where a mix could gain, before what borders between parts take: the reason why the search
went on, or did not. Test: report/test_elsewhere.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..costs.cost import format_seconds
from ..views.function_report import FunctionReport
from .record import FasterElsewhere, Report

# A profile of an operator is a share of a kernel's time, and differs by as much from run to run.
_FASTER = 0.9
_MOST = 20
# Rows that are told to people.
_TOLD = 3


def faster_elsewhere(
    profiles: Mapping[str, Mapping[int, float]], best: str, reports: Iterable[FunctionReport]
) -> tuple[FasterElsewhere, ...]:
    """Return the operators that a backend is faster at than `best`, which the most gain first.

    `profiles`: seconds by backend and node, of a model of one function."""
    searched = [report for report in reports if not report.skipped]
    if best not in profiles or len(searched) != 1:
        return ()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for node in searched[0].graph.nodes:
        here = profiles[best].get(node.index, 0.0)
        others = {name: s[node.index] for name, s in profiles.items() if node.index in s}
        other = min(others, key=lambda name: others[name], default=best)
        if node.op and other != best and others[other] < _FASTER * here:
            found.setdefault((node.op, other), []).append((here, others[other]))
    rows = [
        FasterElsewhere(
            op=op,
            backend=backend,
            operators=len(times),
            here_seconds=sum(here for here, _ in times),
            there_seconds=sum(there for _, there in times),
        )
        for (op, backend), times in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.there_seconds - row.here_seconds)[:_MOST])


def elsewhere_text(report: Report) -> str:
    """Say which operators another backend runs faster, and by how much; "" for none."""
    rows = [
        f"{row.op} x{row.operators} {format_seconds(row.here_seconds)}, on {row.backend} "
        f"{format_seconds(row.there_seconds)}"
        for row in report.elsewhere[:_TOLD]
    ]
    if not rows:
        return ""
    return (
        "Where another backend is faster, by profiles and before borders between parts: "
        f"{'; '.join(rows)}."
    )
