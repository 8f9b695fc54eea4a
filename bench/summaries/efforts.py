# SPDX-License-Identifier: Apache-2.0
"""Tell how long compiles take at each effort, and what is lost by less of it.

Test: bench/test_efforts.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from harness.tables import text_table
from tvm_collage.words import Effort

Record = Mapping[str, Any]


def summary_of(found: Record) -> str:
    """Return one line of a record for who waits."""
    if found["failure"]:
        return f"{found['failure']['stage']}: {found['failure']['message'][:200]}"
    return "; ".join(_one(found, effort) for effort in found["efforts"])


def _one(found: Record, effort: str) -> str:
    facts = found["efforts"][effort]
    ratio = _ratio(found, effort)
    behind = f", {ratio:.3f} of the exhaustive one's time" if ratio else ""
    return (
        f"{effort} {facts['seconds']:.0f} s, {facts['asked']} costs, ships {facts['ships']}{behind}"
    )


def totals(records: Sequence[Record]) -> str:
    """Return a row for each effort: seconds in the median and at most, costs, and the time of what
    ships over the exhaustive one's in the geometric mean and at most."""
    done = [record for record in records if not record["failure"]]
    head = ["effort", "nets", "first answer s", "median s", "most s", "costs", "below bounds"]
    head += ["time of what ships", "most"]
    rows = []
    for effort in Effort:
        found = [each["efforts"][effort] for each in done if effort in each["efforts"]]
        if not found:
            continue
        ratios = [ratio for each in done if (ratio := _ratio(each, effort))]
        asked = sum(facts["asked"] for facts in found)
        below = sum(facts["below_bounds"] for facts in found)
        seconds = [facts["seconds"] for facts in found]
        rows.append(
            [
                effort,
                str(len(found)),
                f"{statistics.median(facts['first_answer'] for facts in found):.1f}",
                f"{statistics.median(seconds):.1f}",
                f"{max(seconds):.1f}",
                str(asked),
                f"{below / asked:.1%}" if asked else "-",
                f"{_geometric_mean(ratios):.3f}" if ratios else "-",
                f"{max(ratios):.3f}" if ratios else "-",
            ]
        )
    return f"{text_table(head, rows)}\n"


def _ratio(found: Record, effort: str) -> float | None:
    """Return the time of what ships at an effort over that of the exhaustive one; None where one of
    them was not measured."""
    rows = {row["name"]: row for row in found.get("rows", [])}
    ratio = rows.get(effort, {}).get("ratio")
    return ratio[0] if ratio else None


def _geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))
