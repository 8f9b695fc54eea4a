# SPDX-License-Identifier: Apache-2.0
"""`collage cache`: what this package keeps on disk, and removing it.

Docs: docs/tools.md. Test: cli/test_cache.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ..errors import OptionError
from ..exec.scratch import remove_stale, stale_folders
from ..messages.progress import one_step
from ..store import CostStore, StoreError, StoreForeignError, store_path
from . import tell

# Beside a store's file: what SQLite has not written back yet.
_WITH_A_STORE = ("", "-wal", "-shm")


def size_all(options: argparse.Namespace) -> int:
    rows = _rows(options)
    total = f"{_megabytes(sum(row['bytes'] for row in rows))} in all"
    tell(options, rows, [*map(_text, rows), total])
    return 0


def clear_all(options: argparse.Namespace) -> int:
    path, _ = store_path(options.store)
    _check_is_ours(path)
    rows = [row for row in _rows(options) if row["bytes"]]
    if rows and not options.yes:
        listed = "; ".join(_text(row) for row in rows)
        raise OptionError(f"say --yes to remove what follows: {listed}")
    with one_step("cache", "removing", options.progress):
        for file in _files_of(path):
            file.unlink(missing_ok=True)
        remove_stale()
    lines = [f"removed {_text(row)}" for row in rows] or ["there was nothing to remove"]
    tell(options, {"removed": rows}, lines)
    return 0


def _check_is_ours(store: Path | None) -> None:
    """StoreForeignError for another program's file; what is damaged or not there is fine."""
    if store is not None:
        try:
            CostStore(store, create=False, write=False).close()
        except StoreForeignError:
            raise
        except StoreError:
            pass


def _rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the store, and the folders that killed processes left, which may be many."""
    path, _ = store_path(options.store)
    with one_step("cache", "adding up sizes", options.progress):
        kept = sum(map(_bytes, _files_of(path)))
        left = sum(_folder_bytes(folder) for folder in stale_folders())
    rows = [{"what": "store of costs and decisions", "path": str(path), "bytes": kept}]
    temporary = {"what": "left by killed processes", "path": tempfile.gettempdir(), "bytes": left}
    return [*rows[: path is not None], temporary]


def _files_of(store: Path | None) -> list[Path]:
    if store is None:
        return []
    files = (store.with_name(store.name + ending) for ending in _WITH_A_STORE)
    return [file for file in files if file.exists()]


def _folder_bytes(folder: Path) -> int:
    """Return the bytes of a folder's files; 0 for a folder that another process removes
    meanwhile."""
    return sum(_bytes(Path(at, name)) for at, _, names in os.walk(folder) for name in names)


def _bytes(file: Path) -> int:
    """0 of what another process removes meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return file.lstat().st_size
    return 0


def _text(row: dict[str, Any]) -> str:
    return f"{row['what']}: {_megabytes(row['bytes'])} ({row['path']})"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
