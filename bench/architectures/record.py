# SPDX-License-Identifier: Apache-2.0
"""The zoo's records: a JSON object a line, one for each net, size, batch and depth.

Fields: net, size, batch, depth (the key); conditions (commit, versions, machine, threads, rounds,
rtol, backends: what the figures depend on); date; model (nodes, weights, opset, exporter of the
ONNX file); rows, one a contestant: name, is_peer, status, ms (median, its interval low to
high, the fastest round), error (of outputs), ratio (fastest peer / this, median and interval of
the rounds) and own (the same library as a peer / this), message; stages, seconds of each; slow,
kernels that are a reference or far off the roofline (kernels.Kernel.to_json); ships, the plan at
depth minutes; failure, null or stage and message of what ended the trial; seconds.
Test: bench/test_zoo.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KEY = ("net", "size", "batch", "depth")
# What depends on the commit beside the code that is hashed in the versions does not count.
CONDITIONS = ("versions", "machine", "threads", "rounds", "rtol", "backends")
_LONGEST_MESSAGE = 400
_TIMES = (("ms", "seconds"), ("low", "low"), ("high", "high"), ("fastest", "fastest"))


def rows_of(
    found: Sequence[Any], peers: Sequence[str], failures: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Rows of comparisons (measure.Comparison) and of what could not be built."""
    from harness import sides  # here: TVM is not needed to read records

    by_name = {item.name: item for item in found}
    usable = [by_name[name] for name in peers if name in by_name and by_name[name].cost.is_usable]
    fastest = min(usable, key=lambda item: item.cost.seconds, default=None)
    rows = []
    for row in sides.rows_of(found, None, peers, failures):
        item = by_name.get(row["name"])
        library = None if row["is_peer"] else by_name.get(row["name"].removesuffix(" alone"))
        row |= {"message": item.cost.message} if item else {}
        rows.append(_row(row, _rounded(fastest, item), _rounded(library, item)))
    return rows


def rows_of_peers(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a record of bench/peers.py; there the plan that ships is what ratios are of."""
    return [
        _row(row, record["ratio"] if row["name"] == "collage" else None, None)
        for row in record["rows"]
    ]


def _row(row: Mapping[str, Any], ratio: Any, own: Any) -> dict[str, Any]:
    """A row of harness.sides.row_of as the zoo's records have it."""
    times = {
        name: None if row[field] is None else round(1e3 * row[field], 4) for name, field in _TIMES
    }
    return {
        "name": row["name"],
        "is_peer": row["is_peer"],
        "status": str(row["status"]),
        **times,
        "error": row["output_error"],
        "ratio": ratio,
        "own": own,
        "noisy": row.get("noisy", False),  # a contestant that was not built says nothing
        "message": (row["message"] or "")[:_LONGEST_MESSAGE],
    }


def best_of_ours(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of ours that a user would have: what ships, or the fastest backend alone."""
    ours = [row for row in record.get("rows", []) if not row["is_peer"] and row.get("ratio")]
    return max(ours, key=lambda row: row["ratio"][0], default=None)


def _rounded(above: Any, below: Any) -> list[float | None] | None:
    from harness.sides import ratio_of

    values = ratio_of(above, below)
    return values and [None if value is None else round(value, 3) for value in values]
