# SPDX-License-Identifier: Apache-2.0
"""Records as text, and as a plot where matplotlib is installed. Test: bench/test_peers.py."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .record import OURS, best_framework, geometric_means, interval_text, verdict


def net_text(record: Mapping[str, Any]) -> str:
    """One net: a line for each contestant, the fastest first, then the verdict."""
    title = f"{record['net']}, batch {record['batch']}, {record['threads']} threads"
    head = f"  {'contestant':16}{'median ms':>11}{'95 % interval':>20}{'fastest':>10}"
    lines = [title, f"{head}{'peer/ours':>24}{'error':>10}"]
    order = sorted(record["rows"], key=lambda row: (row["seconds"] is None, row["seconds"] or 0))
    for row in order:
        if row["seconds"] is None:
            lines.append(f"  {row['name']:16}{row['status']}: {row['message']}")
            continue
        is_bounded = row["low"] is not None
        interval = f"[{1e3 * row['low']:.3f}, {1e3 * row['high']:.3f}]" if is_bounded else "-"
        ratio = "" if row["name"] == OURS else _ratio(row["ratio"])
        error = "-" if row["output_error"] is None else f"{row['output_error']:.1e}"
        lines.append(
            f"  {row['name']:16}{1e3 * row['seconds']:11.3f}{interval:>20}"
            f"{1e3 * row['fastest']:10.3f}{ratio:>24}{error:>10}"
            + (f"  {row['message']}" if row["message"] else "")
        )
    if record.get("ships"):
        lines.append(f"  collage ships plan {record['ships']}")
    return "\n".join([*lines, f"  {verdict_text(record)}"])


def verdict_text(record: Mapping[str, Any]) -> str:
    """How ours stands to the fastest peer, and where it is slower, what takes the time."""
    found = verdict(record)
    if found == "failed":
        return f"{record['net']}: ours FAILED"
    if found == "no result":
        return f"{record['net']}: no result, every peer failed"
    text = f"{record['net']}: ours is {found.upper() if found == 'slower' else found}"
    text += f", {_ratio(record['ratio'])} of {record['fastest_peer']}"
    if found == "slower":
        text += f": {100 * (1 / record['ratio'][0] - 1):.0f} % more time"
        parts = [
            f"{part['backend']} {part['ops']} x{part['count']} {1e3 * part['total_seconds']:.2f} ms"
            for part in record.get("parts", [])[:3]
        ]
        if parts:
            text += "; our longest parts: " + "; ".join(parts)
    return text


def summary_text(records: Sequence[Mapping[str, Any]]) -> str:
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


def plot(records: Sequence[Mapping[str, Any]], file: Path) -> bool:
    """Bars of peer / ours by net, with intervals; False where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    nets = [record["net"] for record in records]
    names = sorted({row["name"] for record in records for row in record["rows"] if row["is_peer"]})
    figure, axes = pyplot.subplots(figsize=(2 + 1.2 * len(nets), 4))
    width = 0.8 / max(1, len(names))
    for k, name in enumerate(names):
        for at, record in enumerate(records):
            ratio = next((row["ratio"] for row in record["rows"] if row["name"] == name), None)
            if ratio:
                # An interval of few rounds has no end, which no bar can show.
                ends = None in ratio
                errors = None if ends else [[ratio[0] - ratio[1]], [ratio[2] - ratio[0]]]
                x = at + (k - (len(names) - 1) / 2) * width
                axes.bar(x, ratio[0], width, yerr=errors, color=f"C{k}", capsize=2)
    for k, name in enumerate(names):
        axes.bar(0, 0, color=f"C{k}", label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(nets)), nets, rotation=30, ha="right")
    axes.set_ylabel("peer / Collage (above 1: Collage is faster)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    return True


def _ratio(ratio: Sequence[float | None] | None) -> str:
    return interval_text(ratio) if ratio else "-"
