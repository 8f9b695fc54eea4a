# SPDX-License-Identifier: Apache-2.0
"""Ansor's (auto_scheduler's) search. Test: tuner/test_search.py.

Builds and runs go through two functions that TVM looks up by name; in this process, a worker that
does nothing else, they are ours. Weights are in the layout that the schedule reads best, as they
are in a build with its record.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.measure import MeasureErrorNo, PythonBasedMeasureCallback
from tvm.auto_scheduler.measure_record import dump_record_to_string

from ..exec.machine_fault import fault_of, kills_for_memory
from ..transfer.kernel import kernel_of
from ..transfer.log import note_kernel
from ..tuning.ansor_records import flat_key
from ..tuning.logs import Line, append_line
from ..tvm_fixes.ansor import matmul_axes, traced_alone
from ..tvm_fixes.apply import replace
from .device import threads_there
from .trial import build_kernel, seconds_of_kernel, tensor_arguments

# Trials that are chosen at once, by one fit of the cost model. With TVM's own rounds of 64 the
# model of a short search has learnt nothing before the last trial is chosen.
ROUND = 16
# Of one trial TVM measures none.
_LEAST_TRIALS = 2


def tasks_of(mod: tvm.IRModule, target: tvm.target.Target) -> dict[str, tuple[str, Any]]:
    """See step.Searcher. A task is a fused kernel that reduces something."""
    return {name: (task.desc, task) for name, task, _ in tasks_with_calls(mod, target)}


def tasks_with_calls(mod: tvm.IRModule, target: tvm.target.Target) -> list[tuple[str, Any, int]]:
    """Workload, task, and how often the module calls it."""
    machine = auto_scheduler.HardwareParams(num_cores=threads_there(), target=target)
    # Also outside of a build: the weights of these can be laid out.
    with traced_alone(), matmul_axes():
        found, calls = auto_scheduler.extract_tasks(mod, {}, target, hardware_params=machine)
    return [
        (flat_key(task.workload_key), task, int(count))
        for task, count in zip(found, calls, strict=True)
    ]


def search(task: Any, trials: int, history: list[Line], log: str, *, model: str, seed: int) -> None:
    """See step.Searcher. The log says what kernel its trials are of, for those who transfer."""
    note_kernel(log, kernel_of(task, task.desc))
    cost_model = _kept_model(log) if model == "xgb" else auto_scheduler.RandomModel()
    callbacks = []
    if history and os.path.exists(log):
        callbacks.append(auto_scheduler.PreloadMeasuredStates(log))
    policy = auto_scheduler.SketchPolicy(
        task,
        cost_model,
        params=_effort(trials),
        seed=seed + 1,
        verbose=0,
        init_search_callbacks=callbacks,
    )
    build_and_run = functools.partial(_build_and_run, log)
    replace("Ansor's trials", {"build": lambda _: _build_nothing, "run": lambda _: build_and_run})
    options = auto_scheduler.TuningOptions(
        num_measure_trials=max(trials, _LEAST_TRIALS),
        num_measures_per_round=min(trials, ROUND),
        # TVM hands over twice as many trials at once, and then lets the cost model learn: a round,
        # since more often would be for nothing.
        builder=auto_scheduler.LocalBuilder(n_parallel=ROUND // 2),
        runner=auto_scheduler.LocalRunner(),
        measure_callbacks=[_Learn(cost_model)] if model == "xgb" else [],
        verbose=0,
    )
    task.tune(options, policy)


# A worker searches one task after the other: what it has learnt serves the next.
@functools.lru_cache(maxsize=1)
def _kept_model(log: str) -> Any:
    from .kept_model import KeptModel, model_path  # needs xgboost, which other searches do not

    return KeptModel(model_path(log))


def _effort(trials: int) -> dict[str, int]:
    """A population in proportion to the trials, TVM's own from 512 trials on: before each round all
    of it is lowered for the cost model. With TVM's own population that takes most of a short search
    and finds nothing faster."""
    return {
        "sample_init_min_population": min(50, 4 + trials),
        "evolutionary_search_population": min(2048, 4 * trials),
        "evolutionary_search_num_iters": 4 if trials >= ROUND else 1,
    }


class _Learn(PythonBasedMeasureCallback):
    """Has a cost model learn from each round of trials."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def callback(self, policy: Any, inputs: Any, results: Any) -> None:
        self._model.learn(inputs, results)


def _build_nothing(inputs: Any, *_: Any) -> list[Any]:
    return [auto_scheduler.measure.BuildResult("", [], 0, "", 0.0) for _ in inputs]


def _build_and_run(log: str, inputs: Any, *_: Any) -> list[Any]:
    """Each trial is in the log before the next begins: the search may be killed at any moment."""
    results = []
    for entry in inputs:
        results.append(_measure(entry))
        append_line(log, dump_record_to_string(entry, results[-1]).strip())
    return results


def _measure(entry: Any) -> Any:
    """A MeasureResult; of a schedule that cannot be built or run, one that says so."""
    start, kills_before = time.time(), kills_for_memory()
    result = auto_scheduler.MeasureResult
    try:
        schedule, arguments = entry.task.compute_dag.apply_steps_from_state(
            entry.state, entry.task.layout_rewrite_option
        )
        function = build_kernel(entry.task.target, schedule, arguments)
        costs = seconds_of_kernel(function, tensor_arguments(arguments))
    except Exception as error:  # one bad schedule among many: data
        if fault_of(error, kills_before):
            raise
        number = MeasureErrorNo.RUNTIME_DEVICE
        return result([1e10], number, str(error)[-300:], time.time() - start, start)
    return result(costs, MeasureErrorNo.NO_ERROR, "", time.time() - start, start)
