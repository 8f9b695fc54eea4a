# SPDX-License-Identifier: Apache-2.0
"""The persistent store of measured costs, and of what was decided by them: one SQLite file that
several searches may share. What reads and writes it during a search is StoredCosts. Docs:
docs/store.md."""

from .connect import NO_STORE, VARIABLE, default_path, missing_folder, store_path
from .database import CostStore, opened
from .decision_row import DecisionKey, StoredDecision
from .decisions import Decisions
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
from .foreseen import ForeseenCosts, ForeseenKey
from .key import CostKey, Environment
from .row import StoredCost
from .stored_costs import StoredCosts

__all__ = [
    "NO_STORE",
    "VARIABLE",
    "CostKey",
    "CostStore",
    "DecisionKey",
    "Decisions",
    "Environment",
    "ForeseenCosts",
    "ForeseenKey",
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
    "StoredDecision",
    "default_path",
    "missing_folder",
    "opened",
    "store_path",
]
