# SPDX-License-Identifier: Apache-2.0
"""The persistent store of measured costs: one SQLite file that several searches may share. What
reads and writes it during a search is StoredCosts. Docs: docs/store.md."""

from .database import CostStore
from .environment import Environment
from .errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFolderError,
    StoreForeignError,
    StoreFullError,
    StoreMissingError,
    StoreNewerError,
    StoreOlderError,
    StoreReadOnlyError,
)
from .key import CostKey
from .location import NO_STORE, VARIABLE, default_path, store_path
from .row import StoredCost
from .stored_costs import StoredCosts

__all__ = [
    "NO_STORE",
    "VARIABLE",
    "CostKey",
    "CostStore",
    "Environment",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreError",
    "StoreFolderError",
    "StoreForeignError",
    "StoreFullError",
    "StoreMissingError",
    "StoreNewerError",
    "StoreOlderError",
    "StoreReadOnlyError",
    "StoredCost",
    "StoredCosts",
    "default_path",
    "store_path",
]
