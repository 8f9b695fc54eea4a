# SPDX-License-Identifier: Apache-2.0
"""Tell what becomes of ONNX files that others wrote, from the records of bench/real_files.py.

Test: bench/test_real_files.py.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from harness import quantised
from harness.records import origin
from harness.shipped import Shipped, read_table
from harness.tables import interval_text, markdown_table

PEERS = ("onnxruntime", "openvino")
# Two processes that run the same differ by so much.
AIM = 0.97
Record = Mapping[str, Any]


def ratio_of(found: Record, peer: str) -> list[float | None] | None:
    """Return the peer's time over ours, with its interval: above 1 ours is faster."""
    return next((row["ratio"] for row in found["rows"] if row["name"] == peer), None)


def of_packages(found: Sequence[Record]) -> str:
    """Return each file that packages ship with what its record says, and why some have no time."""
    return tables(read_table(), found)


def of_quantisers(found: Sequence[Record]) -> str:
    """Return the same of the nets that quantisers wrote."""
    return tables(quantised.rows(), found)


def tables(table: Sequence[Shipped], found: Sequence[Record]) -> str:
    """Return what the records say of the rows of a table."""
    by_key = {(each["package"], each["path"]): each for each in found}
    rows = [(row, by_key.get((row.package, row.path))) for row in table]
    measured = [each for _, each in rows if each]
    lines = [_line(row, each) for row, each in rows]
    head = ["file", "version", "what for", "sizes", "result"]
    head += [f"beside {peer}" for peer in PEERS] + ["ours, ms", "compiled in s"]
    parts = [_totals(measured, len(rows)), markdown_table(head, lines)]
    faults = [each for each in measured if each["message"]]
    if faults:
        why = [[each["path"], each["state"], each["message"]] for each in faults]
        parts.append(markdown_table(["file", "result", "why"], why))
    return "\n".join(parts)


def _line(row: Shipped, found: Record | None) -> list[str]:
    facts = [row.name, row.version, row.topic, row.sizes() or "fixed"]
    if found is None:
        return [*facts, "not measured", *[""] * 4]
    ours = next((each for each in found["rows"] if each["name"] == "collage"), None)
    milliseconds = f"{1e3 * ours['seconds']:.3g}" if ours and ours["seconds"] else ""
    ratios = [_cell(found, peer) for peer in PEERS]
    return [*facts, found["state"], *ratios, milliseconds, f"{found['compile_seconds']:.0f}"]


def _cell(found: Record, peer: str) -> str:
    ratio = ratio_of(found, peer)
    if ratio is None:
        statuses = {row["name"]: row["status"] for row in found["rows"]}
        return statuses.get(peer, "").replace("_", " ") if found["state"] == "right" else ""
    text = interval_text(ratio, ".2f")
    return text if ratio[0] is None or ratio[0] >= AIM else f"**{text}**"


def _totals(found: Sequence[Record], count: int) -> str:
    if not found:
        return f"None of {count} files has been measured.\n"
    counts = collections.Counter(each["state"] for each in found)
    states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    lines = [f"- {len(found)} of {count} files: {states}.", f"- {origin(found)}."]
    given = sorted({" ".join(each["conditions"]["compile_arguments"]) for each in found})
    lines.append(f"- `collage compile` was given: {'; '.join(f'`{text}`' for text in given)}.")
    longest = max(each["compile_seconds"] for each in found)
    lines.append(f"- The longest compilation took {longest:.0f} s.")
    for peer in PEERS:
        if ratios := [ratio[0] for each in found if (ratio := ratio_of(each, peer))]:
            mean, level = statistics.geometric_mean(ratios), sum(each >= AIM for each in ratios)
            lines.append(
                f"- {peer} takes {mean:.2f} times as long as ours in the geometric mean over "
                f"{len(ratios)} files, {min(ratios):.2f} to {max(ratios):.2f}; {level} are at "
                f"{AIM} or more."
            )
    noisy = sum(any(row["noisy"] for row in each["rows"]) for each in found)
    if noisy:
        lines.append(f"- While {noisy} were measured, other programs used the processor too.")
    return "\n".join(lines) + "\n"
