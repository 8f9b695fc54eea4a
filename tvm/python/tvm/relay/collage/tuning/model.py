# SPDX-License-Identifier: Apache-2.0
"""Whole models for Transfer-Tuning: their kernels, and schedules searched for them or transferred
to them. Everything is in the log at once, so each step resumes. Test: cli/test_tt.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tvm

from ..candidate.candidate import CandidateModule, candidate_module
from ..compile import prepare
from ..compile.module_check import check_fixed_shapes, shape_flags
from ..exec.pool import Job, WorkerPool
from ..exec.resolve import call_of
from ..messages.progress import OnStep, untold, waiting
from .ansor import ROUND
from .ansor_kernel import AnsorKernel
from .log import note_kernel
from .resources import Budget
from .transfer.transfer import Transfer, Trial
from .tuner import SearchOptions
from .worker import trials_in, tune_task

# What ended a search: all trials that were asked for were made, its seconds were over, or its
# kernels were fast enough.
TRIALS, TIME, MATCHED = "trials", "time", "matched"


@dataclasses.dataclass(frozen=True)
class Model:
    """A model as one candidate of TVM's."""

    candidate: CandidateModule
    kernels: Sequence[AnsorKernel]  # those that Ansor has schedules for


class Unfinished(NamedTuple):
    """A kernel's search that did not come to its end."""

    reason: str
    is_late: bool  # time ended it, so that another run goes on with it


class Searched(NamedTuple):
    """The end of a search."""

    ended: str  # TRIALS, TIME or MATCHED
    unfinished: Mapping[str, Unfinished]  # by workload, of those that did not get all their trials


@contextlib.contextmanager
def one_worker() -> Iterator[WorkerPool]:
    """Open a pool for trials, which run alone."""
    with contextlib.closing(WorkerPool(1)) as pool:
        yield pool


def open_model(
    mod: tvm.IRModule, target: tvm.target.Target, label: str, workers: WorkerPool
) -> Model:
    """Find the kernels of a module, as Ansor would have TVM build it for `target`.

    CollageError, of which ModuleError is for inputs with open dimensions.
    """
    check_fixed_shapes(mod, None, "a search for schedules", how=shape_flags, file=label)
    with tvm.transform.PassContext(opt_level=3):
        prepared = prepare(mod, target=target)
    candidate = candidate_module(
        prepared, "tvm", target, build_options={"opt_level": 3}, label=label
    )
    return Model(candidate, Transfer([], Path(), workers).kernels(candidate))


def transfer_to(
    model: Model, transfer: Transfer, seconds: float, on_step: OnStep = untold
) -> dict[str, list[Trial]]:
    """Transfer to each kernel, dearest first, for `seconds` together; return trials by workload."""
    trials = {}
    kernels, budget = _dearest_first(model.kernels), Budget(seconds)
    for done, kernel in enumerate(kernels):
        on_step(kernel.name, done, len(kernels))
        on_wait = waiting(on_step, done, len(kernels))
        trials[kernel.workload] = transfer.to_kernel(
            model.candidate, kernel, budget, on_wait=on_wait
        )
    return trials


def count_untried(model: Model, transfer: Transfer) -> int:
    """Return how many schedules are left that the seconds of transfer_to did not suffice for."""
    return sum(len(transfer.untried(model.candidate, kernel)) for kernel in model.kernels)


def autoschedule(
    model: Model,
    workers: WorkerPool,
    options: SearchOptions,
    seconds: float,
    on_step: OnStep = untold,
    is_enough: Callable[[], bool] = lambda: False,
) -> Searched:
    """Have Ansor search, until the log has so many trials of each kernel, the seconds end, or
    `is_enough`, which is asked before each round of a kernel.

    It goes round by round, some trials of each kernel, so that a search that ends early has served
    all of them.
    """
    unfinished: dict[str, Unfinished] = {}
    exhausted: set[str] = set()  # which have no schedule left that was not tried
    kernels, budget = _dearest_first(model.kernels), Budget(seconds)
    for kernel in kernels:
        note_kernel(options.log, kernel)
    rounds = [*range(ROUND, options.trials, ROUND), options.trials]
    for number, enough in enumerate(rounds):
        known = trials_in(options.log, options.tuner, model.candidate.target)
        tried = Counter(line.workload for line in known)
        asked = dataclasses.replace(options, trials=enough)
        for done, kernel in enumerate(kernels):
            if kernel.workload in {*unfinished, *exhausted} or tried[kernel.workload] >= enough:
                continue
            step = (number * len(kernels) + done, len(rounds) * len(kernels))
            on_step(kernel.name, *step)
            if is_enough():
                return Searched(MATCHED, unfinished)
            if budget.is_spent:
                unfinished[kernel.workload] = Unfinished("no time left", is_late=True)
                continue
            limit = budget.limit(len(kernels) - done)
            call = call_of(
                tune_task,
                candidate=model.candidate.to_json(),
                workload=kernel.workload,
                options=dataclasses.asdict(asked),
            )
            with budget.spending(waiting(on_step, *step)):
                [reply] = workers.run([Job("call", call, limit)], concurrency=1)
            if reply.outcome != "ok":
                reason = f"{reply.outcome}: {reply.message}"
                unfinished[kernel.workload] = Unfinished(reason, reply.outcome == "timeout")
            elif not reply.value["trials"]:
                exhausted.add(kernel.workload)
    is_late = any(each.is_late for each in unfinished.values())
    return Searched(TIME if is_late else TRIALS, unfinished)


def _dearest_first(kernels: Sequence[AnsorKernel]) -> list[AnsorKernel]:
    return sorted(kernels, key=lambda kernel: -kernel.calls * kernel.operations)
