# SPDX-License-Identifier: Apache-2.0
"""The work of a worker that tunes: it names a candidate's tasks, and searches schedules for one of
them.

Kernels are built and run in the worker itself, which is expendable: should one crash or hang, the
log keeps the trials before. Test: tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..candidate.candidate import CandidateModule
from ..candidate.pass_context import context_from_json
from ..compile import fast_passes
from .log import note_kernel, read_log
from .records import TUNERS
from .tuner import Line, SearchOptions, TuningTask, of_task

# A gain of less than a hundredth is none.
_GAIN = 0.99


def list_tasks(candidate: dict[str, Any], tuner: str) -> list[dict[str, Any]]:
    """Return workload and name of each task in a candidate (as JSON), and Ansor's kernel."""
    _, tasks = tasks_of(text_of(candidate), tuner)
    return [
        {
            "workload": task.workload,
            "name": task.name,
            "kernel": task.kernel.to_json() if task.kernel else None,
        }
        for task in tasks
    ]


def tune_task(candidate: dict[str, Any], workload: str, options: dict[str, Any]) -> dict[str, Any]:
    """Search for the workload until the log has the trials that SearchOptions (their fields) ask
    for, or their patience ends; return how many were new, as `trials`.

    LookupError when the candidate has no such task.
    """
    asked = SearchOptions(**options)
    target, tasks = tasks_of(text_of(candidate), asked.tuner)
    task = next((each for each in tasks if each.workload == workload), None)
    if task is None:
        raise LookupError(f"the candidate has no {asked.tuner} task {workload:.80}")
    if task.kernel:
        note_kernel(asked.log, task.kernel)
    known = trials_in(asked.log, asked.tuner, str(target))
    history = of_task(known, task)
    before = len(history)
    while len(history) < asked.trials and not is_idle(history, asked.patience):
        tried, missing = len(history), asked.trials - len(history)
        step = dataclasses.replace(
            asked, trials=min(missing, asked.patience or missing), seed=asked.seed + tried
        )
        TUNERS[asked.tuner].search(task, step, known)
        known = trials_in(asked.log, asked.tuner, str(target))
        history = of_task(known, task)
        if len(history) == tried:
            break  # nothing is left to try
    return {"trials": len(history) - before}


def is_idle(history: Sequence[Line], patience: int) -> bool:
    """Tell whether the last trials, as many as `patience`, gained nothing over those before."""
    if not patience or len(history) <= patience:
        return False
    seconds = [line.seconds or math.inf for line in history]
    return min(seconds) > _GAIN * min(seconds[:-patience])


def trials_in(log: str, tuner: str, target: str) -> list[Line]:
    """Return the trials for a target that a log has already; none where there is no log yet."""
    lines = read_log(log) if Path(log).exists() else []
    return [line for line in lines if (line.kind, line.target) == (tuner, target)]


def text_of(candidate: dict[str, Any]) -> str:
    """Return the JSON form of a candidate as text, by which its tasks are kept."""
    return json.dumps(candidate, sort_keys=True)


# A worker gets one candidate's tasks one after the other, and each perhaps several times.
@functools.lru_cache(maxsize=1)
def tasks_of(candidate: str, tuner: str) -> tuple[tvm.target.Target, list[TuningTask]]:
    """Return the target and the tasks of a candidate (the text of its JSON form)."""
    module = CandidateModule.from_json(json.loads(candidate))
    target = tvm.target.Target(module.target)
    with in_candidates_context(module):
        return target, TUNERS[tuner].tasks(module.instantiate(), target)


@contextlib.contextmanager
def in_candidates_context(module: CandidateModule) -> Iterator[None]:
    """Enter the PassContext that the candidate is built in."""
    context = context_from_json(module.build_options.get("pass_context", {}))
    with context, fast_passes(module.build_options.get("opt_level", 3)):
        yield
