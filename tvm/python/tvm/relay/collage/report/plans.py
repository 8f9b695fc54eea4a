# SPDX-License-Identifier: Apache-2.0
"""Plans beside the best single backend, from one interleaved comparison.
Test: report/test_report.py."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from ..measure.race.comparison import Comparison, are_dependent, best_first, paired_ratio


def compare_plans(
    comparisons: Sequence[Comparison], singles: Collection[str], chosen: str | None = None
) -> list[dict[str, Any]]:
    """A JSON row for each plan, in the order given; times in seconds.

    `singles` names the plans of one backend alone: the fastest of them is what the others are
    compared with. `ratio_to_best_single` is best single / plan, above 1 where the plan is faster,
    with its 95 % interval; None for a plan that failed, and a bound that the rounds were too few
    for. `flags` are what makes its seconds doubtful. `ratio_to_chosen` is plan / chosen plan, above
    1 where the plan is slower, likewise.
    `is_dependent` says that the first interval, or that of the ratio to the fastest plan, is too
    narrow, since rounds depend on those before. `chosen` is the plan that ships. `same_as` names
    the equal plan that was measured for it, "" for a plan that was measured itself. `memory_bytes`
    and `library_bytes` are 0 where they are not known.
    """
    best = best_single(comparisons, singles)
    ships = next((item for item in comparisons if item.name == chosen), None)
    return [
        {
            "name": item.name,
            "is_single_backend": item.name in singles,
            "is_chosen": item.name == chosen,
            "status": item.cost.status,
            "seconds": item.cost.seconds,
            "low": item.cost.low,
            "high": item.cost.high,
            "rounds": item.cost.rounds,
            "flags": list(item.cost.flags),
            "ratio_to_best_single": _ratio(best, item),
            "ratio_to_chosen": _ratio(item, ships),
            "is_dependent": item.is_dependent or _is_dependent(best, item),
            "output_error": _finite(item.output_error),
            "message": item.cost.remarks,
            "same_as": item.same_as,
            "memory_bytes": item.memory_bytes,
            "library_bytes": item.library_bytes,
        }
        for item in comparisons
    ]


def best_single(comparisons: Sequence[Comparison], singles: Collection[str]) -> Comparison | None:
    """The fastest plan of one backend alone, by the rounds that they share; None when none ran."""
    usable = [item for item in comparisons if item.name in singles and item.cost.is_usable]
    order = best_first({item.name: item.samples for item in usable if item.samples})
    return next((item for item in usable if order and item.name == order[0]), None)


def _ratio(above: Comparison | None, below: Comparison | None) -> dict[str, float | None] | None:
    if above is None or below is None or not (_has_ratio(above) and _has_ratio(below)):
        return None
    return paired_ratio(above.samples, below.samples).to_json()


def _is_dependent(best: Comparison | None, item: Comparison) -> bool:
    return best is not None and _has_ratio(item) and are_dependent(best.samples, item.samples)


def _has_ratio(item: Comparison) -> bool:
    return item.cost.is_usable and bool(item.samples)


def _finite(value: float | None) -> float | None:
    """JSON has no infinity; a plan whose output is off that far says so in its message."""
    return value if value is not None and math.isfinite(value) else None
