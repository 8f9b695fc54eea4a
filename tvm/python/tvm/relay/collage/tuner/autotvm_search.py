# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's search over a template's configurations. Test: tuner/test_search.py."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import tvm
from tvm import autotvm
from tvm.autotvm.record import decode, encode
from tvm.autotvm.tuner import RandomTuner, XGBTuner

from ..exec.machine_fault import fault_of, kills_for_memory
from ..tuning.logs import Line, append_line, read_log
from ..tvm_fixes.exact_bytes import exact_bytes
from .trial import build_kernel, seconds_of_kernel, tensor_arguments

# Configurations that are chosen at once, by one fit of the cost model.
_BATCH = 16
# Trials of a template that the cost model begins with: their features are computed anew.
_LEARNT = 500


def tasks_of(mod: tvm.IRModule, target: tvm.target.Target) -> dict[str, tuple[str, Any]]:
    """See step.Searcher. An operator has a task for each template that TVM could use for it."""
    tasks = autotvm.task.extract_from_program(mod, {}, target)
    return {json.dumps([task.name, task.args]): (task.name, task) for task in tasks}


def search(task: Any, trials: int, history: list[Line], log: str, *, model: str, seed: int) -> None:
    """See step.Searcher. Ends before when all configurations of the template are tried."""
    tuner = XGBTuner(task, plan_size=_BATCH) if model == "xgb" else RandomTuner(task)
    tried = {decode(line.text)[0].config.index for line in history}
    if model == "xgb":
        alike = _trials_alike(task, log)
        if len(alike) >= _BATCH:
            tuner.load_history([decode(line.text) for line in alike], min_seed_records=_BATCH)
    trials = min(trials, len(task.config_space) - len(tried))
    while trials > 0 and tuner.has_next():
        configs = [c for c in tuner.next_batch(_BATCH) if c.index not in tried][:trials]
        inputs = [autotvm.MeasureInput(task.target, task, config) for config in configs]
        results = []
        for entry in inputs:
            results.append(_measure(entry))
            tried.add(entry.config.index)
            append_line(log, encode(entry, results[-1]))
        tuner.update(inputs, results)
        trials -= len(inputs)


def _trials_alike(task: Any, log: str) -> list[Line]:
    """The log's last trials of the task's template, for other nets' kernels too: what was learnt
    of these serves the next."""
    if not os.path.exists(log):
        return []
    lines = [line for line in read_log(log) if line.kind == "autotvm"]
    target = str(task.target)
    alike = [
        line
        for line in lines
        if line.target == target and json.loads(line.workload)[0] == task.name
    ]
    return alike[-_LEARNT:]


def _measure(entry: Any) -> Any:
    """A MeasureResult; of a configuration that cannot be built or run, one that says so."""
    start, kills_before = time.time(), kills_for_memory()
    number = autotvm.MeasureErrorNo
    try:
        with entry.target, exact_bytes():
            schedule, arguments = entry.task.instantiate(entry.config)
            if not entry.config.valid():
                raise ValueError(str(entry.config.errors))
            function = build_kernel(entry.target, schedule, arguments)
        costs = seconds_of_kernel(function, tensor_arguments(arguments))
    except Exception as error:  # one bad configuration among many: data
        if fault_of(error, kills_before):
            raise
        failure = (str(type(error).__name__), str(error)[-300:])
        return autotvm.MeasureResult(failure, number.RUNTIME_DEVICE, time.time() - start, start)
    return autotvm.MeasureResult(tuple(costs), number.NO_ERROR, time.time() - start, start)
