# SPDX-License-Identifier: Apache-2.0
"""The decisions in a store's file: one for each model that was compiled, each way that it was.

Key: decision_row.DecisionKey. A hit is the row with that key; of a miss the nearest row of the same
model tells why. Test: store/test_decisions.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .database import CostStore
from .decision_row import DECISION_COLUMNS, DecisionKey, StoredDecision

_KEY_IS = " AND ".join(f"{name} = ?" for name in DecisionKey._fields)
_SELECT = f"SELECT {', '.join(DECISION_COLUMNS)} FROM decision"
_REPLACE = (
    f"INSERT OR REPLACE INTO decision ({', '.join(DECISION_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(DECISION_COLUMNS))})"
)
_REMOVE = f"DELETE FROM decision WHERE {_KEY_IS} AND decided_at = ?"


class Decisions:
    """The decisions of an open store. Every method raises a StoreError when the file will not do;
    a row that makes no sense is none (`problems` names it)."""

    def __init__(self, store: CostStore) -> None:
        self._store = store

    def get(self, key: DecisionKey) -> StoredDecision | None:
        found = self._store.query(f"{_SELECT} WHERE {_KEY_IS}", key)
        return _readable(found[0]) if found else None

    def nearest(self, key: DecisionKey) -> StoredDecision | None:
        """Return the newest row of the same model that differs in the fewest parts."""
        found = self._store.query(
            f"{_SELECT} WHERE model = ? ORDER BY decided_at DESC", [key.model]
        )
        rows = [row for row in map(_readable, found) if row is not None]
        return min(rows, key=lambda row: len(key.differences(row.key)), default=None)

    def rows(self) -> list[StoredDecision]:
        """Return all rows, the newest first."""
        found = self._store.query(f"{_SELECT} ORDER BY decided_at DESC")
        return [row for row in map(_readable, found) if row is not None]

    def put(self, row: StoredDecision) -> None:
        """Keep a row, in place of one with the same key. Committed when this returns."""
        self._store.change(_REPLACE, [row.values()])

    def remove(self, rows: Iterable[StoredDecision]) -> int:
        """Remove these rows or, on any error, none; return how many."""
        return self._store.change(_REMOVE, ((*row.key, row.decided_at) for row in rows))

    def problems(self) -> list[str]:
        """Return what is wrong, row by row."""
        found = []
        for values in self._store.query(_SELECT):
            try:
                StoredDecision.of_values(values)
            except ValueError as error:
                found.append(f"decision for model {values[0]}: {error}")
        return found


def _readable(values: tuple[Any, ...]) -> StoredDecision | None:
    try:
        return StoredDecision.of_values(values)
    except ValueError:
        return None
