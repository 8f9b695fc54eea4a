# SPDX-License-Identifier: Apache-2.0
"""Choice of the kernel that runs each step of a backend's parts, by measuring those that there are.

Times are looked for in the store, then measured in a worker, one step after another, where nothing
else runs; candidates that are measured after that are built with the outcome.
Test: estimators/test_kernel_choice.py.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tvm import relay

from ..costs.cost import MOST_SECONDS, Cost, CostStatus
from ..costs.failure import failed_cost
from ..costs.kernel import (
    KernelChoice,
    KernelStep,
    KernelTrial,
    choose,
    of_others,
    part_with_kernels,
)
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of
from ..exec.time_limit import KERNELS, NO_LIMIT, TimeLimit
from ..measure.measured import MeasuredCostEstimator
from ..measure.options import MeasureOptions
from ..measure.profiler.kernel_trials import TrialTiming, steps_of_part, time_kernels
from ..measure.race.comparison import paired_ratio
from ..messages.foreign import last_line
from ..messages.progress import OnStep, untold
from .session import Session

_logger = logging.getLogger(__name__)


def choose_kernels(
    session: Session,
    functions: Iterable[relay.Function],
    on_step: OnStep = untold,
    limit: TimeLimit = NO_LIMIT,
    seconds: float = math.inf,
) -> tuple[KernelChoice, ...]:
    """Return the KernelChoices of all steps of these parts (typed) that have several kernels, those
    of the most work first, as far as the limit leaves time for them. After so many seconds none is
    measured any more, and half as many are for the last ones.

    What goes wrong with a step or a kernel is logged, and leaves the step as the backend runs it.
    """
    listed = [(part, steps) for part in functions if (steps := _steps_of(part)) is not None]
    first = _once(step for _, steps in listed for step in steps if not step.is_last)
    first.sort(key=lambda step: step.work, reverse=True)
    costs = _costs(session.estimator, first, on_step, limit=limit, seconds=seconds)
    first = [step for step in first if step.key in costs]
    choices = [choose(step, costs[step.key]) for step in first]
    said = [
        _steps_of(part_with_kernels(part, choices)) or ()
        for part, steps in listed
        if any(step.is_last for step in steps)
    ]
    last = _once(step for steps in said for step in steps if step.is_last)
    last.sort(key=lambda step: step.work, reverse=True)
    costs = _costs(session.estimator, last, on_step, limit=limit, seconds=seconds / 2)
    last = [step for step in last if step.key in costs]
    choices += [choose(step, costs[step.key]) for step in last]
    choices += of_others([*first, *last], choices)
    for choice in choices:
        _logger.debug("%s", choice.Summary())
    return tuple(choices)


def _steps_of(part: relay.Function) -> list[KernelStep] | None:
    """Return the part's steps; None where its backend cannot list them, which is logged."""
    try:
        return steps_of_part(part)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a backend's own code
        _logger.warning(
            "kernels of a part cannot be listed, its backend chooses them: %s", last_line(error)
        )
        return None


def _once(steps: Iterable[KernelStep]) -> list[KernelStep]:
    """Drop steps that are equal to others, but those of the part that has most of them."""
    found: dict[str, KernelStep] = {}
    for step in steps:
        known = found.get(step.key)
        if known is None or step.work > known.work:
            found[step.key] = step
    return list(found.values())


def _costs(
    estimator: MeasuredCostEstimator,
    steps: Sequence[KernelStep],
    on_step: OnStep,
    limit: TimeLimit,
    seconds: float = math.inf,
) -> dict[str, dict[str, Cost]]:
    """Return the costs by kernel of each step, from the store or measured now while there is
    time."""
    costs = _known(estimator, steps)
    unknown = [step for step in steps if step.key not in costs]
    end = time.monotonic() + seconds
    for done, step in enumerate(unknown):
        if limit.left(KERNELS) <= 0:
            _logger.warning(
                "the time limit leaves no time for the kernels of %d steps: their backends choose",
                len(unknown) - done,
            )
            break
        if time.monotonic() > end:
            _logger.info("the time for kernels is over: %d steps are left", len(unknown) - done)
            break
        on_step(step.label, done, len(unknown))
        costs[step.key] = _measure(estimator, step)
    return costs


def _known(
    estimator: MeasuredCostEstimator, steps: Iterable[KernelStep]
) -> dict[str, dict[str, Cost]]:
    """Return the costs by kernel of those steps all of whose kernels the store knows."""
    trials = {step.key: [KernelTrial(step, kernel) for kernel in step.kernels] for step in steps}
    found: Iterator[Any] = iter(
        estimator.look_up([trial for each in trials.values() for trial in each])
    )
    rows = {key: {trial.kernel: next(found) for trial in each} for key, each in trials.items()}
    return {key: row for key, row in rows.items() if None not in row.values()}


def _measure(estimator: MeasuredCostEstimator, step: KernelStep) -> dict[str, Cost]:
    """Measure costs by kernel, now. A kernel that takes its worker along is found by itself; the
    others are then compared without it, since times of different moments do not compare."""

    def measure(kernels: Sequence[str]) -> dict[str, Cost]:
        job = _job(estimator.options, step, kernels)
        return _costs_of(*estimator.run_measuring(job), kernels)

    costs = measure(step.kernels)
    if not any(cost.is_usable for cost in costs.values()):
        costs = {}
        for kernel in step.kernels:
            costs |= measure((kernel,))
        working = tuple(kernel for kernel, cost in costs.items() if cost.is_usable)
        if len(working) > 1:
            costs |= measure(working)
    for kernel, cost in costs.items():
        if cost.status != CostStatus.MACHINE_FAULT:
            estimator.keep(KernelTrial(step, kernel), cost)
    return costs


def _job(options: MeasureOptions, step: KernelStep, kernels: Sequence[str]) -> Job:
    timing = TrialTiming(
        network_bytes=options.network_bytes,
        seed=options.seed,
        budget_seconds=step.budget_seconds,
        further_seconds=step.further_seconds,
        compares=not step.is_last,
    )
    arguments = {
        "backend": step.backend,
        "text": step.text,
        "kernels": kernels,
        "timing": dataclasses.asdict(timing),
    }
    call = call_of(time_kernels, **arguments)
    return Job("call", call, options.run_timeout)


def _costs_of(
    reply: Reply, with_load: Callable[[Cost], Cost], kernels: Sequence[str]
) -> dict[str, Cost]:
    """Return what a worker's reply says of each kernel."""
    if reply.outcome != "ok":
        return dict.fromkeys(kernels, with_load(failed_cost(reply, "run", CostStatus.RUN_FAILED)))
    samples, failed = reply.value["samples"], reply.value["failed"]
    usual = samples.get(kernels[0]) if len(kernels) > 1 else None
    return {
        kernel: with_load(_beside(usual, samples[kernel]))
        if kernel in samples
        else Cost.failed(**failed[kernel])
        for kernel in kernels
    }


def _beside(usual: Sequence[float] | None, samples: Sequence[float]) -> Cost:
    """Return the cost of a kernel whose samples are from the same rounds as the usual one's: that
    one's time by the ratio of both, round by round, as its bounds are. What slowed the machine in a
    round cancels out so; if the usual one does not run, a kernel's time is its own."""
    if usual is None:
        return Cost.measured(samples, by_quartile=False)
    seconds = statistics.median(usual)
    value, low, high = (seconds * each for each in paired_ratio(samples, usual))
    if not all(0 < each < MOST_SECONDS for each in (value, low, high)):  # too few rounds
        return Cost(CostStatus.MEASURED, value, rounds=len(samples))
    return Cost(CostStatus.MEASURED, value, low, high, len(samples))
