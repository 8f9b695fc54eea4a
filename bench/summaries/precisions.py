# SPDX-License-Identifier: Apache-2.0
"""Tell what fewer bits gain within an error, from the records of bench/precision.py.

Test: bench/test_precision_bench.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.records import origin
from harness.tables import interval_text, markdown_table, milliseconds, text_table

Record = Mapping[str, Any]
OURS = "collage"
_HEAD = ("net", "budget", "ships", "layers", "ms", "error", "over float32", "best peer", "over it")


def summary_of(found: Record) -> str:
    """Return one line of a record for who waits."""
    if found["failure"]:
        return f"failed: {found['failure'][:200]}"
    _, _, ships, layers, ms, error, over_float, peer, over_peer = _cells(found)
    return (
        f"ships {ships} ({layers}), {ms} ms, error {error}; {over_float} of float32, "
        f"{over_peer} of {peer}; {found['seconds']:.0f} s"
    )


def totals(found: Sequence[Record]) -> str:
    """Return a row for each record, and the geometric means."""
    done = [each for each in found if not each["failure"]]
    return "\n".join([text_table(_HEAD, map(_cells, done)), *_means(done)])


def tables(found: Sequence[Record]) -> str:
    """Return the same in Markdown, with where it was measured."""
    done = [each for each in found if not each["failure"]]
    means = "".join(f"\n{line}\n" for line in _means(done))
    return f"{origin(done)}\n\n{markdown_table(_HEAD, map(_cells, done))}{means}"


def headline(found: Sequence[Record]) -> str:
    """Return one sentence on each budget, with where it was measured."""
    done = [each for each in found if not each["failure"]]
    return f"{' '.join(_means(done))} {origin(done)}.\n"


def best_peer(found: Record) -> Mapping[str, Any] | None:
    """Return the row of the fastest peer that is within the budget; None where none is."""
    rows = [row for row in found["rows"] if row["name"] != OURS and row["seconds"]]
    within = [r for r in rows if r["output_error"] is not None]
    within = [row for row in within if row["output_error"] <= found["budget"]]
    return min(within, key=lambda row: row["seconds"], default=None)


def over_float32(found: Record) -> float | None:
    """Return how many times as fast as our own float32 what ships was, as it was chosen."""
    built = found["built"]
    plain, ships = (built.get(name, (None,))[0] for name in ("float32", found["ships"]))
    return plain / ships if plain and ships else None


def _cells(found: Record) -> list[str]:
    ours = next(row for row in found["rows"] if row["name"] == OURS)
    layers = ", ".join(f"{count} {kind}" for kind, count in sorted(found["layers"].items()))
    gain, peer = over_float32(found), best_peer(found)
    error = ours["output_error"]
    return [
        found["net"] if found["is_trained"] else f"{found['net']} (random)",
        f"{found['budget']:g}",
        found["ships"],
        layers or "-",
        milliseconds(ours["seconds"]),
        "-" if error is None else f"{error:.2%} {found['used_metric']}",
        f"{gain:.2f}" if gain else "-",
        peer["name"] if peer else "-",
        interval_text(peer["ratio"], ".2f") if peer else "-",
    ]


def _means(found: Sequence[Record]) -> list[str]:
    """Return the geometric means of each budget."""
    lines = []
    for budget in sorted({each["budget"] for each in found}):
        those = [each for each in found if each["budget"] == budget]
        gains = [gain for each in those if (gain := over_float32(each))]
        peers = [best_peer(each) for each in those]
        ratios = [peer["ratio"][0] for peer in peers if peer and peer["ratio"]]
        mixed = sum(len(each["layers"]) > 1 for each in those)
        lines.append(
            f"Within {budget:g}: {_mean(gains)} times our float32, {_mean(ratios)} times the best "
            f"peer within it; {mixed} of {len(those)} nets mix precisions."
        )
    return lines


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}"
