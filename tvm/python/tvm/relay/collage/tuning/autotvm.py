# SPDX-License-Identifier: Apache-2.0
"""AutoTVM: its records, its tasks, and its search over a template's configurations.

TVM looks records up by the target's model, then by its keys, in the innermost context first. Here
that order is settled for one target: a line a workload.
Tests: tuning/test_records.py, tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import autotvm
from tvm.autotvm.record import decode, encode
from tvm.autotvm.task.dispatcher import DispatchContext, FallbackContext
from tvm.autotvm.tuner import RandomTuner, XGBTuner

from ..files.text import append_line
from ..tvm_fixes.exact_bytes import exact_bytes
from ..tvm_fixes.thread_contexts import ThreadContexts
from .trial import Argument, build_kernel, tensor_arguments, timed
from .tuner import (
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

# Configurations that are chosen at once, by one fit of the cost model.
_BATCH = 16
# Trials of a template that the cost model begins with: their features are computed anew.
_LEARNT = 500
THREADS = ThreadContexts("AutoTVM's contexts", DispatchContext)


class AutoTVM(Tuner):
    """Searches the configurations of a template, which an operator has several of."""

    name = "autotvm"
    config = {}

    def is_enabled(self) -> bool:
        """Tell that builds always consult records, for the schedules that others do not make."""
        return True

    def contexts(self) -> Sequence[Context]:
        return contexts_in_force(THREADS, FallbackContext, autotvm.task.ApplyHistoryBest)

    def records_in(self, contexts: Sequence[Context], target: tvm.target.Target) -> list[Record]:
        found: dict[Any, Any] = {}
        for key, rows in rows_by_precedence(contexts, target):
            found.update({row[1]: pair for row, pair in rows.items() if row[0] == key})
        return [_record(target, *pair) for pair in found.values()]

    def using(self, lines: Sequence[str]) -> contextlib.AbstractContextManager[Context]:
        return THREADS.entered(autotvm.apply_history_best([decode(line) for line in lines]))

    def line_of(self, row: object, text: str) -> Line | None:
        if not (isinstance(row, dict) and {"input", "config", "result"} <= set(row)):
            return None
        target, name, args = row["input"][:3]
        costs, error_no = row["result"][:2]
        seconds = None if error_no else sum(costs) / len(costs)
        workload = _workload(name, args)
        return Line(self.name, workload, target, seconds=seconds, text=text, origin=self.name)

    def tasks(self, mod: tvm.IRModule, target: tvm.target.Target) -> list[TuningTask]:
        """Return the operators, each once for each template that TVM could use for it."""
        found = autotvm.task.extract_from_program(mod, {}, target)
        return [TuningTask(_workload(task.name, task.args), task.name, task) for task in found]

    def search(self, task: TuningTask, options: SearchOptions, known: Sequence[Line]) -> None:
        template = task.work
        tuner = RandomTuner(template)
        tried = {decode(line.text)[0].config.index for line in of_task(known, task)}
        if options.model == "xgb":
            tuner = XGBTuner(template, plan_size=_BATCH)
            # What was learnt of other nets' kernels serves this one.
            alike = [line for line in known if json.loads(line.workload)[0] == template.name]
            pairs = [decode(line.text) for line in alike[-_LEARNT:]]
            if len(pairs) >= _BATCH:
                tuner.load_history(pairs, min_seed_records=_BATCH)
        trials = min(options.trials, len(template.config_space) - len(tried))
        while trials > 0 and tuner.has_next():
            configs = [c for c in tuner.next_batch(_BATCH) if c.index not in tried][:trials]
            inputs = [autotvm.MeasureInput(template.target, template, c) for c in configs]
            tried.update(config.index for config in configs)
            results = []
            for entry in inputs:
                results.append(_measure(entry))
                append_line(options.log, encode(entry, results[-1]))
            tuner.update(inputs, results)
            trials -= len(inputs)


def _workload(name: str, args: Sequence[Any]) -> str:
    return json.dumps([name, args])


def _record(
    target: tvm.target.Target, inp: autotvm.MeasureInput, result: autotvm.MeasureResult
) -> Record:
    # When it was measured, and how long that took, make no other record.
    result = autotvm.MeasureResult(result.costs, result.error_no, 0.0, 0.0)
    line = encode(autotvm.MeasureInput(target, inp.task, inp.config), result)
    tensors = [arg for arg in inp.task.args if isinstance(arg, tuple) and arg[0] == "TENSOR"]
    return Record(
        AutoTVM.name, line, line, sizes=frozenset(math.prod(arg[1]) for arg in tensors[:1])
    )


def _measure(entry: autotvm.MeasureInput) -> autotvm.MeasureResult:
    """Make a trial, whose result says why a configuration cannot be built or run."""
    costs, error, began, took = timed(functools.partial(_build, entry))
    if error is not None:
        failure = (type(error).__name__, str(error)[-300:])
        return autotvm.MeasureResult(failure, autotvm.MeasureErrorNo.RUNTIME_DEVICE, took, began)
    return autotvm.MeasureResult(tuple(costs), autotvm.MeasureErrorNo.NO_ERROR, took, began)


def _build(entry: autotvm.MeasureInput) -> tuple[tvm.runtime.Module, Sequence[Argument]]:
    with entry.target, exact_bytes():
        schedule, tensors = entry.task.instantiate(entry.config)
        if not entry.config.valid():
            raise ValueError(str(entry.config.errors))
        return build_kernel(entry.target, schedule, tensors), tensor_arguments(tensors)
