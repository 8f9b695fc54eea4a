# SPDX-License-Identifier: Apache-2.0
"""The store's file: look up, keep, list, merge, check. Test: store/test_database.py.

Each `put` is a transaction of its own, so whatever was put is kept, whatever happens to the process
after. Every method raises a StoreError when the file will not do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .connect import connect, store_path
from .errors import StoreError, StoreReadOnlyError, reported
from .key import CostKey
from .row import COLUMNS, StoredCost
from .schema import transaction

_KEY_IS = " AND ".join(f"{name} = ?" for name in CostKey._fields)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM cost"
_INSERT = f"INSERT INTO cost ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_REPLACE = f"{_INSERT} ON CONFLICT ({', '.join(CostKey._fields)}) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in COLUMNS[len(CostKey._fields) :]
)
_REMOVE = f"DELETE FROM cost WHERE {_KEY_IS} AND measured_at = ?"
_REPLACE_OLDER = f"{_REPLACE} WHERE excluded.measured_at > cost.measured_at"


class CostStore(contextlib.AbstractContextManager):
    """An open store. `is_read_only`: look-ups work, `put` and `merge` raise StoreReadOnlyError."""

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, write: bool = True
    ) -> None:
        """Open the file, by default made when missing. `write`: whether to write at all."""
        self.path = Path(path)
        with reported(self.path):
            self._connection, writable = connect(self.path, create, write)
        self.is_read_only = not writable

    def get(self, key: CostKey) -> StoredCost | None:
        found = self.query(f"{_SELECT} WHERE {_KEY_IS}", key)
        return _readable(found[0]) if found else None

    def nearest(self, key: CostKey) -> StoredCost | None:
        """Return the newest row of the same candidate that differs in the fewest parts."""
        rows = self.rows(candidate=key.candidate)
        rows.sort(key=lambda row: row.measured_at, reverse=True)
        return min(rows, key=lambda row: len(key.differences(row.key)), default=None)

    def rows(self, *, candidate: str = "", backend: str = "", status: str = "") -> list[StoredCost]:
        """Return the rows in the order of their keys; `candidate` is the beginning of a hash. Rows
        that make no sense are left out (`problems` names them)."""
        wanted = {"candidate >=": candidate, "candidate <": candidate + "\x7f"}
        wanted |= {"backend =": backend} if backend else {}
        wanted |= {"status =": status} if status else {}
        conditions = " AND ".join(f"{condition} ?" for condition in wanted)
        found = self.query(f"{_SELECT} WHERE {conditions}", wanted.values())
        return [row for row in map(_readable, found) if row is not None]

    def put(self, row: StoredCost) -> None:
        """Keep a row, in place of one with the same key. Committed when this returns."""
        self._must_write()
        with reported(self.path):
            self._connection.execute(_REPLACE, row.values())

    def merge(self, rows: Iterable[StoredCost]) -> int:
        """Keep the newer of equal keys; all rows or, on errors, none. Returns how many changed."""
        return self.change(_REPLACE_OLDER, (row.values() for row in rows))

    def remove(self, rows: Iterable[StoredCost]) -> int:
        """Remove these rows or, on any error, none. Returns how many; one that was measured again
        since it was read stays."""
        return self.change(_REMOVE, ((*row.key, row.measured_at) for row in rows))

    def shrink(self) -> None:
        """Give the room of removed rows back to the disk; needs as much again meanwhile."""
        self._must_write()
        with reported(self.path):
            self._connection.execute("VACUUM")

    def problems(self) -> list[str]:
        """Return what is wrong, by SQLite's full check and row by row; empty for a sound store."""
        found = [row[0] for row in self.query("PRAGMA integrity_check") if row[0] != "ok"]
        for values in self.query(_SELECT):
            try:
                StoredCost.of_values(values)
            except ValueError as error:
                found.append(f"row {values[0]} of {values[1]}: {error}")
        return found

    def close(self) -> None:
        self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that reads."""
        with reported(self.path):
            return self._connection.execute(sql, tuple(values)).fetchall()

    def change(self, sql: str, values: Iterable[tuple[Any, ...]]) -> int:
        """Run a statement for each of the values, in one transaction; how many rows it changed."""
        self._must_write()
        with reported(self.path):
            before = self._connection.total_changes
            with transaction(self._connection):
                self._connection.executemany(sql, values)
            return self._connection.total_changes - before

    def _must_write(self) -> None:
        if self.is_read_only:
            raise StoreReadOnlyError(self.path, "the file is read-only")


@contextlib.contextmanager
def opened(option: str) -> Iterator[CostStore | None]:
    """Open the store that the option `store` names for the block; None without one, and for the
    default one that will not do, of which the search itself tells. StoreError for one that the user
    named."""
    path, is_named = store_path(option)
    store = None
    try:
        store = CostStore(path) if path else None
    except StoreError:
        if is_named:
            raise
    with store or contextlib.nullcontext() as found:
        yield found


def _readable(values: tuple[Any, ...]) -> StoredCost | None:
    """Read a row; one that makes no sense (a later status, a hand's edit) is no answer."""
    try:
        return StoredCost.of_values(values)
    except ValueError:
        return None
