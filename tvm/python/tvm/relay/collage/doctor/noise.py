# SPDX-License-Identifier: Apache-2.0
"""Variation of one computation's time on this machine, what further threads add, and whether they
wake on one CPU.

The kernel is one call of numpy, which lets go of Python's lock once and starts no threads: threads
that ask for the lock again and again wait for each other. Its data stay in the first cache, so only
cores are measured. Threads that run at once are each on a core of their own: some Linux kernels
leave new threads on one CPU for longer than a run lasts, which says nothing of the cores. About a
second. Test: doctor/test_machine.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from tvm_collage.threads import cores_of

_ROUNDS = 30
# Of one run: long enough for a neighbour to be noticed, short enough for a quick answer.
_RUN_SECONDS = 4e-3
# Of the kernel's matrices.
_ROWS, _COLUMNS = 32, 64
# Longer than threads spin; the kernels that we know wake them on one CPU after a few milliseconds.
_PAUSE_SECONDS = 0.02


class Noise(NamedTuple):
    """The noise of a machine."""

    # from the 10th to the 90th percentile of one thread's runs, as a share of the median
    spread: float
    threads: int
    speed_up: float  # work done in a time by `threads` threads at once, over that of one alone


def measure_noise(
    threads: int,
    work: Callable[[int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Noise:
    """Run a fixed kernel alone and on `threads` threads at once, in turns.

    `work(repeats)` runs the kernel so many times.
    """
    work = work or _work
    repeats = _repeats(work, clock)
    cpus = [core[0] for core in cores_of(os.sched_getaffinity(0)).values()]
    alone, together = [], []
    for turn in range(_ROUNDS):
        # Of more cores than threads others in each round: some may be others'.
        places = [cpus[(turn + i) % len(cpus)] for i in range(threads)]
        began = clock()
        work(repeats)
        alone.append(clock() - began)
        together.append(_together(places, lambda: work(repeats), clock))
    low, median, high = np.quantile(alone, [0.1, 0.5, 0.9])
    speed_up = threads * float(np.median(np.array(alone) / np.array(together)))
    return Noise(float((high - low) / median), threads, speed_up)


def measure_sharing(pool: ctypes.CDLL | None, pauses: int = 20) -> float | None:
    """Return the share of pauses after which threads of the pool's team woke on one CPU; None where
    there is no team. `pool` is the library of Collage's thread pool, None for TVM's own."""
    if pool is None or pool.CollagePoolNumThreads() < 2:
        return None
    pool.CollagePoolThreadsThatShare()  # makes the team
    shared = 0
    for _ in range(pauses):
        time.sleep(_PAUSE_SECONDS)
        shared += pool.CollagePoolThreadsThatShare() > 0
    return shared / pauses


def _work(repeats: int) -> None:
    """Compute so many products of one pair of matrices, as a sum."""
    left = np.full((_ROWS, _ROWS), 0.5, "float32")
    right = np.full((_ROWS, _COLUMNS), 0.5, "float32")
    np.einsum("rij,jk->ik", np.broadcast_to(left, (repeats, *left.shape)), right)


def _repeats(work: Callable[[int], None], clock: Callable[[], float]) -> int:
    """Return as many repeats as take _RUN_SECONDS."""
    repeats = 1
    while True:
        began = clock()
        work(repeats)
        seconds = clock() - began
        if seconds >= _RUN_SECONDS:
            return max(1, round(repeats * _RUN_SECONDS / seconds))
        repeats *= 2


def _together(places: list[int], run: Callable[[], None], clock: Callable[[], float]) -> float:
    """Return the seconds from the first begin to the last end of threads, one on each of these
    CPUs."""
    start = threading.Barrier(len(places))
    times: list[float] = []

    def body(cpu: int) -> None:
        with contextlib.suppress(OSError):  # the CPU was taken away: others wait for this thread
            os.sched_setaffinity(0, {cpu})  # of this thread alone
        start.wait()
        times.append(clock())
        run()
        times.append(clock())

    workers = [threading.Thread(target=body, args=(cpu,)) for cpu in places]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(times) - min(times)
