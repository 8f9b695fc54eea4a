# SPDX-License-Identifier: Apache-2.0
"""One net's comparison as a JSON record, and what records say together.

Ratios are peer / ours, medians of the ratios round by round: above 1 where ours is faster. Test:
bench/test_peers.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tvm.relay.collage.measure import Comparison
from tvm.relay.collage.timing.comparison import paired_ratio

OURS = "collage"
_SURELY_FASTER = 1.01
# Who may be slower by more than this is not called level.
_CLOSE = 0.9
# Parts of Collage's plan that a record keeps, those that take longest.
_PARTS = 8


def make_record(
    key: Mapping[str, Any],
    comparisons: Sequence[Comparison],
    peers: Sequence[str],
    failures: Mapping[str, str],
    built: Mapping[str, Any],
) -> dict[str, Any]:
    """A record: rows of contestants, the fastest peer, the slowest parts of our plan.

    key: net, batch and threads. peers: names that stand for a framework. failures: contestants that
    were not even built, with the reason. built: facts of the builds, kept as they are.
    """
    by_name = {item.name: item for item in comparisons}
    ours = by_name.get(OURS)
    rows = [row_of(item, ours) | {"is_peer": item.name in peers} for item in comparisons]
    named = {row["name"] for row in rows}
    rows += [
        _failed_row(name, text, name in peers)
        for name, text in failures.items()
        if name not in named
    ]
    usable = [row for row in rows if row["is_peer"] and row["seconds"] is not None]
    fastest = min(usable, key=lambda row: row["seconds"], default=None)
    return {
        **key,
        "rows": rows,
        "fastest_peer": fastest["name"] if fastest else None,
        "ratio": fastest["ratio"] if fastest else None,
        **built,
    }


def row_of(item: Comparison, base: Comparison | None) -> dict[str, Any]:
    """A contestant's figures; ratio is its time by the base's with the 95 % interval, whose upper
    bound is None after too few rounds; None where one of the two has none."""
    ratio = None
    if base is not None and base.cost.is_usable and item.cost.is_usable:
        ratio = list(paired_ratio(item.samples, base.samples).to_json().values())
    error = item.output_error
    return {
        "name": item.name,
        "status": item.cost.status,
        "seconds": item.cost.seconds,
        "low": item.cost.low,
        "high": item.cost.high,
        "fastest": min(item.samples) if item.samples else None,
        "rounds": item.cost.rounds,
        "ratio": ratio,
        "output_error": error if error is not None and math.isfinite(error) else None,
        "noisy": item.cost.is_noisy,
        "message": item.cost.remarks,
    }


def interval_text(interval: Sequence[float | None], form: str = ".3f") -> str:
    """1.234 [1.200, 1.260]; too few rounds give no upper end."""
    value, low, high = ("inf" if each is None else format(each, form) for each in interval)
    return f"{value} [{low}, {high}]"


def _failed_row(name: str, message: str, is_peer: bool) -> dict[str, Any]:
    row = dict.fromkeys(("seconds", "low", "high", "fastest", "ratio", "output_error"))
    return row | {
        "name": name,
        "is_peer": is_peer,
        "status": "compile_failed",
        "rounds": 0,
        "message": message,
    }


def slowest_parts(report: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The parts of the op-level plan that take longest: backend, ops, count, seconds, share."""
    parts = [part for row in (report or {}).get("functions", []) for part in row["parts"]]
    parts.sort(key=lambda part: -part["total_seconds"])
    keys = ("backend", "ops", "count", "total_seconds", "share")
    return [{key: part[key] for key in keys} for part in parts[:_PARTS]]


def failed_alone(report: Mapping[str, Any] | None) -> dict[str, str]:
    """Backends whose plan alone Collage's guard could not build or run, with the reason."""
    return {
        f"{row['name']} alone": row["message"]
        for row in (report or {}).get("plans", [])
        if row["is_single_backend"] and row["seconds"] is None
    }


def geometric_means(records: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, int]]:
    """Peer -> (geometric mean of peer / ours, number of nets that both ran); and "fastest peer"."""
    ratios: dict[str, list[float]] = {}
    for record in records:
        for row in record["rows"]:
            if row["is_peer"] and row["ratio"]:
                ratios.setdefault(row["name"], []).append(row["ratio"][0])
        if record["ratio"]:
            ratios.setdefault("fastest peer", []).append(record["ratio"][0])
    return {
        name: (statistics.geometric_mean(values), len(values)) for name, values in ratios.items()
    }


def best_framework(records: Sequence[Mapping[str, Any]]) -> tuple[str, float, int] | None:
    """The one framework that a user had best picked for all nets: its name, the geometric mean of
    its ratio to ours, and the number of nets, which are those that all frameworks and ours ran."""
    tables = [
        {row["name"]: row["ratio"][0] for row in record["rows"] if row["is_peer"] and row["ratio"]}
        for record in records
    ]
    names = {name for table in tables for name in table}
    common = [table for table in tables if names == set(table)]
    if not common or not names:
        return None
    means = {name: statistics.geometric_mean(t[name] for t in common) for name in names}
    best = min(means, key=means.__getitem__)
    return best, means[best], len(common)


def ours_failed(record: Mapping[str, Any]) -> bool:
    """Whether there is no time of ours."""
    return not any(row["name"] == OURS and row["seconds"] is not None for row in record["rows"])


def verdict(record: Mapping[str, Any]) -> str:
    """ "slower", "level" or "faster" than the fastest peer by the 95 % interval, "undecided" when
    that holds level and slower by 10 % alike or has no bound, "failed" when ours has, "no result"
    when every peer has.

    Two processes that run the same differ by up to 1 %, so less than that is not called faster.
    """
    if ours_failed(record):
        return "failed"
    if not record["ratio"]:
        return "no result"
    _, low, high = record["ratio"]
    if high is not None and high < 1:
        return "slower"
    if low > _SURELY_FASTER:
        return "faster"
    return "level" if low >= _CLOSE else "undecided"
