# SPDX-License-Identifier: Apache-2.0
"""Rows as lines of JSON, for moving costs between stores and machines. Test: cli/test_store.py.

A line is an object with the columns' names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..errors import CollageError
from .row import StoredCost


class ImportLineError(CollageError, ValueError):
    """A line that is no row; nothing of its file is imported."""


def to_line(row: StoredCost) -> str:
    return json.dumps(row.to_json(), allow_nan=False) + "\n"


def read_lines(lines: Iterable[str], name: str) -> list[StoredCost]:
    """The rows of `lines`; blank ones are skipped. ImportLineError names the first wrong line of
    `name`."""
    rows = []
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                rows.append(_row(line, f"{name}, line {number}"))
    except UnicodeDecodeError as error:
        raise ImportLineError(f"{name} is no text: nothing is imported ({error})") from error
    return rows


def _row(line: str, where: str) -> StoredCost:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("not an object")
        return StoredCost.from_json(fields)
    except (ValueError, RecursionError) as error:  # the latter: brackets without end
        raise ImportLineError(
            f"{where} is no row of `collage store export`, so nothing is imported: {error}"
        ) from error
