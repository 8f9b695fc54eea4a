# SPDX-License-Identifier: Apache-2.0
"""Rescue of what can still be read from a damaged or truncated store. Test:
store/test_faults.py."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from ..exec.scratch import ScratchFolder
from .errors import StoreMissingError, reported
from .key import CostKey
from .row import COLUMNS, StoredCost

# Hashes are hexadecimal: a lost page costs the rows between it and the ends of its ranges only.
_PREFIXES = [f"{number:02x}" for number in range(256)]


def salvage(path: str | os.PathLike[str]) -> list[StoredCost]:
    """Read the rows that are sound, in the order of their keys; reads a copy, never touches the
    file.

    Raises a StoreError when there is no file or nothing of a store in it.
    """
    path = Path(path)
    if not path.exists():
        raise StoreMissingError(path, "there is no such file")
    found: dict[CostKey, StoredCost] = {}
    with ScratchFolder() as folder, reported(path):
        copy = Path(folder, "costs.sqlite")
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        _pad(copy)
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
            for prefix in _PREFIXES:
                for order in ("ASC", "DESC"):
                    _read_range(connection, prefix, order, found=found)
    return [found[key] for key in sorted(found)]


def _pad(file: Path) -> None:
    """Give a truncated file the length that its header tells, without which SQLite reads none."""
    with open(file, "r+b") as stream:
        header = stream.read(100)
        page = int.from_bytes(header[16:18], "big")
        length = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if header.startswith(b"SQLite format 3\0") and length > file.stat().st_size:
            stream.truncate(length)


def _read_range(
    connection: sqlite3.Connection, prefix: str, order: str, found: dict[CostKey, StoredCost]
) -> None:
    """Read the rows of a range from one end up to the first damaged page."""
    by_key = ", ".join(f"{name} {order}" for name in CostKey._fields)
    try:
        there = {column[1] for column in connection.execute("PRAGMA table_info(cost)")}
        columns = [name for name in COLUMNS if name in there]  # an older layout has fewer
        query = (
            f"SELECT {', '.join(columns)} FROM cost WHERE candidate >= ? AND candidate < ? "
            f"ORDER BY {by_key}"
        )
        for values in connection.execute(query, (prefix, prefix + "\x7f")):
            with contextlib.suppress(ValueError):
                row = StoredCost.from_json(dict(zip(columns, values, strict=True)))
                found[row.key] = row
    except sqlite3.DatabaseError:
        pass  # the damage
