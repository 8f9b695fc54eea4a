# SPDX-License-Identifier: Apache-2.0
"""The steps of a part that can run by several kernels, and how a worker times these.

The kernels of a step are timed in rounds, each in turn and in an order of chance, so that what
happens to the machine happens to all of them. Test: estimators/test_kernel_choice.py.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relay

from ...backends.interface import Backend
from ...backends.registry import find_backend, get_backend
from ...backends.target_options import options_in
from ...candidate.weights import CACHE_BYTES
from ...costs.cost import CostStatus
from ...costs.kernel import KernelRuns, KernelStep, Run, is_undecided
from ...costs.rounding import Tolerance, mismatch
from ...costs.statistics import ratio_interval
from ...exec.arrays import numbers_of
from ...messages.foreign import describe
from ..race.rounds import ROUNDS_BEFORE_GIVING_UP, Further, RoundOptions, run_rounds
from .in_network import (
    MOST_TURNS,
    ONE_COPY,
    Copy,
    Lap,
    Timer,
    lap_needed,
    lap_timer,
    nothing,
    reading,
)

# A sample spans at least so long; more rounds than are needed to bound a median, and to give up
# what is slower than this many times the fastest, are run while they fit the budget.
_SAMPLE_SECONDS = 3e-4
_MOST_ROUNDS = 10 * ROUNDS_BEFORE_GIVING_UP
_GIVE_UP_RATIO = 1.15
# A run that takes so long says at once what it takes.
_LONG_SECONDS = 0.02
# How far numbers may be from those of the usual kernel: where all are float32, and where some are
# coarser. The parts that hold the kernel are verified more strictly; this is for kernels that
# compute something else, because no part would be left if the fastest one of a step were wrong.
_FLOATS, _COARSE = Tolerance(1e-2, 0), Tolerance(0.3, 3)


def has_kernel_steps(name: str) -> bool:
    """Return whether the backend of that name, if there is one, ever lets its kernels be chosen."""
    backend = find_backend(name)
    return backend is not None and type(backend).kernel_steps is not Backend.kernel_steps


def steps_of_part(function: relay.Function) -> list[KernelStep]:
    """Return the KernelSteps of a part's function, of those kernels that there are several of."""
    backend = get_backend(str(function.attrs["Compiler"]))
    steps = backend.with_options(options_in(function)).kernel_steps(function)
    return [step for step in steps if len(step.kernels) > 1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialTiming:
    """The way in which a worker times the kernels of a step; JSON values alone."""

    network_bytes: int  # what its network touches between two runs
    seed: int
    budget_seconds: float  # for all kernels together
    further_seconds: float = 0.0  # for those that may be faster than the first
    sample_seconds: float = _SAMPLE_SECONDS
    # whether numbers are looked at; not those of many steps after each other, which made-up weights
    # may drive anywhere
    compares: bool = True


def time_kernels(
    backend: str,
    text: str,
    kernels: Sequence[str],
    timing: Mapping[str, Any],
) -> dict[str, Any]:
    """Time kernels of one step in a worker: seconds of one run by kernel, and what failed.

    One that fails is a status and a message, and so is one that gives other numbers than the first
    that runs, which is the usual one unless that fails; the others are timed all the same.
    `timing`: the fields of a TrialTiming.
    """
    how = TrialTiming(**timing)
    own = get_backend(backend)
    opened: dict[str, tuple[KernelRuns, Run]] = {}
    failed: dict[str, dict[str, str]] = {}
    usual: list[np.ndarray] = []
    for kernel in kernels:
        try:
            runs = own.kernel_runs(text, kernel, how.seed)
            run = runs.open()
            run()  # what is done once: weights are packed
            found = [numbers_of(tensor) for tensor in runs.arrays] if how.compares else []
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a backend's own code; the kernel alone fails
            failed[kernel] = {"status": CostStatus.UNSUPPORTED, "message": describe(error)}
            continue
        usual = usual or found
        are_floats = all(tensor.dtype == "float32" for tensor in runs.arrays)
        if mismatch(found, usual, _FLOATS if are_floats else _COARSE):
            text = "its numbers are not those of the usual one"
            failed[kernel] = {"status": CostStatus.WRONG_RESULT, "message": text}
        else:
            opened[kernel] = runs, run
    once = {kernel: _seconds_once(run) for kernel, (_, run) in opened.items()}
    # For all kernels alike, so that one is not timed on warm weights beside others on cold ones.
    size = max((runs.weight_bytes for runs, _ in opened.values()), default=0)
    lap = lap_needed(size, 0, min(once.values(), default=0.0), network_bytes=how.network_bytes)
    number = {kernel: math.ceil(how.sample_seconds / seconds) for kernel, seconds in once.items()}
    if lap != ONE_COPY:
        number = {kernel: min(MOST_TURNS, max(lap.copies, n)) for kernel, n in number.items()}
    timers = {kernel: _timer(*each, lap) for kernel, each in opened.items()}

    def sample(kernel: str) -> float:
        if lap != ONE_COPY and how.network_bytes < CACHE_BYTES:
            # What the caches hold in such a network the other kernels' trials have driven out.
            timers[kernel](lap.copies, 1)
        return timers[kernel](number[kernel], 1)[0]

    began = time.perf_counter()
    for kernel in timers:
        sample(kernel)
    round_seconds = time.perf_counter() - began
    fitting = int(how.budget_seconds / round_seconds) if timers else 0
    options = RoundOptions(
        rounds=max(ROUNDS_BEFORE_GIVING_UP, min(_MOST_ROUNDS, fitting)),
        seed=how.seed,
        give_up_ratio=_GIVE_UP_RATIO,
        further=Further(_undecided, how.further_seconds) if how.further_seconds else None,
    )
    samples = run_rounds(list(timers), sample, lambda kernel, reason: None, options=options)
    return {"samples": samples, "failed": failed}


def _undecided(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the first kernel and those that more rounds may show to be faster."""
    usual, *others = samples
    undecided = [k for k in others if is_undecided(ratio_interval(samples[k], samples[usual]))]
    return [usual, *undecided] if undecided else []


def _timer(runs: KernelRuns, first: Run, lap: Lap) -> Timer:
    before = nothing if lap == ONE_COPY else reading(runs.arrays)
    return lap_timer(Copy(first, before), lambda: Copy(runs.open(), before), lap)


def _seconds_once(run: Run) -> float:
    """Return the seconds of the fastest of a few runs, so that one that was disturbed decides
    nothing, or of one that is long."""

    def seconds() -> float:
        start = time.perf_counter()
        run()
        return max(time.perf_counter() - start, 1e-9)

    first = seconds()
    return first if first > _LONG_SECONDS else min(first, seconds(), seconds())
