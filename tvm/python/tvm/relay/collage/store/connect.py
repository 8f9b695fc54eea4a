# SPDX-License-Identifier: Apache-2.0
"""A store's file: where it lies, and how it is opened, writable where it can be, checked before
anything relies on it. Test: store/test_database.py, store/test_faults.py.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import platformdirs

from .decision_row import DECISION_COLUMNS
from .errors import (
    StoreCorruptError,
    StoreFolderError,
    StoreMissingError,
    StoreOlderError,
    StoreReadOnlyError,
)
from .row import COLUMNS
from .schema import check_version

VARIABLE = "COLLAGE_STORE"
# A name instead of a path: nothing is looked up or kept.
NO_STORE = "none"


def default_path() -> Path:
    """Return the user's own store, e.g. ~/.cache/tvm-collage/costs.sqlite."""
    return Path(platformdirs.user_cache_dir("tvm-collage", appauthor=False), "costs.sqlite")


def store_path(option: str = "") -> tuple[Path | None, bool]:
    """Return the file that `option` (relay.collage.store) stands for, None for no store; and
    whether the user named it, by the option or by the variable COLLAGE_STORE."""
    name = option or os.environ.get(VARIABLE, "")
    if name == NO_STORE:
        return None, True
    return (Path(name).expanduser(), True) if name else (default_path(), False)


# A write takes milliseconds; past this something holds the file.
BUSY_SECONDS = 15.0


def connect(path: Path, create: bool = True, write: bool = True) -> tuple[sqlite3.Connection, bool]:
    """Open a checked connection in autocommit mode; return it, and whether it can write.

    Raises StoreError of some kind and SQLite's own errors.
    """
    exists = path.exists()
    if not exists and not create:
        raise StoreMissingError(path, "there is no such file")
    if not exists:
        _make_folder(path)
    # SQLite also needs to put files beside it.
    is_writable = not exists or (_can_write(path) and _can_write(path.parent))
    connection = sqlite3.connect(
        _uri(path, is_writable),
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        # One thread at a time uses it, but not always the one that opened it.
        check_same_thread=False,
    )
    try:
        if not write:
            connection.execute("PRAGMA query_only = ON")
        try:
            check_version(connection, path, write and is_writable)
        except StoreReadOnlyError:
            if write or not is_writable:
                raise
            raise StoreOlderError(path, "it has an older layout, which reading leaves") from None
        _check_content(connection, path)
        if write and is_writable:
            _use_wal(connection)
    except BaseException:
        connection.close()
        raise
    return connection, write and is_writable


def _make_folder(path: Path) -> None:
    """Make the user's cache directory; of a path that is named the last folder alone."""
    if missing := missing_folder(path):
        raise StoreFolderError(path, f"there is no folder {missing}")
    path.parent.mkdir(parents=path == default_path(), exist_ok=True)


def missing_folder(path: Path) -> Path | None:
    """Return the folder that has to be there for a store to be made, and is not."""
    above = path.absolute().parent.parent
    return None if path == default_path() or above.is_dir() else above


def _check_content(connection: sqlite3.Connection, path: Path) -> None:
    """Check that every page is sound and every column there."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreCorruptError(path, f"the file is damaged ({verdict})")
    for table, wanted in (("cost", COLUMNS), ("decision", DECISION_COLUMNS)):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if sorted(columns) != sorted(wanted):
            raise StoreCorruptError(path, f"its table {table} lacks columns or has others")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and a writer do not wait for each other; a commit survives the process's death.

    SQLite does not wait by itself for the moment that the change of the mode needs.
    """
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = NORMAL")


def _uri(path: Path, is_writable: bool) -> str:
    uri = path.absolute().as_uri()
    if is_writable:  # also for reading alone: SQLite then cleans up after itself
        return f"{uri}?mode=rwc"
    # Without a log beside it nobody is writing; SQLite then need not make files of its own.
    has_log = path.with_name(path.name + "-wal").exists()
    can_share = has_log or _can_write(path.parent)
    return f"{uri}?mode=ro" if can_share else f"{uri}?mode=ro&immutable=1"


def _can_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)
