# SPDX-License-Identifier: Apache-2.0
"""Ansor (TVM's auto_scheduler): its records, its tasks and its search.

A context keeps states, not the lines that they came from; a line is made anew around each. In a
search, builds and runs go through two functions that TVM looks up by name; in a worker, which does
nothing else, they are ours. Weights are in the layout that the schedule reads best, as they are in
a build with its record. Tests: tuning/test_records.py, tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.dispatcher import DispatchContext, FallbackContext
from tvm.auto_scheduler.loop_state import StateObject
from tvm.auto_scheduler.measure import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    PythonBasedMeasureCallback,
)
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string
from tvm.auto_scheduler.search_policy import SearchPolicy

from ..files.text import append_line
from ..tvm_fixes.ansor import matmul_axes, traced_alone
from ..tvm_fixes.apply import replace
from ..tvm_fixes.thread_contexts import ThreadContexts
from .ansor_kernel import flat_key, kernel_of
from .trial import Argument, build_kernel, tensor_arguments, threads_there, timed
from .tuner import (
    TRANSFERRED,
    Context,
    Line,
    Record,
    SearchOptions,
    Tuner,
    TuningTask,
    contexts_in_force,
    of_task,
    rows_by_precedence,
)

NAME = "ansor"
# What a line says of its format, which TVM reads and does not look at: of a schedule that was found
# for another kernel it says that too.
VERSION = "v0.6"
TRANSFERRED_VERSION = f"{VERSION} transferred"
# What it says of the machine: those of any line, since a build looks at the state alone.
HARDWARE = [1, 64, 64, 0, 0, 0, 0, 0]
# Trials that are chosen at once, by one fit of the cost model. With TVM's own rounds of 64 the
# model of a short search has learnt nothing before the last trial is chosen.
ROUND = 16
# Of one trial TVM measures none.
_LEAST_TRIALS = 2
# Seconds that TVM writes for a trial that failed.
NEVER = 1e10
THREADS = ThreadContexts("Ansor's contexts", DispatchContext)


class Ansor(Tuner):
    """Searches schedules of fused kernels from nothing, guided by a cost model."""

    name = NAME
    config = {"relay.backend.use_auto_scheduler": True}

    def is_enabled(self) -> bool:
        return bool(auto_scheduler.is_auto_scheduler_enabled())

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Have TVM warn of no kernel that lacks a record, which is the rule in a search."""
        roots = [each for each in THREADS.in_force() if isinstance(each, FallbackContext)]
        before = [root.verbose for root in roots]
        try:
            for root in roots:
                root.verbose = 0
            yield
        finally:
            for root, verbose in zip(roots, before, strict=True):
                root.verbose = verbose

    def contexts(self) -> Sequence[Context]:
        return contexts_in_force(THREADS, FallbackContext, auto_scheduler.ApplyHistoryBest)

    def records_in(self, contexts: Sequence[Context], target: tvm.target.Target) -> list[Record]:
        found: dict[tuple[str, Any], Any] = {}
        for key, rows in rows_by_precedence(contexts, target):
            for name, entry in rows.get(key, {}).items():
                found.update({(name, args): value for args, value in entry.items()})
        return [_record(target, *workload, *value) for workload, value in found.items()]

    def using(self, lines: Sequence[str]) -> contextlib.AbstractContextManager[Context]:
        records = [load_record_from_string(line) for line in lines]
        return THREADS.entered(auto_scheduler.ApplyHistoryBest(records))

    def line_of(self, row: object, text: str) -> Line | None:
        if not (isinstance(row, dict) and {"i", "r"} <= set(row)):
            return None
        key, target = row["i"][0][:2]
        costs, error_no = row["r"][:2]
        seconds = None if error_no else sum(costs) / len(costs)
        origin = TRANSFERRED if row.get("v") == TRANSFERRED_VERSION else NAME
        return Line(NAME, flat_key(key), target, seconds=seconds, text=text, origin=origin)

    def tasks(self, mod: tvm.IRModule, target: tvm.target.Target) -> list[TuningTask]:
        """Return the fused kernels that reduce something."""
        machine = auto_scheduler.HardwareParams(num_cores=threads_there(), target=target)
        # Also outside of a build: the weights of these can be laid out.
        with traced_alone(), matmul_axes():
            found, calls = auto_scheduler.extract_tasks(mod, {}, target, hardware_params=machine)
        kernels = [
            kernel_of(each, each.desc, int(count)) for each, count in zip(found, calls, strict=True)
        ]
        return [
            TuningTask(kernel.workload, kernel.name, each, kernel=kernel)
            for kernel, each in zip(kernels, found, strict=True)
        ]

    def search(self, task: TuningTask, options: SearchOptions, known: Sequence[Line]) -> None:
        log, trials = options.log, options.trials
        learns = options.model == "xgb"
        model = kept_model(log) if learns else auto_scheduler.RandomModel()
        policy = auto_scheduler.SketchPolicy(
            task.work,
            model,
            params=effort(trials),
            seed=options.seed + 1,
            verbose=0,
            init_search_callbacks=(
                [auto_scheduler.PreloadMeasuredStates(log)] if of_task(known, task) else []
            ),
        )
        build_and_run = functools.partial(_build_and_run, log)
        replace(
            "Ansor's trials", {"build": lambda _: _build_nothing, "run": lambda _: build_and_run}
        )
        tuning = auto_scheduler.TuningOptions(
            num_measure_trials=max(trials, _LEAST_TRIALS),
            num_measures_per_round=min(trials, ROUND),
            # TVM hands over twice as many trials at once, and then lets the cost model learn: a
            # round, since more often would be for nothing.
            builder=auto_scheduler.LocalBuilder(n_parallel=ROUND // 2),
            runner=auto_scheduler.LocalRunner(),
            measure_callbacks=[_Learn(model)] if learns else [],
            verbose=0,
        )
        task.work.tune(tuning, policy)


def _record(
    target: tvm.target.Target, name: str, args: tuple | None, state: StateObject, cost: float
) -> Record:
    key = name if args is None else json.dumps([name, *args])
    row = {
        "i": [[key, str(target), HARDWARE, "", 2, []], [[], []]],
        "r": [[float(cost)], 0, 0, 0],
        "v": VERSION,
    }
    empty, result = load_record_from_string(json.dumps(row))
    line = dump_record_to_string(MeasureInput(empty.task, state), result).strip()
    # The output's shape ends the workload's arguments; where it begins they do not tell.
    dims = [dim for dim in args or () if isinstance(dim, int)]
    sizes = itertools.accumulate(reversed(dims), operator.mul)
    return Record(NAME, line, line, sizes=frozenset(sizes))


# A worker searches one task after the other: what it has learnt serves the next.
@functools.lru_cache(maxsize=1)
def kept_model(log: str) -> auto_scheduler.XGBModel:
    """Return the cost model that learns beside a log."""
    from .ansor_model import KeptModel, model_path  # needs xgboost, which other searches do not

    return KeptModel(model_path(log))


def effort(trials: int) -> dict[str, int]:
    """Return a population in proportion to the trials, TVM's own from 512 trials on: before each
    round all of it is lowered for the cost model. With TVM's own population that takes most of a
    short search and finds nothing faster."""
    return {
        "sample_init_min_population": min(50, 4 + trials),
        "evolutionary_search_population": min(2048, 4 * trials),
        "evolutionary_search_num_iters": 4 if trials >= ROUND else 1,
    }


class _Learn(PythonBasedMeasureCallback):
    """A cost model's way to learn from each round of trials."""

    def __init__(self, model: auto_scheduler.XGBModel) -> None:
        super().__init__()
        self._model = model

    def callback(
        self, policy: SearchPolicy, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        self._model.learn(inputs, results)


def _build_nothing(inputs: Sequence[MeasureInput], *_: Any) -> list[Any]:
    return [auto_scheduler.measure.BuildResult("", [], 0, "", 0.0) for _ in inputs]


def _build_and_run(log: str, inputs: Sequence[MeasureInput], *_: Any) -> list[MeasureResult]:
    """Make trials; each is in the log before the next begins: a search may be killed."""
    results = []
    for entry in inputs:
        costs, error, began, took = timed(functools.partial(_build, entry))
        number = MeasureErrorNo.RUNTIME_DEVICE if error else MeasureErrorNo.NO_ERROR
        why = str(error)[-300:] if error else ""
        results.append(MeasureResult(costs or [NEVER], number, why, took, began))
        append_line(log, dump_record_to_string(entry, results[-1]).strip())
    return results


def _build(entry: MeasureInput) -> tuple[tvm.runtime.Module, Sequence[Argument]]:
    task = entry.task
    schedule, tensors = task.compute_dag.apply_steps_from_state(
        entry.state, task.layout_rewrite_option
    )
    return build_kernel(task.target, schedule, tensors), tensor_arguments(tensors)
