# SPDX-License-Identifier: Apache-2.0
"""Only one search at a time has the CPUs that it measures on; others' builds wait as well.

A lock for each physical core, since two hyper-threads of one disturb each other: a search takes
those of all cores that it may run on, alone for measuring and together with others for building.
They are flocks on files that all users of the machine share: the kernel lets go of them when a
process ends, however it ends, so that a file that is left is no lock (flocks.py). Cores are taken
in the order of their numbers, so that no two wait for each other. Whoever comes to a core has a
file in its queue, held in the same way and named by the time: who came first is served first, so
that nobody is passed by, and nobody waits for ever.

Searches in containers that share no such folder do not see each other; load.py is for these.
Test: machine/test_cpu_lock.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tvm_collage.threads import cores_of

from .flocks import keep, let_go

_logger = logging.getLogger(__name__)

# Where all users may make files that nobody else can remove, in the order of choice.
_PLACES = ("/run/lock", "/dev/shm", "/tmp")
_FOLDER = "tvm-collage-cpus"
_SHARED_MODE = 0o1777
# Names another folder, which containers may share, or takes no locks.
VARIABLE, NO_LOCKS = "COLLAGE_CPU_LOCKS", "none"
_LOOK_SECONDS = 0.02
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Of the thread at hand: whether it has them, and how long it has waited by now.
_held = threading.local()

OnWait = Callable[[str], None]


@contextlib.contextmanager
def cpus_for_measuring(on_wait: OnWait | None = None, folder: Path | None = None) -> Iterator[None]:
    """Have the CPUs that this thread may use for the block: nobody else measures or builds there.

    `on_wait(text)` is called again and again while others have them. Blocks inside another one of
    the thread take nothing. Where no lock can be had (a folder of other rights) it goes on without,
    which is logged once.
    """
    with _cpus(fcntl.LOCK_EX, on_wait, folder):
        yield


@contextlib.contextmanager
def cpus_for_building(on_wait: OnWait | None = None, folder: Path | None = None) -> Iterator[None]:
    """Hold the CPUs for the block beside others that build: nobody measures there."""
    with _cpus(fcntl.LOCK_SH, on_wait, folder):
        yield


def seconds_waited() -> float:
    """Return how long this thread has waited for others so far."""
    return getattr(_held, "waited", 0.0)


@contextlib.contextmanager
def _cpus(kind: int, on_wait: OnWait | None, folder: Path | None) -> Iterator[None]:
    named = os.environ.get(VARIABLE, "")
    if getattr(_held, "is_held", False) or (folder is None and named == NO_LOCKS):
        yield
        return
    locks: list[int] = []
    _held.is_held = True
    try:
        try:
            place = folder or (Path(named) if named else shared_folder())
            for core in sorted(cores_of(os.sched_getaffinity(0)), key=int):
                _take_core(place, core, kind, on_wait=on_wait or _say, locks=locks)
        except OSError as error:
            _warn_once(error)
        yield
    finally:
        _held.is_held = False
        for lock in reversed(locks):
            let_go(lock)


def shared_folder(places: tuple[str, ...] = _PLACES) -> Path:
    """Return the folder of the locks, made if need be; OSError where there can be none."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            if stat.S_IMODE(place.stat().st_mode) & _SHARED_MODE != _SHARED_MODE:
                continue  # not everybody's: others would choose another one
            folder = place / _FOLDER
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(_SHARED_MODE)  # whatever the umask
            if stat.S_ISDIR(folder.lstat().st_mode):  # no link to elsewhere
                return folder
    raise OSError(f"none of {', '.join(places)} is a folder that all users may write to")


def _take_core(folder: Path, core: str, kind: int, on_wait: OnWait, locks: list[int]) -> None:
    with _queued(folder, core) as is_first:
        lock = keep(_open(folder / f"core-{core}.lock"))
        locks.append(lock)
        while True:  # in small steps, so that Ctrl-C and progress have their turn
            began = time.monotonic()
            if is_first() and _is_taken(lock, kind):
                return
            on_wait(f"waiting for another search that uses CPU {core}")
            time.sleep(_LOOK_SECONDS)
            _held.waited = seconds_waited() + time.monotonic() - began


@contextlib.contextmanager
def _queued(folder: Path, core: str) -> Iterator[Callable[[], bool]]:
    """Stand in the core's queue for the block; what tells whether all that came before are gone."""
    queue = f"core-{core}.queue-"
    while True:
        name = f"{queue}{time.monotonic_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
        place = keep(_open(folder / name))
        fcntl.flock(place, fcntl.LOCK_EX)
        if os.fstat(place).st_nlink:  # else it was taken for one that is left
            break
        let_go(place)
    try:
        yield (
            lambda: (
                not any(
                    queue <= other < name and _is_live(folder / other)
                    for other in os.listdir(folder)
                )
            )
        )
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
        let_go(place)


def _is_live(place: Path) -> bool:
    """Return whether somebody stands there; who was killed has left the file, which is removed."""
    try:
        file = os.open(place, _FLAGS)
    except FileNotFoundError:
        return False
    try:
        if not _is_taken(file, fcntl.LOCK_SH):
            return True
        with contextlib.suppress(FileNotFoundError, PermissionError):  # another user's
            os.unlink(place)
        return False
    finally:
        os.close(file)


def _is_taken(lock: int, kind: int) -> bool:
    """Take the lock if it is to be had; return whether this process has it then."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(file: Path) -> int:
    """Open for reading, which is enough to lock it, and all that the kernel may grant for a file of
    another user in a folder of everybody's."""
    with contextlib.suppress(FileNotFoundError):
        return os.open(file, _FLAGS)
    with contextlib.suppress(FileExistsError):
        made = os.open(file, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(made, 0o644)  # whatever the umask
        return made
    return os.open(file, _FLAGS)


def _forget() -> None:
    _held.is_held = False


os.register_at_fork(after_in_child=_forget)


# What was said, and when; a test puts another dictionary here.
said: dict[str, float] = {}
_SAY_SECONDS = 60.0


def _say(text: str) -> None:
    """Log a line a minute while waiting."""
    now = time.monotonic()
    if now - said.get(text, -_SAY_SECONDS) >= _SAY_SECONDS:
        said[text] = now
        _logger.info("%s", text)


def _warn_once(error: OSError) -> None:
    if "" not in said:
        said[""] = 0.0
        _logger.warning(
            "CPUs cannot be locked (%s): another search at the same time would spoil this one's "
            "costs, and this one the other's",
            error,
        )
