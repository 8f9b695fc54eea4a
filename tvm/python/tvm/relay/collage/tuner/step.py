# SPDX-License-Identifier: Apache-2.0
"""What a worker does to tune: name a candidate's tasks, search a schedule for one of them.

Each kind's searcher is TVM's own; kernels are built and run in the worker itself, which is
expendable: should one crash or hang, the log keeps the trials before. Test: tuner/test_search.py.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import tvm

from ..candidate.candidate import CandidateModule
from ..candidate.pass_context import context_from_json
from ..compile import fast_passes
from ..transfer.kernel import kernel_of
from ..tuning.logs import Line, read_log

# A gain of less than a hundredth is none.
_GAIN = 0.99


class Searcher(Protocol):
    """A kind's module: ansor_search, autotvm_search, metaschedule_search."""

    def tasks_of(self, mod: tvm.IRModule, target: tvm.target.Target) -> dict[str, tuple[str, Any]]:
        """Name for people and task by workload, of the kernels that are worth tuning."""

    def search(self, task: Any, trials: int, history: list[Line], log: str, **more: Any) -> None:
        """Try `trials` more schedules and append each trial to the log. `more` is `model`, the cost
        model (xgb, random), and `seed`."""


def list_tasks(candidate: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Workload and name of each task in a candidate (its JSON form), and the kernel of Ansor's."""
    _, tasks = _tasks(_text(candidate), kind)
    return [
        {
            "workload": workload,
            "name": name,
            "kernel": kernel_of(task, name).to_json() if kind == "ansor" else None,
        }
        for workload, (name, task) in tasks.items()
    ]


def tune_task(
    candidate: dict[str, Any],
    kind: str,
    workload: str,
    trials: int,
    log: str,
    model: str,
    seed: int,
    patience: int = 0,
) -> dict[str, Any]:
    """Search for the workload until the log has `trials` trials of it, or so many as `patience`
    that gained nothing (0: however many); returns how many were new.

    LookupError when the candidate has no such task.
    """
    target, tasks = _tasks(_text(candidate), kind)
    if workload not in tasks:
        raise LookupError(f"the candidate has no {kind} task {workload:.80}")
    history = trials_in(log, kind, workload, str(target))
    before = len(history)
    while len(history) < trials and not is_idle(history, patience):
        missing, known = trials - len(history), len(history)
        _searcher(kind).search(
            tasks[workload][1],
            min(missing, patience or missing),
            history,
            log,
            model=model,
            seed=seed + known,
        )
        history = trials_in(log, kind, workload, str(target))
        if len(history) == known:
            break  # nothing is left to try
    return {"trials": len(history) - before}


def is_idle(history: Sequence[Line], patience: int) -> bool:
    """Whether the last trials, as many as `patience`, gained nothing over those before."""
    if not patience or len(history) <= patience:
        return False
    seconds = [line.seconds or math.inf for line in history]
    return min(seconds) > _GAIN * min(seconds[:-patience])


def trials_in(log: str, kind: str, workload: str, target: str) -> list[Line]:
    """The trials of a workload that a log has already; none where there is no log yet."""
    lines = read_log(log) if Path(log).exists() else []
    return [line for line in lines if line[:3] == (kind, workload, target)]


def _searcher(kind: str) -> Searcher:
    return importlib.import_module(f".{kind}_search", __package__)


def _text(candidate: dict[str, Any]) -> str:
    return json.dumps(candidate, sort_keys=True)


# A worker gets one candidate's tasks one after the other, and each perhaps several times.
@functools.lru_cache(maxsize=1)
def _tasks(candidate: str, kind: str) -> tuple[tvm.target.Target, dict[str, Any]]:
    module = CandidateModule.from_json(json.loads(candidate))
    target = tvm.target.Target(module.target)
    with in_candidates_context(module):
        return target, _searcher(kind).tasks_of(module.instantiate(), target)


@contextlib.contextmanager
def in_candidates_context(module: CandidateModule) -> Iterator[None]:
    """The PassContext that the candidate is built in."""
    context = context_from_json(module.build_options.get("pass_context", {}))
    with context, fast_passes(module.build_options.get("opt_level", 3)):
        yield
