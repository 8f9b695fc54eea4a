# SPDX-License-Identifier: Apache-2.0
"""Descriptors that hold flocks, which end with their process: forks of it close their copies.

A fork's copy shares the lock: an unlocking there would take it from the process that it comes from,
and one that is left open would keep it held after that process's death.
Test: machine/test_cpu_lock.py, exec/test_scratch.py.
"""

from __future__ import annotations

import fcntl
import os

# Of all threads.
_held: set[int] = set()


def keep(lock: int) -> int:
    """Return the descriptor, which from here on no fork has; end it by let_go alone."""
    _held.add(lock)
    return lock


def let_go(lock: int) -> None:
    """Close it, unlocked first: a process that C code has forked may have it as well."""
    if lock in _held:  # else it is the one of a process that this one is a fork of
        _held.remove(lock)
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _forget() -> None:
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
