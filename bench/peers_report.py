# SPDX-License-Identifier: Apache-2.0
"""One net's comparison in bench/peers.py as a record, and what records say together: as text, and
as a plot where matplotlib is installed.

Ratios are peer / ours, medians of the ratios round by round: above 1 where ours is faster. Test:
bench/test_peers.py.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.build import COLLAGE
from harness.sides import rows_of
from harness.tables import interval_text, milliseconds, text_table
from tvm.relay.collage.measure import Comparison

Record = Mapping[str, Any]
_SURELY_FASTER = 1.01
# Who may be slower by more than this is not called level.
_CLOSE = 0.9
# Parts of Collage's plan that a record keeps, those that take longest.
_PARTS = 8


def make_record(
    key: Record,
    comparisons: Sequence[Comparison],
    peers: Sequence[str],
    failures: Mapping[str, str],
    built: Record,
) -> dict[str, Any]:
    """A record: rows of contestants, the fastest peer, the slowest parts of our plan.

    key: net, batch and threads. peers: names that stand for a framework. failures: contestants that
    were not even built, with the reason. built: facts of the builds, kept as they are.
    """
    ours = {item.name: item for item in comparisons}.get(COLLAGE)
    rows = rows_of(comparisons, ours, peers, failures)
    usable = [row for row in rows if row["is_peer"] and row["seconds"] is not None]
    fastest = min(usable, key=lambda row: row["seconds"], default=None)
    return {
        **key,
        "rows": rows,
        "fastest_peer": fastest["name"] if fastest else None,
        "ratio": fastest["ratio"] if fastest else None,
        **built,
    }


def slowest_parts(report: Record | None) -> list[dict[str, Any]]:
    """The parts of the op-level plan that take longest: backend, ops, count, seconds, share."""
    parts = [part for row in (report or {}).get("functions", []) for part in row["parts"]]
    parts.sort(key=lambda part: -part["total_seconds"])
    keys = ("backend", "ops", "count", "total_seconds", "share")
    return [{key: part[key] for key in keys} for part in parts[:_PARTS]]


def failed_alone(report: Record | None) -> dict[str, str]:
    """Backends whose plan alone Collage's guard could not build or run, with the reason."""
    return {
        f"{row['name']} alone": row["message"]
        for row in (report or {}).get("plans", [])
        if row["is_single_backend"] and row["seconds"] is None
    }


def _ratios(record: Record) -> dict[str, float]:
    """peer / ours by peer, of those that both ran."""
    return {
        row["name"]: row["ratio"][0] for row in record["rows"] if row["is_peer"] and row["ratio"]
    }


def geometric_means(records: Sequence[Record]) -> dict[str, tuple[float, int]]:
    """Peer -> (geometric mean of peer / ours, number of nets that both ran); and "fastest peer"."""
    ratios: dict[str, list[float]] = {}
    for record in records:
        of_all = _ratios(record)
        if record["ratio"]:
            of_all["fastest peer"] = record["ratio"][0]
        for name, ratio in of_all.items():
            ratios.setdefault(name, []).append(ratio)
    return {
        name: (statistics.geometric_mean(values), len(values)) for name, values in ratios.items()
    }


def best_framework(records: Sequence[Record]) -> tuple[str, float, int] | None:
    """The one framework that a user had best picked for all nets: its name, the geometric mean of
    its ratio to ours, and the number of nets, which are those that all frameworks and ours ran."""
    tables = [_ratios(record) for record in records]
    names = {name for table in tables for name in table}
    common = [table for table in tables if names == set(table)]
    if not common or not names:
        return None
    means = {name: statistics.geometric_mean(t[name] for t in common) for name in names}
    best = min(means, key=means.__getitem__)
    return best, means[best], len(common)


def ours_failed(record: Record) -> bool:
    """Whether there is no time of ours."""
    return not any(row["name"] == COLLAGE and row["seconds"] is not None for row in record["rows"])


def verdict(record: Record) -> str:
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


def net_text(record: Record) -> str:
    """One net: a line for each contestant, the fastest first, then the verdict."""
    head = ["contestant", "median ms", "95 % interval", "fastest", "peer/ours", "error"]
    rows, failed = [], []
    for row in sorted(
        record["rows"], key=lambda row: (row["seconds"] is None, row["seconds"] or 0)
    ):
        if row["seconds"] is None:
            failed.append(f"  {row['name']}: {row['status']}: {row['message']}")
            continue
        ends = [milliseconds(row[name]) for name in ("low", "high")]
        rows.append(
            [
                row["name"],
                milliseconds(row["seconds"]),
                "-" if row["low"] is None else f"[{', '.join(ends)}]",
                milliseconds(row["fastest"]),
                "" if row["name"] == COLLAGE else interval_text(row["ratio"]),
                "-" if row["output_error"] is None else f"{row['output_error']:.1e}",
                row["message"],
            ]
        )
    lines = [f"{record['net']}, batch {record['batch']}, {record['threads']} threads"]
    lines += [text_table(head, rows), *failed]
    if record.get("ships"):
        lines.append(f"  collage ships plan {record['ships']}")
    return "\n".join([*lines, f"  {verdict_text(record)}"])


def verdict_text(record: Record) -> str:
    """How ours stands to the fastest peer, and where it is slower, what takes the time."""
    found = verdict(record)
    if found == "failed":
        return f"{record['net']}: ours FAILED"
    if found == "no result":
        return f"{record['net']}: no result, every peer failed"
    text = f"{record['net']}: ours is {found.upper() if found == 'slower' else found}"
    text += f", {interval_text(record['ratio'])} of {record['fastest_peer']}"
    if found == "slower":
        text += f": {100 * (1 / record['ratio'][0] - 1):.0f} % more time"
        parts = [
            f"{part['backend']} {part['ops']} x{part['count']} {1e3 * part['total_seconds']:.2f} ms"
            for part in record.get("parts", [])[:3]
        ]
        if parts:
            text += "; our longest parts: " + "; ".join(parts)
    return text


def summary_text(records: Sequence[Record]) -> str:
    """All nets: verdicts, the slower ones last, and geometric means by framework."""
    order = ["faster", "level", "undecided", "no result", "slower", "failed"]
    ranked = sorted(records, key=lambda record: order.index(verdict(record)))
    lines = ["peer / ours: above 1 where ours is faster", *map(verdict_text, ranked)]
    for name, (mean, count) in geometric_means(records).items():
        lines.append(f"geometric mean over {count} nets against {name}: {mean:.3f}")
    best = best_framework(records)
    if best is not None:
        name, mean, count = best
        lines.append(f"best single framework: {name}, {mean:.3f} over the {count} nets all ran")
    kinds = {
        "undecided": "undecided (run again on a quiet machine)",
        "slower": "SLOWER than the fastest peer",
        "failed": "FAILED",
    }
    for kind, what in kinds.items():
        nets = [record["net"] for record in records if verdict(record) == kind]
        lines.append(f"{what} on: {', '.join(nets) or 'none'}")
    return "\n".join(lines)


def plot(records: Sequence[Record], file: Path) -> bool:
    """Bars of peer / ours by net, with intervals; False where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = sorted({row["name"] for record in records for row in record["rows"] if row["is_peer"]})
    figure, axes = pyplot.subplots(figsize=(2 + 1.2 * len(records), 4))
    width = 0.8 / max(1, len(names))
    for k, name in enumerate(names):
        axes.bar(0, 0, color=f"C{k}", label=name)
        for at, record in enumerate(records):
            ratio = next((row["ratio"] for row in record["rows"] if row["name"] == name), None)
            if ratio:
                value, low, high = ratio
                # An interval of few rounds has no end, which no bar can show.
                errors = None if high is None else [[value - low], [high - value]]
                x = at + (k - (len(names) - 1) / 2) * width
                axes.bar(x, value, width, yerr=errors, color=f"C{k}", capsize=2)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(records)), [r["net"] for r in records], rotation=30, ha="right")
    axes.set_ylabel("peer / Collage (above 1: Collage is faster)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    return True
