# SPDX-License-Identifier: Apache-2.0
"""The persistent store of measured costs: one SQLite file that several searches may share. What
reads and writes it during a search is StoredCosts. Docs: docs/store.md."""

from .connect import NO_STORE, VARIABLE, default_path, missing_folder, store_path
from .database import CostStore
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
from .key import CostKey, Environment
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
    "missing_folder",
    "store_path",
]
