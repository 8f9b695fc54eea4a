# SPDX-License-Identifier: Apache-2.0
"""How much one computation's time varies on this machine, what further threads add, and whether
they wake on one CPU.

The kernel is numpy's, which lets go of Python's lock and starts no threads; its data stay in the
first cache, so only cores are measured. About a second. Test: doctor/test_machine.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_ROUNDS = 30
# Of one run: long enough for a neighbour to be noticed, short enough for a quick answer.
_RUN_SECONDS = 4e-3
_ELEMENTS = 2048
# Longer than threads spin; the kernels that we know wake them on one CPU after a few milliseconds.
_PAUSE_SECONDS = 0.02


class Noise(NamedTuple):
    """spread: from the 10th to the 90th percentile of one thread's runs, as a share of the median.

    speed_up: work done in a time by `threads` threads at once, over that of one alone.
    """

    spread: float
    threads: int
    speed_up: float


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
    alone, together = [], []
    for _ in range(_ROUNDS):
        began = clock()
        work(repeats)
        alone.append(clock() - began)
        together.append(_together(threads, lambda: work(repeats), clock))
    low, median, high = np.quantile(alone, [0.1, 0.5, 0.9])
    speed_up = threads * float(np.median(np.array(alone) / np.array(together)))
    return Noise(float((high - low) / median), threads, speed_up)


def measure_sharing(pool: Any, pauses: int = 20) -> float | None:
    """The share of pauses after which threads of the pool's team woke on one CPU; None where there
    is no team. `pool` is the library of Collage's thread pool, None for TVM's own."""
    if pool is None or pool.CollagePoolNumThreads() < 2:
        return None
    pool.CollagePoolThreadsThatShare()  # makes the team
    shared = 0
    for _ in range(pauses):
        time.sleep(_PAUSE_SECONDS)
        shared += pool.CollagePoolThreadsThatShare() > 0
    return shared / pauses


def _work(repeats: int) -> None:
    data = np.linspace(0.1, 1.0, _ELEMENTS)
    out = np.empty_like(data)
    for _ in range(repeats):
        np.exp(data, out=out)


def _repeats(work: Callable[[int], None], clock: Callable[[], float]) -> int:
    """As many as take _RUN_SECONDS."""
    repeats = 1
    while True:
        began = clock()
        work(repeats)
        seconds = clock() - began
        if seconds >= _RUN_SECONDS:
            return max(1, round(repeats * _RUN_SECONDS / seconds))
        repeats *= 2


def _together(threads: int, run: Callable[[], None], clock: Callable[[], float]) -> float:
    """Seconds that all take which begin at once."""
    start = threading.Barrier(threads + 1)

    def body() -> None:
        start.wait()
        run()

    workers = [threading.Thread(target=body) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    began = clock()
    for worker in workers:
        worker.join()
    return clock() - began
