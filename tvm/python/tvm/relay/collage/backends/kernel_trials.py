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
    seed: int,
    budget_seconds: float,
    sample_seconds: float = _SAMPLE_SECONDS,
) -> dict[str, Any]:
    """A worker's trial of kernels of one step: seconds of one run by kernel, and what failed.

    One that fails, or gives no run, is a message; the others are timed all the same.
    """
    own = get_backend(backend)
    runs: dict[str, Callable[[], None]] = {}
    failed: dict[str, str] = {}
    for kernel in kernels:
        try:
            run = own.kernel_run(text, kernel, seed)
            run()  # what is done once: weights are packed
            runs[kernel] = run
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a backend's own code; the kernel alone fails
            failed[kernel] = describe(error)
    once = {kernel: _seconds(run, 1) for kernel, run in runs.items()}
    number = {kernel: math.ceil(sample_seconds / once[kernel]) for kernel in runs}
    round_seconds = sum(number[kernel] * once[kernel] for kernel in runs)
    fitting = int(budget_seconds / round_seconds) if runs else 0
    samples = run_rounds(
        list(runs),
        lambda kernel: _seconds(runs[kernel], number[kernel]),
        max(ROUNDS_BEFORE_GIVING_UP, min(_MOST_ROUNDS, fitting)),
        leave=lambda kernel, reason: None,
        seed=seed,
        give_up_ratio=_GIVE_UP_RATIO,
    )
    return {"samples": samples, "failed": failed}


def _seconds(run: Callable[[], None], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        run()
    return max((time.perf_counter() - start) / number, 1e-9)
