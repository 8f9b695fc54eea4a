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

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = ("net", "size", "batch", "depth")
# What depends on the commit beside the code that is hashed in the versions does not count.
_CONDITIONS = ("versions", "machine", "threads", "rounds", "rtol", "backends")
Key = tuple[Any, ...]


def key_of(record: Mapping[str, Any]) -> Key:
    return tuple(record[name] for name in KEY)


def load(file: Path) -> dict[Key, dict[str, Any]]:
    """Records by key; of several of one key the last. None where the file is not there."""
    lines = file.read_text().splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines if line.strip()]
    return {key_of(record): record for record in records}


def save(file: Path, records: Mapping[Key, Mapping[str, Any]]) -> None:
    """The whole file, or the old one stays: sorted, so that a change of one net is one line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(records[key], sort_keys=True) + "\n" for key in sorted(records)]
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text("".join(lines))
    os.replace(temporary, file)


def is_current(record: Mapping[str, Any] | None, conditions: Mapping[str, Any]) -> bool:
    """Whether a record was made under these conditions, so that measuring again tells nothing."""
    if record is None:
        return False
    wanted = json.loads(json.dumps(conditions))  # as the record's were written
    return all(record["conditions"].get(name) == wanted.get(name) for name in _CONDITIONS)


def rows_of(
    found: Iterable[Any], peers: Sequence[str], failures: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Rows of comparisons (measure.Comparison) and of what could not be built."""
    comparisons = list(found)
    by_name = {item.name: item for item in comparisons}
    usable = [by_name[name] for name in peers if name in by_name and by_name[name].cost.is_usable]
    fastest = min(usable, key=lambda item: item.cost.seconds, default=None)
    rows = []
    for item in comparisons:
        library = by_name.get(item.name.removesuffix(" alone"))
        rows.append(
            {
                "name": item.name,
                "is_peer": item.name in peers,
                "status": str(item.cost.status),
                "ms": _milliseconds(item.cost.seconds),
                "low": _milliseconds(item.cost.low),
                "high": _milliseconds(item.cost.high),
                "fastest": _milliseconds(min(item.samples, default=None)),
                "error": _finite(item.output_error),
                "ratio": _ratio(fastest, item),
                "own": _ratio(library, item) if item.name not in peers else None,
                "noisy": item.cost.is_noisy,
                "message": item.cost.message[:400],
            }
        )
    failed = [
        {"name": name, "is_peer": name in peers, "status": "compile_failed", "message": text[:400]}
        for name, text in failures.items()
    ]
    return rows + failed


def rows_of_peers(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a record of bench/peers.py; there the plan that ships is what ratios are of."""
    return [
        {
            "name": row["name"],
            "is_peer": row["is_peer"],
            "status": str(row["status"]),
            **{name: _milliseconds(row[field]) for name, field in _TIMES},
            "error": row["output_error"],
            "ratio": record["ratio"] if row["name"] == "collage" else None,
            "own": None,
            "noisy": row.get("noisy", False),  # older records say nothing
            "message": (row["message"] or "")[:400],
        }
        for row in record["rows"]
    ]


_TIMES = (("ms", "seconds"), ("low", "low"), ("high", "high"), ("fastest", "fastest"))


def best_of_ours(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of ours that a user would have: what ships, or the fastest backend alone."""
    ours = [row for row in record.get("rows", []) if not row["is_peer"] and row.get("ratio")]
    return max(ours, key=lambda row: row["ratio"][0], default=None)


def _ratio(numerator: Any, item: Any) -> list[float | None] | None:
    from tvm.relay.collage.timing.comparison import paired_ratio

    if numerator is None or not (numerator.cost.is_usable and item.cost.is_usable):
        return None
    values = paired_ratio(numerator.samples, item.samples).to_json().values()
    return [None if value is None else round(value, 3) for value in values]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 4)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
