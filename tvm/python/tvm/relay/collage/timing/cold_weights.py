# SPDX-License-Identifier: Apache-2.0
"""Runs of a candidate by turns on several copies of its weights. Test: timing/test_cold_weights.py.

A candidate that runs again and again on one copy finds it in the caches; in a network, all other
layers' weights were read since. Where that may tell, a timing opens the library several times, each
with weights of its own, as memory has them for each executor and each part of a backend.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..costs.weights import copies_in_turn

# Bytes of weights for each second of a run below which it does not tell where they come from: a
# twentieth of what memory gives a slow machine.
_FEWEST_BYTES_A_SECOND = 5e8

Run = Callable[[], Any]
# timer(number, repeat): `repeat` samples of `number` runs each, in seconds of one run.
Timer = Callable[[int, int], list[float]]


def copies_needed(weight_bytes: int, run_seconds: float) -> int:
    """Of how many copies a run is timed, that takes so long on one."""
    if weight_bytes < _FEWEST_BYTES_A_SECOND * run_seconds:
        return 1
    return copies_in_turn(weight_bytes)


def seconds_in_turn(runs: Sequence[Run]) -> Timer:
    """A timer that goes round the runs; each has run once before, since weights are packed then."""
    for run in runs:
        run()
    turn = itertools.cycle(runs)

    def sample(number: int) -> float:
        begin = time.perf_counter()
        for run in itertools.islice(turn, number):
            run()
        return (time.perf_counter() - begin) / number

    return lambda number, repeat: [sample(number) for _ in range(repeat)]
