# SPDX-License-Identifier: Apache-2.0
"""Runs of a candidate as its network runs it, not one after the other. Test:
timing/test_in_network.py.

Weights: one that runs again and again on one copy finds it in the caches; in a network, all other
layers' weights were read since. Where that may tell, a timing opens the library several times, each
with weights of its own, as memory has them for each executor and each part of a backend.

Threads: a library that has a pool of its own wakes it while TVM's falls asleep, and the other way
round. Between two runs of such a candidate TVM's pool works for a while, as parts beside it do, and
what waking both takes is in its cost.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from ..costs.weights import copies_in_turn

# Bytes of weights for each second of a run below which it does not tell where they come from: a
# twentieth of what memory gives a slow machine.
_FEWEST_BYTES_A_SECOND = 5e8
# Longer than threads of either pool wait awake, but for OpenVINO's, which do for longer.
_WORK_MICROSECONDS = 100
_WORK_SAMPLES = 21
# Of runs with work between them in one sample, so that it spans some milliseconds and no seconds.
_MOST_TURNS = 20

# No run of anything takes less.
_LEAST_SECONDS = 1e-7

Run = Callable[[], Any]
Clock = Callable[[], float]
# timer(number, repeat): `repeat` samples of `number` runs each, in seconds of one run.
Timer = Callable[[int, int], list[float]]


def copies_needed(weight_bytes: int, run_seconds: float) -> int:
    """Of how many copies a run is timed, that takes so long on one."""
    if weight_bytes < _FEWEST_BYTES_A_SECOND * run_seconds:
        return 1
    return copies_in_turn(weight_bytes)


def pool_works() -> None:
    """TVM's pool, all threads of it, works for a while."""
    tvm.get_global_func("collage.occupy_threads")(_WORK_MICROSECONDS)


def seconds_in_turn(
    runs: Sequence[Run], between: Run | None = None, clock: Clock = time.perf_counter
) -> Timer:
    """A timer that goes round the runs; each has run once before, since weights are packed then.

    Behind each run `between` runs, if it is given: what that takes by itself is no part of a
    sample, and what it takes beyond is. By itself it takes what its fastest run took: behind runs
    on other threads those of the pool may share a core for milliseconds, which makes it slower.
    """
    for run in runs:
        run()
    turn = itertools.cycle(runs)
    beside = [] if between is None else [between]

    def seconds(calls: Sequence[Run]) -> float:
        begin = clock()
        for call in calls:
            call()
        return clock() - begin

    by_itself = min(seconds(beside) for _ in range(_WORK_SAMPLES))

    def sample(number: int) -> float:
        if beside:
            number = min(number, _MOST_TURNS)
        calls = [call for run in itertools.islice(turn, number) for call in (run, *beside)]
        return max(seconds(calls) / number - by_itself, _LEAST_SECONDS)

    return lambda number, repeat: [sample(number) for _ in range(repeat)]
