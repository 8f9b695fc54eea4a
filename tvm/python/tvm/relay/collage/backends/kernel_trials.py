# SPDX-License-Identifier: Apache-2.0
"""The steps of a part that can run by several kernels, and how a worker times these.

The kernels of a step are timed in rounds, each in turn and in an order of chance, so that what
happens to the machine happens to all of them. Test: measured/test_kernels.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relay

from ..costs.kernel import KernelStep
from ..messages import describe
from ..timing.in_network import (
    MOST_TURNS,
    ONE_COPY,
    Copy,
    KernelRuns,
    reading,
    reading_bytes,
    round_needed,
    seconds_in_turn,
)
from ..timing.rounds import ROUNDS_BEFORE_GIVING_UP, run_rounds
from .interface import Backend
from .registry import find_backend, get_backend
from .target_options import options_in

# A sample spans at least so long; more rounds than are needed to bound a median, and to give up
# what is slower than this many times the fastest, are run while they fit the budget.
_SAMPLE_SECONDS = 3e-4
_MOST_ROUNDS = 10 * ROUNDS_BEFORE_GIVING_UP
_GIVE_UP_RATIO = 1.15


def has_kernel_steps(name: str) -> bool:
    """Whether the backend of that name, if there is one, ever lets its kernels be chosen."""
    backend = find_backend(name)
    return backend is not None and type(backend).kernel_steps is not Backend.kernel_steps


def steps_of_part(function: relay.Function) -> list[KernelStep]:
    """The KernelSteps of a part's function, of those kernels that there are several of."""
    backend = get_backend(str(function.attrs["Compiler"]))
    steps = backend.with_options(options_in(function)).kernel_steps(function)
    return [step for step in steps if len(step.kernels) > 1]


def time_kernels(
    backend: str,
    text: str,
    kernels: Sequence[str],
    network_bytes: int,
    seed: int,
    budget_seconds: float,
    sample_seconds: float = _SAMPLE_SECONDS,
) -> dict[str, Any]:
    """A worker's trial of kernels of one step: seconds of one run by kernel, and what failed.

    One that fails, or gives no run, is a message; the others are timed all the same.
    network_bytes: of weights, which its network reads between two runs.
    """
    own = get_backend(backend)
    sampled: dict[str, Callable[[], float]] = {}
    failed: dict[str, str] = {}
    for kernel in kernels:
        try:
            runs = own.kernel_runs(text, kernel, seed)
            sampled[kernel] = _sampled(runs, network_bytes, sample_seconds)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a backend's own code; the kernel alone fails
            failed[kernel] = describe(error)
    round_seconds = sum(map(_seconds, sampled.values()))
    fitting = int(budget_seconds / round_seconds) if sampled else 0
    samples = run_rounds(
        list(sampled),
        lambda kernel: sampled[kernel](),
        max(ROUNDS_BEFORE_GIVING_UP, min(_MOST_ROUNDS, fitting)),
        leave=lambda kernel, reason: None,
        seed=seed,
        give_up_ratio=_GIVE_UP_RATIO,
    )
    return {"samples": samples, "failed": failed}


def _sampled(runs: KernelRuns, network_bytes: int, sample_seconds: float) -> Callable[[], float]:
    """What samples the seconds of one run, as a network runs it."""
    run = runs.open()
    run()
    once = _seconds(run)
    number = math.ceil(sample_seconds / once)
    needed = round_needed(runs.weight_bytes, once, network_bytes)
    before = int if needed == ONE_COPY else reading(runs.arrays)
    if needed != ONE_COPY:
        number = min(number, MOST_TURNS)
    opened = [run, *(runs.open() for _ in range(needed.copies - 1))]
    timer = seconds_in_turn(
        [Copy(each, before) for each in opened], reading_bytes(needed.other_bytes)
    )
    return lambda: timer(number, 1)[0]


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return max(time.perf_counter() - start, 1e-9)
