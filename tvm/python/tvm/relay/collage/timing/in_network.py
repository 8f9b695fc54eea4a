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
from typing import Any, NamedTuple

import tvm

from ..costs.weights import copies_in_turn

# Bytes of weights for each second of a run below which it does not tell where they come from: a
# twentieth of what memory gives a slow machine.
_FEWEST_BYTES_A_SECOND = 5e8
# Longer than threads of either pool wait awake, but for OpenVINO's, which do for longer.
_WORK_MICROSECONDS = 100
# Work by itself is waited for, so long at most, until it takes hardly more than it is: a launch
# takes some microseconds of it.
_WORK_WAIT_SECONDS, _UNDISTURBED = 0.1, 1.1
# Of runs with work between them in one sample, so that it spans some milliseconds and no seconds.
MOST_TURNS = 20

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


class Work(NamedTuple):
    """What runs between two runs, and the seconds that it takes when nothing disturbs it."""

    run: Run
    seconds: float


def pool_works() -> Work:
    """TVM's pool, all threads of it, works for a while."""
    occupy = tvm.get_global_func("collage.occupy_threads")
    return Work(lambda: occupy(_WORK_MICROSECONDS), _WORK_MICROSECONDS * 1e-6)


def seconds_in_turn(
    runs: Sequence[Run], between: Work | None = None, clock: Clock = time.perf_counter
) -> Timer:
    """A timer that goes round the runs; each has run once before, since weights are packed then.

    Behind each run `between` runs, if it is given: what that takes by itself is no part of a
    sample, and what it takes beyond is.
    """
    for run in runs:
        run()
    turn = itertools.cycle(runs)
    beside = [] if between is None else [between.run]

    def seconds(calls: Sequence[Run]) -> float:
        begin = clock()
        for call in calls:
            call()
        return clock() - begin

    def fastest(work: Work) -> float:
        """Behind runs on other threads those of the pool may share a core for milliseconds."""
        end, least = clock() + _WORK_WAIT_SECONDS, seconds(beside)
        while least > _UNDISTURBED * work.seconds and clock() < end:
            least = min(least, seconds(beside))
        return min(least, seconds(beside))

    by_itself = fastest(between) if between else 0.0

    def sample(number: int) -> float:
        calls = [call for run in itertools.islice(turn, number) for call in (run, *beside)]
        return max(seconds(calls) / number - by_itself, _LEAST_SECONDS)

    return lambda number, repeat: [sample(number) for _ in range(repeat)]
