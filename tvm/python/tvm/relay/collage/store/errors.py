# SPDX-License-Identifier: Apache-2.0
"""Errors of a store's file; each message names the file and what to do.

Test: store/test_faults.py.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from ..errors import CollageError
from ..options.named import option

_OPTION = option("store", "relay.collage.store")
_THE_OPTION = option("store", "the option relay.collage.store")


class StoreError(CollageError, RuntimeError):
    """The store cannot be used. Nothing in it was changed or deleted."""

    advice: str = "name another file with " + _THE_OPTION + ", or 'none' for no store"

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"cost store {os.fspath(path)}: {reason}: " + self.advice)


class StoreCorruptError(StoreError):
    """A damaged or truncated file."""

    advice = (
        "move the file away (a new one is made), then bring back what it still holds by "
        "`collage store export --salvage` and `collage store import`"
    )


class StoreMissingError(StoreError):
    """No file to read from."""

    advice = "nothing was measured into it yet, or another file is meant"


class StoreFolderError(StoreError):
    """A file that somebody named lies in no folder."""

    advice = (
        "make the folder, or correct the name ("
        + option("store", "option store")
        + ", variable COLLAGE_STORE)"
    )


class StoreForeignError(StoreError):
    """Another program's file, or no SQLite file at all."""

    advice = "it was left as it is; name another file with " + _THE_OPTION


class StoreNewerError(StoreError):
    """A file of a later version of this tool."""

    advice = "use that version of tvm-collage, or name another file (" + _OPTION + ")"


class StoreOlderError(StoreError):
    """A file of an earlier layout, or an empty one, that is only to be read."""

    advice = "the next search brings it up to date, or now: `collage store import /dev/null`"


class StoreReadOnlyError(StoreError):
    """A file that this process may not write."""

    advice = "make the file and its folder writable, or copy it and name the copy"


class StoreFullError(StoreError):
    """No room for another row."""

    advice = "free space on its disk; what was committed before is kept"


class StoreBusyError(StoreError):
    """Another process holds the file for longer than BUSY_SECONDS."""

    advice = "end the process that holds it, or name another file (" + _OPTION + ")"


_BY_CODE = {
    sqlite3.SQLITE_NOTADB: (StoreForeignError, "this is no SQLite file"),
    sqlite3.SQLITE_CORRUPT: (StoreCorruptError, "the file is damaged"),
    sqlite3.SQLITE_READONLY: (StoreReadOnlyError, "the file is read-only"),
    sqlite3.SQLITE_FULL: (StoreFullError, "the disk is full"),
    sqlite3.SQLITE_BUSY: (StoreBusyError, "another process holds the file"),
    sqlite3.SQLITE_LOCKED: (StoreBusyError, "another connection holds the file"),
}


@contextlib.contextmanager
def reported(path: str | os.PathLike[str]) -> Iterator[None]:
    """SQLite's errors in the block become the StoreError of their kind."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind, the rest a detail.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        kind, reason = _BY_CODE.get(code, (StoreError, "it cannot be used"))
        raise kind(path, f"{reason} ({error})") from None
    except OSError as error:
        raise StoreError(path, f"it cannot be used ({error})") from None
