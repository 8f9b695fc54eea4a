# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule: the records of its databases, its tasks and its evolutionary search.

TVM alone can write a database's rows, and only to files: they go through a folder that is removed.
Precondition: module_equality is "structural", its default; a database does not tell what it has.
Tests: tuning/test_records.py, tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import meta_schedule as ms
from tvm.meta_schedule.builder import BuilderInput, BuilderResult
from tvm.meta_schedule.database import Database, JSONDatabase
from tvm.meta_schedule.runner import RunnerFuture, RunnerInput
from tvm.meta_schedule.runner.local_runner import LocalRunnerFuture
from tvm.meta_schedule.utils import derived_object

from ..files.text import append_line, parse_json
from .trial import Argument, build_kernel, timed
from .tuner import (
    CannotTravel,
    Context,
    Line,
    Record,
    SearchOptions,
    Tuner,
    TuningTask,
    learning,
    of_task,
)

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
# What MetaSchedule writes for a trial that failed is more.
_FAILED_SECONDS = 1e9
# Trials that are chosen at once, by one fit of the cost model.
_ROUND = 16
# That the cost model of a search begins with.
KEPT_TRIALS = 2000
_TEMPORARY = "collage-tuning-"


class MetaSchedule(Tuner):
    """Searches schedules of fused kernels by evolution, guided by a cost model."""

    name = "metaschedule"
    config = {"relay.backend.use_meta_schedule": True, "relay.backend.tir_converter": "default"}

    def is_enabled(self) -> bool:
        return bool(ms.is_meta_schedule_enabled())

    def cannot_build(self) -> bool:
        """Tell that builds fail without a database, be it an empty one."""
        return self.is_enabled() and Database.current() is None

    def contexts(self) -> Sequence[Context]:
        database = Database.current()
        return [] if database is None else [database]

    def records_in(self, contexts: Sequence[Context], target: tvm.target.Target) -> list[Record]:
        """Return the innermost database's best record of each workload, of any target."""
        if not contexts:
            return []
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
            try:
                contexts[0].dump_pruned(JSONDatabase(work_dir=folder))
            except tvm.TVMError as error:
                name = type(contexts[0]).__name__
                raise CannotTravel(f"the MetaSchedule database, a {name},") from error
            return [_record(text) for text in read_pairs(Path(folder))]

    @contextlib.contextmanager
    def using(self, lines: Sequence[str]) -> Iterator[Context]:
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
            _write_pairs(Path(folder), lines)
            database = JSONDatabase(work_dir=folder, allow_missing=False)
        with database:
            yield database

    def line_of(self, row: object, text: str) -> Line | None:
        if not (isinstance(row, list) and len(row) == 2 and isinstance(row[1], list)):
            return None
        [workload, *_], [_, costs, target, *_] = row
        is_timed = bool(costs) and max(costs) < _FAILED_SECONDS
        seconds = sum(costs) / len(costs) if is_timed else None
        target = str(tvm.target.Target(target))
        return Line(self.name, workload, target, seconds=seconds, text=text, origin=self.name)

    def tasks(self, mod: tvm.IRModule, target: tvm.target.Target) -> list[TuningTask]:
        """Return the fused kernels that reduce something."""
        tasks = []
        for task in ms.relay_integration.extract_tasks(mod, target, {}):
            kernel = task.dispatched[0]
            if any(map(_reduces, kernel.functions.values())):
                workload = str(ms.database.Workload(kernel).as_json()[0])
                tasks.append(TuningTask(workload, str(task.task_name), (kernel, target)))
        return tasks

    def search(self, task: TuningTask, options: SearchOptions, known: Sequence[Line]) -> None:
        """Do what Tuner.search says; the log grows with each round of trials."""
        kernel, target = task.work
        log, trials, history = options.log, options.trials, of_task(known, task)
        cores = int(target.attrs.get("num-cores", 0)) or len(os.sched_getaffinity(0))
        context = ms.TuneContext(
            mod=kernel,
            target=target,
            space_generator="post-order-apply",
            search_strategy=_strategy(trials),
            task_name="task",
            rand_state=options.seed + 1,
            num_threads=cores,
        ).clone()
        learns = options.model == "xgb"
        model = kept_model(log) if learns else options.model
        modules: list[tvm.IRModule] = []
        logged = len(history)
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
            _write_pairs(Path(folder), [line.text for line in history])

            def append() -> None:
                nonlocal logged
                pairs = read_pairs(Path(folder))
                for pair in pairs[logged:]:
                    append_line(log, pair)
                logged = len(pairs)

            ms.tune.tune_tasks(
                tasks=[context],
                task_weights=[1.0],
                work_dir=folder,
                max_trials_global=trials,
                num_trials_per_iter=min(trials, _ROUND),
                builder=_KeepBuilder(modules),
                runner=KeptRunner(target, modules),
                database=JSONDatabase(work_dir=folder),
                cost_model=model,
                measure_callbacks=[
                    ms.measure_callback.AddToDatabase(),
                    ms.measure_callback.UpdateCostModel(),
                    _AfterRound(append),
                    *([_AfterRound(functools.partial(keep, model, log))] if learns else []),
                ],
            )


def read_pairs(folder: Path) -> list[str]:
    """Return a database's rows, each as a JSON list of its workload's row and its own."""
    workloads = (folder / WORKLOADS).read_text(encoding="utf-8").splitlines()
    pairs = []
    for text in (folder / RECORDS).read_text(encoding="utf-8").splitlines():
        try:
            index, row = parse_json(text)
            pairs.append(json.dumps([parse_json(workloads[index]), row]))
        except (ValueError, IndexError):
            pairs.append(text)  # cut off, or its workload was: no pair
    return pairs


def _write_pairs(folder: Path, lines: Sequence[str]) -> None:
    """Undo read_pairs."""
    pairs = [json.loads(line) for line in lines]
    workloads = list(dict.fromkeys(json.dumps(workload) for workload, _ in pairs))
    index = {workload: i for i, workload in enumerate(workloads)}
    rows = [json.dumps([index[json.dumps(workload)], row]) for workload, row in pairs]
    for name, texts in ((WORKLOADS, workloads), (RECORDS, rows)):
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _record(text: str) -> Record:
    workload, (trace, _, _, arguments) = json.loads(text)
    # Not the text: TVM writes an equal module in several ways.
    identity = json.dumps([workload[0], trace])
    tensors = [argument for argument in arguments if argument[0] == "TENSOR"]
    sizes = frozenset(math.prod(tensor[2]) for tensor in tensors[-1:])
    return Record(MetaSchedule.name, text, identity, sizes=sizes)


def _reduces(function: tvm.tir.PrimFunc) -> bool:
    nodes: list[Any] = []
    tvm.tir.stmt_functor.post_order_visit(function.body, nodes.append)
    return any(isinstance(node, tvm.tir.Block) and node.init is not None for node in nodes)


def _strategy(trials: int) -> ms.SearchStrategy:
    """Return random samples where there is but one round; else a population in proportion to the
    trials, TVM's own from 64 trials on."""
    if trials < _ROUND:
        return ms.search_strategy.ReplayTrace()
    return ms.search_strategy.EvolutionarySearch(
        population_size=min(512, 8 * trials),
        init_min_unmeasured=min(50, trials),
    )


def kept_model(log: str) -> ms.cost_model.XGBModel:
    """Return TVM's cost model with what it learnt in earlier searches, of other nets too."""
    model, kept = ms.cost_model.XGBModel(num_warmup_samples=_ROUND), _model_path(log)
    if os.path.exists(kept):
        with learning(f"in {kept} is forgotten"):
            model.load(kept)
            # Here and not as it is written: a model whose data do not grow is fitted no more.
            while model.data_size > KEPT_TRIALS and len(model.data) > 1:
                _, oldest = model.data.popitem(last=False)
                model.data_size -= len(oldest.costs)
            return model
    return ms.cost_model.XGBModel(num_warmup_samples=_ROUND)


def _model_path(log: str) -> str:
    return f"{log}.learnt.tar"


def keep(model: ms.cost_model.XGBModel, log: str) -> None:
    """Write what the model learnt from beside the log."""
    if model.booster is None:
        return
    kept = _model_path(log)
    temporary = f"{kept}.{os.getpid()}.tar"
    with learning(f"cannot be kept in {kept}", "; make room there"):
        try:
            model.save(temporary)
            os.replace(temporary, kept)
        finally:
            Path(temporary).unlink(missing_ok=True)


@derived_object
class _AfterRound(ms.measure_callback.PyMeasureCallback):
    """Does something at the end of each round: the search may be killed in the next."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def apply(self, *_: Any) -> None:
        self._action()


@derived_object
class _KeepBuilder(ms.builder.PyBuilder):
    """Keeps the modules, which the runner builds: nothing need go through a file."""

    def __init__(self, modules: list[tvm.IRModule]) -> None:
        super().__init__()
        self._modules = modules

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        self._modules[:] = [entry.mod for entry in build_inputs]
        return [BuilderResult(str(index), None) for index in range(len(self._modules))]


@derived_object
class KeptRunner(ms.runner.PyRunner):
    """Builds and times what the builder kept, in this process."""

    def __init__(self, target: tvm.target.Target, modules: Sequence[tvm.IRModule]) -> None:
        super().__init__()
        self._target, self._modules = target, modules

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [self.trial(entry) for entry in runner_inputs]

    def trial(self, entry: RunnerInput) -> RunnerFuture:
        """Make one trial."""
        found = timed(functools.partial(self._build, entry))
        if found.error:
            return LocalRunnerFuture(error_message=str(found.error)[-300:])
        return LocalRunnerFuture(res=found.costs)

    def _build(self, entry: RunnerInput) -> tuple[tvm.runtime.Module, Sequence[Argument]]:
        arguments = [(list(map(int, info.shape)), str(info.dtype)) for info in entry.args_info]
        # Weights arrive in the layout that the schedule wants, as in a build.
        packed = tvm.tir.transform.RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=True)
        return build_kernel(
            self._target, packed(self._modules[int(entry.artifact_path)])
        ), arguments
