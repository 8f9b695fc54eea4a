# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's evolutionary search. Test: tuner/test_search.py."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import tvm
from tvm import meta_schedule as ms
from tvm.meta_schedule.builder import BuilderResult
from tvm.meta_schedule.runner.local_runner import LocalRunnerFuture
from tvm.meta_schedule.utils import derived_object

from ..exec.machine_fault import fault_of, kills_for_memory
from ..process_wide.logs import warn_once
from ..tuning.logs import Line, append_line
from ..tuning.metaschedule_records import read_pairs, write_pairs
from .trial import build_kernel, seconds_of_kernel

_logger = logging.getLogger(__name__)
# Trials that are chosen at once, by one fit of the cost model.
_ROUND = 16
# That the cost model of a search begins with.
KEPT_TRIALS = 2000


def tasks_of(mod: tvm.IRModule, target: tvm.target.Target) -> dict[str, tuple[str, Any]]:
    """See step.Searcher. A task is a fused kernel that reduces something."""
    tasks = {}
    for task in ms.relay_integration.extract_tasks(mod, target, {}):
        kernel = task.dispatched[0]
        if any(_reduces(function) for function in kernel.functions.values()):
            workload = str(ms.database.Workload(kernel).as_json()[0])
            tasks[workload] = (str(task.task_name), (kernel, target))
    return tasks


def search(task: Any, trials: int, history: list[Line], log: str, *, model: str, seed: int) -> None:
    """See step.Searcher. The log grows with each round of trials."""
    kernel, target = task
    cores = int(target.attrs.get("num-cores", 0)) or len(os.sched_getaffinity(0))
    context = ms.TuneContext(
        mod=kernel,
        target=target,
        space_generator="post-order-apply",
        search_strategy=_strategy(trials),
        task_name="task",
        rand_state=seed + 1,
        num_threads=cores,
    ).clone()
    cost_model = _kept_model(log) if model == "xgb" else model
    with tempfile.TemporaryDirectory(prefix="collage-tuning-") as folder:
        write_pairs(Path(folder), [line.text for line in history])
        ms.tune.tune_tasks(
            tasks=[context],
            task_weights=[1.0],
            work_dir=folder,
            max_trials_global=trials,
            num_trials_per_iter=min(trials, _ROUND),
            builder=_KeepBuilder(),
            runner=_Runner(target),
            database=ms.database.JSONDatabase(work_dir=folder),
            cost_model=cost_model,
            measure_callbacks=[
                ms.measure_callback.AddToDatabase(),
                ms.measure_callback.UpdateCostModel(),
                _Append(Path(folder), log, len(history)),
                *([_KeepModel(cost_model, log)] if model == "xgb" else []),
            ],
        )


def _kept_model(log: str) -> Any:
    """TVM's cost model with what it learnt in earlier searches, of other tasks and nets too."""
    model, kept = ms.cost_model.XGBModel(num_warmup_samples=_ROUND), _model_path(log)
    if os.path.exists(kept):
        try:
            model.load(kept)
        except Exception as error:  # noqa: BLE001 - tar, numpy and xgboost raise kinds of their own
            _logger.warning("what was learnt in %s is forgotten: %s", kept, error)
            return ms.cost_model.XGBModel(num_warmup_samples=_ROUND)
    # Here and not as it is written: a model whose data do not grow is fitted no more.
    while model.data_size > KEPT_TRIALS and len(model.data) > 1:
        _, oldest = model.data.popitem(last=False)
        model.data_size -= len(oldest.costs)
    return model


def _keep(model: Any, log: str) -> None:
    """Write what the model learnt from beside the log. A warning where that cannot be: only time is
    lost."""
    if model.booster is None:
        return
    kept = _model_path(log)
    temporary = f"{kept}.{os.getpid()}.tar"
    try:
        model.save(temporary)
        os.replace(temporary, kept)
    except Exception as error:  # noqa: BLE001 - tar, numpy and xgboost raise kinds of their own
        warn_once(f"what was learnt cannot be kept in {kept}: {error}; make room there")
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _model_path(log: str) -> str:
    return f"{log}.learnt.tar"


def _strategy(trials: int) -> Any:
    """Random samples where there is but one round; else a population in proportion to the trials,
    TVM's own from 64 trials on."""
    if trials < _ROUND:
        return ms.search_strategy.ReplayTrace()
    return ms.search_strategy.EvolutionarySearch(
        population_size=min(512, 8 * trials),
        init_min_unmeasured=min(50, trials),
    )


def _reduces(function: tvm.tir.PrimFunc) -> bool:
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tir.Block) and node.init is not None:
            found.append(node)

    tvm.tir.stmt_functor.post_order_visit(function.body, visit)
    return bool(found)


@derived_object
class _KeepBuilder(ms.builder.PyBuilder):
    """Keeps the modules, which the runner builds: nothing need go through a file."""

    def build(self, build_inputs: Any) -> list[Any]:
        _waiting[:] = [entry.mod for entry in build_inputs]
        return [BuilderResult(str(index), None) for index in range(len(_waiting))]


# Modules between the builder and the runner of this process's one search.
_waiting: list[Any] = []


@derived_object
class _Runner(ms.runner.PyRunner):
    """Builds and times in this process."""

    def __init__(self, target: tvm.target.Target) -> None:
        super().__init__()
        self._target = target

    def run(self, runner_inputs: Any) -> list[Any]:
        return [self._measure(entry) for entry in runner_inputs]

    def _measure(self, entry: Any) -> Any:
        arguments = [(list(map(int, info.shape)), str(info.dtype)) for info in entry.args_info]
        kills_before = kills_for_memory()
        try:
            # Weights arrive in the layout that the schedule wants, as in a build.
            packed = tvm.tir.transform.RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=True)
            function = build_kernel(self._target, packed(_waiting[int(entry.artifact_path)]))
            return LocalRunnerFuture(res=seconds_of_kernel(function, arguments))
        except Exception as error:  # one bad schedule among many: data
            if fault_of(error, kills_before):
                raise
            return LocalRunnerFuture(error_message=str(error)[-300:])


@derived_object
class _Append(ms.measure_callback.PyMeasureCallback):
    """Adds what the database has got since the last round to the log."""

    def __init__(self, folder: Path, log: str, known: int) -> None:
        super().__init__()
        self._folder, self._log, self._known = folder, log, known

    def apply(self, *_: Any) -> None:
        pairs = read_pairs(self._folder)
        for pair in pairs[self._known :]:
            append_line(self._log, pair)
        self._known = len(pairs)


@derived_object
class _KeepModel(ms.measure_callback.PyMeasureCallback):
    """Keeps what the cost model has learnt by the end of a round: the search may be killed in the
    next."""

    def __init__(self, model: Any, log: str) -> None:
        super().__init__()
        self._model, self._log = model, log

    def apply(self, *_: Any) -> None:
        _keep(self._model, self._log)
