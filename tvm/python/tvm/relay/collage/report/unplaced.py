# SPDX-License-Identifier: Apache-2.0
"""Why operators stay on TVM: the pass's reasons as JSON rows. Test: plan/test_unplaced.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..costs.cost import format_seconds
from ..views.function_report import FunctionReport, Unplaced


def unplaced_to_json(report: FunctionReport, failed: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of one function's report, the dearest operators first.

    failed: backend -> why the plan of that backend alone failed. Of operators whose cost the search
    did without, it is all that is known.
    """
    return [dataclasses.asdict(_with_failure(item, failed)) for item in report.unplaced]


def _with_failure(row: Unplaced, failed: Mapping[str, str]) -> Unplaced:
    if row.why != "not_measured" or row.backend not in failed:
        return row
    message = f"{row.message}; the plan of {row.backend} alone: {failed[row.backend]}"
    return dataclasses.replace(row, message=message)


def by_region(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows for a table: those that differ in the operator alone as one, with `ops`, the
    operators with their counts, and their sum in `operators`."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in row if name not in ("op", "operators", "seconds"))
        # Other reasons are each about one operator.
        groups.setdefault(key if row["why"] == "slower" else (*key, row["op"]), []).append(row)
    return [
        {
            **group[0],
            "ops": ", ".join(_counted(row["op"], row["operators"]) for row in group),
            "operators": sum(row["operators"] for row in group),
        }
        for group in groups.values()
    ]


def reason_text(row: dict[str, Any]) -> str:
    """One line for a table: by how much it is slower, or the backend's own words."""
    if row["why"] == "slower":
        there, here = row["backend_seconds"], row["instead_seconds"]
        times = f", {there / here:.2f} x as long" if here > 0 else ""
        each = f", each of {row['regions']} regions" if row["regions"] > 1 else ""
        return f"slower: {format_seconds(there)} there, {format_seconds(here)} here{times}{each}"
    name = why_text(row["why"])
    return f"{name}: {row['message']}" if row["message"] else name


def why_text(why: str) -> str:
    """A reason's name for people."""
    return "its cost was not asked for" if why == "not_measured" else why.replace("_", " ")


def _counted(op: str, count: int) -> str:
    return op if count == 1 else f"{op} x{count}"
