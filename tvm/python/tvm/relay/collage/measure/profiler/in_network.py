# SPDX-License-Identifier: Apache-2.0
"""Runs of a candidate as its network runs it, not one after the other. Test:
measure/profiler/test_in_network.py.

Caches: one that runs again and again finds its weights, and the memory of values inside it, in the
caches nearest to it; in a network, all others' were touched since. Where that may tell, a timing
opens the library several times, each with weights of its own, as each executor and each part of a
backend has them. One run on each is a lap, before which it reads as much more as its
network touches. If all that a network touches stays in the caches, that of its parts therefore does
so here. What a part reads and writes beside it was touched by the part before it, so it is read
again before each run.

Threads: a library that has a pool of its own wakes it while TVM's falls asleep, and the other way
round. Between two runs of such a candidate TVM's pool works for a while, as parts beside it do, and
what waking both takes is in its cost.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tvm

from ...candidate.weights import CACHE_BYTES
from ...costs.kernel import Run
from ...relay_util.walk import size_of

# Bytes for each second of a run below which it does not tell where they come from: a twentieth of
# what memory gives a slow machine.
_FEWEST_BYTES_A_SECOND = 5e8
_MOST_COPIES = 8
# Longer than threads of either pool wait awake, but for OpenVINO's, which do for longer.
_WORK_MICROSECONDS = 100
_UNDISTURBED = 1.1
# At what it takes by itself, behind samples; some hundred microseconds each, or some milliseconds.
_MOST_LOOKS = 50
# Of runs with something between them in one sample, so that it spans milliseconds, not seconds.
MOST_TURNS = 20

# No run of anything takes less.
_LEAST_SECONDS = 1e-7

Clock = Callable[[], float]
# timer(number, repeat): `repeat` samples of `number` runs each, in seconds of one run.
Timer = Callable[[int, int], list[float]]


class Lap(NamedTuple):
    """Runs on copies, one after another, and what is read before them."""

    copies: int
    other_bytes: int  # of others


ONE_COPY = Lap(1, 0)


def lap_needed(
    weight_bytes: int, inner_bytes: int, run_seconds: float, network_bytes: int = CACHE_BYTES
) -> Lap:
    """Return the lap of a run that takes so long on one copy, in a network that touches so many
    bytes.

    The memory of values inside counts once: copies of a part of oneDNN share it, as its parts do
    in a network. Where each copy has its own, a lap touches more than its network, which tells
    only if the caches hold the one and not the other.
    """
    own_bytes = weight_bytes + inner_bytes
    if not own_bytes or own_bytes < _FEWEST_BYTES_A_SECOND * run_seconds:
        return ONE_COPY
    copies = max(1, min(_MOST_COPIES, network_bytes // own_bytes))
    return Lap(copies, max(0, network_bytes - copies * weight_bytes - inner_bytes))


class Interlude(NamedTuple):
    """A run between two runs."""

    run: Run
    seconds: float  # that it takes when nothing disturbs it
    # It is waited for, so long at most, until it takes hardly more than that by itself: a launch
    # takes some microseconds of it.
    wait_seconds: float = 0.1


def pool_works() -> Interlude:
    """TVM's pool, all threads of it, works for a while."""
    occupy = tvm.get_global_func("collage.occupy_threads")
    return Interlude(lambda: occupy(_WORK_MICROSECONDS), _WORK_MICROSECONDS * 1e-6)


def nothing() -> None:
    """Do nothing where nothing is to be done."""


def reading(arrays: Sequence[tvm.nd.NDArray]) -> Run:
    """Return a run by which all threads of TVM's pool read these arrays, so that caches have
    them."""
    read = tvm.get_global_func("collage.read_bytes")
    sized = [(array, size_of(array)) for array in arrays]

    def run() -> None:
        for array, size in sized:
            read(array, size)

    return run


def reading_bytes(count: int) -> Run:
    """They read so many bytes of nothing else, at most as many as caches are taken to hold, so that
    caches have these in place of others."""
    if not count:
        return nothing
    return functools.partial(tvm.get_global_func("collage.read_bytes"), _nothing_else(), count)


@functools.cache
def _nothing_else() -> tvm.nd.NDArray:
    return tvm.nd.array(np.ones(CACHE_BYTES, "int8"))


class Copy(NamedTuple):
    """A run on a copy, and what is done before it, which takes none of its time."""

    run: Run
    before: Run = nothing


def copy_of(executor: tvm.runtime.Module, inputs: Iterable[str]) -> Copy:
    """Return a graph executor, before whose runs what it reads and writes is read."""
    get_input, get_output = executor["get_input"], executor["get_output"]
    slots = [*map(get_input, inputs), *map(get_output, range(executor["get_num_outputs"]()))]
    return Copy(executor["run"], reading([slot for slot in slots if slot is not None]))


class Place(NamedTuple):
    """The place of a part in its network, which decides how it runs."""

    weight_bytes: int = 0  # of its weights
    inner_bytes: int = 0  # of values inside it
    network_bytes: int = CACHE_BYTES  # that the network touches between two runs of it
    has_own_threads: bool = False  # whether other threads than TVM's compute, which have to wake


def timer_of_part(
    plain: Timer,
    executor: tvm.runtime.Module,
    another: Callable[[], tvm.runtime.Module],
    inputs: Iterable[str],
    place: Place,
    clock: Clock = time.perf_counter,
) -> Timer:
    """Return a timer of a part as its network runs it: `plain`, of runs one after the other, where
    nothing else tells. another: opens its graph executor once more, on weights of its own."""
    plain(1, 1)
    lap = lap_needed(
        place.weight_bytes, place.inner_bytes, min(plain(1, 3)), network_bytes=place.network_bytes
    )
    if lap == ONE_COPY and not place.has_own_threads:
        return plain
    names = list(inputs)
    between = pool_works() if place.has_own_threads else None
    return lap_timer(
        copy_of(executor, names),
        lambda: copy_of(another(), names),
        lap,
        between=between,
        clock=clock,
    )


def lap_timer(
    first: Copy,
    another: Callable[[], Copy],
    lap: Lap,
    between: Interlude | None = None,
    clock: Clock = time.perf_counter,
) -> Timer:
    """Return a timer of laps over the first copy and as many others as are needed."""
    copies = [first, *(another() for _ in range(lap.copies - 1))]
    return seconds_in_turn(copies, reading_bytes(lap.other_bytes), between, clock=clock)


def seconds_in_turn(
    copies: Sequence[Copy],
    before: Run = nothing,
    between: Interlude | None = None,
    clock: Clock = time.perf_counter,
) -> Timer:
    """Return a timer that goes round the copies; each has run once before, since weights are packed
    then.

    `before` runs before each lap, and is no part of a sample. Behind each run `between` runs, if
    it is given: what that takes by itself is no part of a sample, and what it takes beyond is.
    The least that it has taken by itself so far counts, so that beside other programs a sample is
    too long rather than too short.
    """
    for copy in copies:
        copy.run()
    in_lap: list[tuple[Run, Copy]] = [
        (before, copies[0]),
        *((nothing, copy) for copy in copies[1:]),
    ]
    turn = itertools.cycle(in_lap)
    beside = [] if between is None else [between.run]

    def seconds(calls: Sequence[Run]) -> float:
        begin = clock()
        for call in calls:
            call()
        return clock() - begin

    def fastest(work: Interlude) -> float:
        """Behind runs on other threads those of the pool may share a core for milliseconds."""
        end, least = clock() + work.wait_seconds, seconds(beside)
        while least > _UNDISTURBED * work.seconds and clock() < end:
            least = min(least, seconds(beside))
        return min(least, seconds(beside))

    by_itself = fastest(between) if between else 0.0

    def sample(number: int) -> float:
        spent = 0.0
        for before_lap, copy in itertools.islice(turn, number):
            before_lap()
            copy.before()
            spent += seconds([copy.run, *beside])
        return spent / number

    def timer(number: int, repeat: int) -> list[float]:
        nonlocal by_itself
        spent = [sample(number) for _ in range(repeat)]
        for look in range(_MOST_LOOKS if between else 0):
            # Other programs may have slowed it all the time before: surely, if it took longer by
            # itself than with a run.
            if look and min(spent) > by_itself:
                break
            by_itself = min(by_itself, seconds(beside), seconds(beside))
        return [max(each - by_itself, _LEAST_SECONDS) for each in spent]

    return timer
