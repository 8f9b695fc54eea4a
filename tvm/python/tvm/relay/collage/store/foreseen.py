# SPDX-License-Identifier: Apache-2.0
"""The costs in a store's file that were measured beside profiles, of which multiples are learnt.

Key: ForeseenKey, all that decides what a profile says of a cost; what was measured under another
says nothing here. Test: store/test_foreseen.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from .database import CostStore
from .key import Environment

Pair = tuple[float, float]  # seconds of a candidate's operators in a profile, and its cost's

# With a key; more of them would change what is learnt by little, and a file would grow forever.
MOST_PAIRS = 5000


class ForeseenKey(NamedTuple):
    """The key of a backend's pairs; meanings in schema.CREATE_FORESEEN."""

    backend: str
    backend_version: str
    target: str
    here: Environment

    def values(self) -> tuple[str, ...]:
        """Return the values in the order of the table's columns."""
        return (self.backend, self.backend_version, self.target, *self.here)


_KEY_COLUMNS = ("backend", "backend_version", "target", *Environment._fields)
_KEY_IS = " AND ".join(f"{name} = ?" for name in _KEY_COLUMNS)
_SELECT = f"SELECT profiled, seconds FROM foreseen WHERE {_KEY_IS}"
_COUNT = f"SELECT count(*) FROM foreseen WHERE {_KEY_IS}"
_COLUMNS = (*_KEY_COLUMNS, "profiled", "seconds")
_INSERT = (
    f"INSERT OR IGNORE INTO foreseen ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)


class ForeseenCosts:
    """The pairs of an open store. Every method raises a StoreError when the file will not do."""

    def __init__(self, store: CostStore) -> None:
        self._store = store

    def pairs(self, key: ForeseenKey) -> list[Pair]:
        """Return the pairs with that key."""
        found = self._store.query(_SELECT, key.values())
        return [(float(profiled), float(seconds)) for profiled, seconds in found]

    def add(self, key: ForeseenKey, pairs: Iterable[Pair]) -> int:
        """Keep those pairs that are not there yet, up to MOST_PAIRS, or, on errors, none; return
        how many."""
        ((count,),) = self._store.query(_COUNT, key.values())
        kept = itertools.islice(pairs, max(0, MOST_PAIRS - count))
        return self._store.change(_INSERT, ((*key.values(), *pair) for pair in kept))
