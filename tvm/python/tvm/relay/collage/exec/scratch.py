# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that do not outlive their process: whoever makes the next one removes those
that a killed process left. Test: exec/test_scratch.py.

A folder `collage-x` stands beside a file `collage-x.lock`, which its process holds locked as long
as it lives (flock: the kernel lets go when the process ends, however it ends, see flocks.py; no
process id that another one might bear by now). Precondition: the temporary directory's file system
has such locks; OSError says so where it has none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from ..machine.flocks import keep, let_go

_PREFIX, _SUFFIX = "collage-", ".lock"
_ADVICE = "make room, or set TMPDIR to a folder on a local disk that can be written to"


class ScratchFolder:
    """An empty folder; removed by close(), at the end of a `with`, with this object or with the
    interpreter, and after a kill by the next one that is made."""

    def __init__(self) -> None:
        remove_stale()
        directory = Path(tempfile.gettempdir())
        while True:
            lock = directory / f"{_PREFIX}{secrets.token_hex(6)}{_SUFFIX}"
            try:
                held = _try_lock(lock, os.O_CREAT | os.O_EXCL)
            except OSError as error:
                lock.unlink(missing_ok=True)
                raise OSError(
                    f"no temporary folder with a lock can be made in {directory} ({error}): "
                    f"{_ADVICE}"
                ) from None
            if held is not None:  # else somebody's remove_stale was faster: another name
                break
        folder = lock.with_suffix("")
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            _remove(folder, lock, held)
            raise OSError(f"no temporary folder can be made ({error}): {_ADVICE}") from None
        self.path = str(folder)
        self.close = weakref.finalize(self, _close, folder, lock, held, os.getpid())

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def remove_stale() -> int:
    """Remove the folders of this user's processes that are gone; how many that were."""
    count = 0
    for lock, held in _stale_locks():
        _remove(lock.with_suffix(""), lock, held)
        count += 1
    return count


def stale_folders() -> list[Path]:
    """Return the folders that `remove_stale` would remove now."""
    found = []
    for lock, held in _stale_locks():
        found.append(lock.with_suffix(""))
        let_go(held)
    return found


def _stale_locks() -> Iterator[tuple[Path, int]]:
    """Lock files of this user's processes that are gone, each held."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # another user's, or another's sweep was faster
            held = _try_lock(lock)
            if held is not None:
                yield lock, held


def _try_lock(lock: Path, flags: int = 0) -> int | None:
    """Return a descriptor that holds the lock; None when a living process does, or the file is
    gone.

    OSError for another user's file, and where files cannot be made or locked.
    """
    held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # What was opened may have been removed before it was locked.
        if os.fstat(held).st_nlink and os.fstat(held).st_uid == os.geteuid():
            return keep(held)
    except BlockingIOError:
        pass
    except OSError:
        os.close(held)
        raise
    os.close(held)
    return None


def _close(folder: Path, lock: Path, held: int, owner: int) -> None:
    if os.getpid() == owner:  # a fork of the process must not remove its folder
        _remove(folder, lock, held)


def _remove(folder: Path, lock: Path, held: int) -> None:
    """Remove the folder first: while it is there, so is its lock file. What cannot be removed stays
    for the next that tries: whoever makes a folder now must not fail by an old one."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        if not folder.exists():
            lock.unlink(missing_ok=True)
    let_go(held)
