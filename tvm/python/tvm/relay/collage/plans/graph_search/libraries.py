# SPDX-License-Identifier: Apache-2.0
"""Builds and measurements of whole plans end to end, the same for the guard and for the search.

Test: plans/graph_search/test_guard.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tvm

from ...candidate.inputs import describe_inputs, random_tensor
from ...compile.executors import GRAPH, VM, exportable, has_several_ways
from ...compile.module_check import open_inputs, shapes_text
from ...costs.cost import Cost, CostStatus
from ...errors import MachineError
from ...estimators.session import default_workers
from ...exec.arrays import save_arrays, sets_of
from ...exec.forks import run_in_forks, run_side_by_side
from ...exec.launch import make_scratch
from ...exec.machine_fault import blaming_the_compiler, machine_errors
from ...exec.pool import SpareWorkers, WorkersAhead
from ...exec.process import WorkerOptions
from ...exec.reply import Reply, Unsupported
from ...exec.spent import phase
from ...exec.time_limit import BUILT, FIRST_ANSWER, NO_LIMIT, TimeLimit
from ...machine.compiler import require_compiler
from ...measure.outputs.tolerance import output_tolerance
from ...measure.profiler.plan_kernels import PlanKernel, recorded_kernels
from ...measure.race.comparison import Comparison, RightOutputs, compared
from ...measure.race.library_contestant import library_contestant
from ...measure.race.race import Contestant, RaceOptions
from ...messages.foreign import describe, last_line
from ...messages.progress import OnStep, untold
from ...process_wide.interrupts import interrupts_kept
from ...relay_util.walk import operator_calls
from .shared_weights import SharedWeights, files_of

# A run goes one way of several that a model has, as its inputs say: so many sets of made-up inputs
# are run, and what counts is their mean. That assumes that made-up inputs go each way about as
# often as real ones; a way that none of them goes is neither timed nor compared.
SETS = 4


class GuardUnavailable(Exception):
    """The model cannot be measured end to end, whatever its plan; the message says why. `failed`:
    plans that ran and are known to be wrong, or to fail."""

    def __init__(self, message: str, failed: Collection[str] = ()) -> None:
        super().__init__(message)
        self.failed = failed


class _NotMadeError(Exception):
    """A plan has no library, or this no file; the message says why."""


class Inputs(NamedTuple):
    """Arrays by name; how many sets of them are stacked there (0: one, which is not), and whether
    any of them is made up."""

    arrays: Mapping[str, np.ndarray]
    sets: int
    has_made_up: bool

    def rows(self) -> list[dict[str, np.ndarray]]:
        """Return each set by itself."""
        return sets_of(self.arrays, self.sets)


class Linked(NamedTuple):
    """A plan's library as a file; `weights` says where its weights are if they are elsewhere."""

    library: str
    weights: str = ""
    # PlanKernels as JSON, in the order of the executor; none where nobody recorded them
    kernels: Sequence[dict[str, Any]] = ()

    def size(self) -> int:
        """Return the bytes of its files."""
        return os.path.getsize(self.library) + sum(map(os.path.getsize, files_of(self.weights)))


class Truth(NamedTuple):
    """Right outputs on these inputs."""

    inputs: Inputs
    outputs: Sequence[np.ndarray]  # those of all sets, one set after the other
    # how far others may be off where rounding alone takes them further than types say
    tolerance: float = 0.0
    # whether the import is known to give them, and its 64 bits may judge, too
    is_of_import: bool = True


Comparer = Callable[[Sequence[Contestant], RightOutputs, RaceOptions], list[Comparison]]


def _none_at_hand(module: tvm.IRModule) -> Linked | None:
    """Return None: no file of an equal plan is at hand."""
    return None


@dataclasses.dataclass(frozen=True)
class EndToEnd:
    """The way in which the whole plans of a module are built and measured."""

    # module -> library, of the executor that is named, of a model ``mod_name``
    build: Callable[[tvm.IRModule], Any]
    # inputs by name; the others are made up with ``seed``
    samples: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    seed: int = 0
    # of the outputs of plans with parts of backends that trade accuracy
    accuracy_budget: float = 0.0
    imports: Sequence[str] = ()  # modules that the processes import
    mod_name: str = "default"
    compiler: str = ""  # links the libraries, where the host's does not do
    # measures them, as `compared` does, which is the default
    comparer: Comparer | None = None
    is_here: bool = False  # whether they are measured on this machine
    # whether a plan's file tells which operators its kernels compute: then the modules are of one
    # that was stamped (relay_util/node_spans.py)
    records_kernels: bool = False
    # module -> a library of the same code as it is deployed, where those of ``build`` are for files
    # alone
    ship: Callable[[tvm.IRModule], Any] | None = None
    executor: str = GRAPH
    # plan -> shows, around a block, that a plan is built after all
    telling: Callable[[str], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    on_step: OnStep = untold  # told of each plan to build and of each round
    # where it is set a fork builds the guard's plans, so that one that hangs or crashes does not
    # take the others along, and rounds end in time
    limit: TimeLimit = NO_LIMIT
    truth: Truth | None = None  # what the outputs are to be, and on which inputs
    # inputs -> outputs that were computed with 64 bits, or None; asked where outputs differ
    exact: Callable[[Inputs], Sequence[np.ndarray] | None] | None = None
    # where the weights of all plans go, which are in each file otherwise
    weights: SharedWeights | None = None
    # module -> the file of an equal one that was built in the same way before, None for none
    at_hand: Callable[[tvm.IRModule], Linked | None] = _none_at_hand
    # plans that an earlier race found too slow to ship, as they are told of: they are not raced
    far_behind: Mapping[str, Comparison] = dataclasses.field(default_factory=dict)

    def inputs_of(self, reference: tvm.IRModule) -> Inputs:
        """Return the inputs of a plan. GuardUnavailable when they cannot be made up."""
        has_made_up = any(p.name_hint not in self.samples for p in reference["main"].params)
        has_ways = self.executor == VM and has_several_ways(reference)
        sets = SETS if has_ways and has_made_up else 0
        return Inputs(make_inputs(reference, self.seed, self.samples, sets=sets), sets, has_made_up)

    def tolerance(self, reference: tvm.IRModule) -> float:
        """Return how far off the right ones outputs of a plan may be."""
        return max(output_tolerance(reference), self.truth.tolerance if self.truth else 0.0)

    @property
    def _imports_of_workers(self) -> Sequence[str]:
        """Return what processes import as they start, all at the same time; what opens a library
        would import TVM as well, but then one process after the other."""
        return (*self.imports, library_contestant.__module__)

    @property
    def trusts_import(self) -> bool:
        """Tell whether the import, and its 64 bits, may say what is right."""
        return self.truth is None or self.truth.is_of_import

    @contextlib.contextmanager
    def opened(self, reference: tvm.IRModule) -> Iterator[Scratch]:
        """Open files for the block, with the inputs of a plan. GuardUnavailable when inputs cannot
        be made up; MachineError without a C++ compiler or without room for temporary files."""
        inputs = self.truth.inputs if self.truth else self.inputs_of(reference)
        if not self.compiler:
            require_compiler()
        with make_scratch() as folder:
            file, truth = os.path.join(folder, "inputs.npz"), ""
            with machine_errors("the inputs of whole plans cannot be written"):
                save_arrays(file, inputs.arrays)
                if self.truth:
                    truth = os.path.join(folder, "truth.npz")
                    save_arrays(truth, {f"output_{i}": a for i, a in enumerate(self.truth.outputs)})
            exact = None
            if self.exact and self.trusts_import:
                exact = functools.cache(functools.partial(self.exact, inputs))
            yield Scratch(
                folder, file, inputs.has_made_up, sets=inputs.sets, truth=truth, exact=exact
            )

    @contextlib.contextmanager
    def workers_ahead(self, count: int) -> Iterator[SpareWorkers | None]:
        """Start so many processes for `compare` while the block builds; None where others start
        them."""
        if not self.is_here:
            yield None
            return
        workers = WorkersAhead()
        with workers:
            workers.start(WorkerOptions(self._imports_of_workers), count)
            yield workers

    def make_files(
        self,
        plans: Mapping[str, tvm.IRModule],
        folder: str,
        on_plan: Callable[[str, int], None] = lambda name, done: None,
        *,
        may_fork: bool = True,
    ) -> tuple[dict[str, Linked], list[Comparison], dict[str, Any]]:
        """Make files by plan, a failed comparison for each plan that has none, and the libraries,
        None for one that a fork has built, or that is at hand as a file.

        may_fork: not where what this process keeps serves further builds.
        """
        found = {name: self.at_hand(module) for name, module in plans.items()}
        files = {name: file for name, file in found.items() if file is not None}
        missing = {name: module for name, module in plans.items() if name not in files}
        is_for_files = self.ship is not None and len(missing) > 1
        if may_fork and (self.limit.is_set or is_for_files):
            order = by_operators(missing)
            tasks = self._tasks({name: missing[name] for name in order}, folder)

            def seconds(left: int) -> float:
                # What a plan leaves of its share of the time is for those behind it.
                return self.limit.left(BUILT) / left

            if self.limit.is_set:
                made, failures = _made(run_in_forks(tasks, seconds, on_plan))
            else:
                made, failures = _made(run_side_by_side(tasks, default_workers(), on_task=on_plan))
            return files | made, failures, dict.fromkeys(files | made)
        failures, libraries = [], dict.fromkeys(files)
        for index, (name, module) in enumerate(missing.items()):
            on_plan(name, index)
            file = os.path.join(folder, f"plan_{index}.so")
            try:
                library, kernels = self._library_of(name, module)
                linked = self._linked(name, library, file)
                files[name] = linked._replace(kernels=kernels)
                libraries[name] = library
            except _NotMadeError as error:
                cost = Cost.failed(CostStatus.COMPILE_FAILED, str(error))
                failures.append(Comparison(name, cost))
        return files, failures, libraries

    def _library_of(self, name: str, module: tvm.IRModule) -> tuple[Any, list[dict[str, Any]]]:
        """Build a plan's library; return it and its kernels, none where they are not recorded.
        _NotMadeError for one that does not build, which loses, no more."""
        recorded: contextlib.AbstractContextManager[list[PlanKernel]]
        recorded = recorded_kernels(module) if self.records_kernels else contextlib.nullcontext([])
        try:
            with (
                machine_errors(f"plan {name} cannot be built"),
                phase("build"),
                interrupts_kept(),
                recorded as kernels,
            ):
                return self.build(module), [dataclasses.asdict(each) for each in kernels]
        except (MemoryError, MachineError):
            raise
        except Exception as error:
            raise _NotMadeError(last_line(error)) from error

    def _linked(self, name: str, built: Any, file: str) -> Linked:
        """Link a library's file; _NotMadeError for one that cannot be linked."""
        library, options = exportable(built), {"cc": self.compiler} if self.compiler else {}
        try:
            with (
                machine_errors(f"plan {name} cannot be linked"),
                blaming_the_compiler(self.compiler),
                phase("build"),
            ):
                if self.weights is not None:
                    return Linked(file, self.weights.export(library, file, **options))
                library.export_library(file, **options)
                return Linked(file)
        except MachineError:
            raise
        except Exception as error:
            raise _NotMadeError(describe(error)) from error

    def make_side_by_side(
        self,
        plans: Mapping[str, tvm.IRModule],
        folder: str,
        on_plan: Callable[[str, int], None],
        *,
        at_once: int,
        patience: float,
        unawaited: Collection[str],
    ) -> tuple[dict[str, Linked], list[Comparison]]:
        """Make files by plan in so many forks at once, and a failed comparison for each plan that
        has none. A plan that nobody waits for, as run_side_by_side has it, has neither."""
        order = sorted(by_operators(plans), key=lambda name: name in unawaited)
        tasks = self._tasks({name: plans[name] for name in order}, folder)
        replies = run_side_by_side(
            tasks,
            at_once,
            seconds=self.limit.left(FIRST_ANSWER),
            patience=patience,
            unawaited=unawaited,
            on_task=on_plan,
        )
        return _made(replies)

    def _tasks(
        self, plans: Mapping[str, tvm.IRModule], folder: str
    ) -> dict[str, Callable[[], dict[str, Any]]]:
        """Return tasks for forks that make a plan each."""

        def make(name: str, place: str) -> dict[str, Any]:
            os.mkdir(place)
            here = dataclasses.replace(self, limit=NO_LIMIT)
            files, failures, _ = here.make_files({name: plans[name]}, place)
            return {
                "files": list(files.values()),
                "failures": [item.cost.to_json() for item in failures],
            }

        return {
            name: functools.partial(make, name, os.path.join(folder, f"plan_{index}"))
            for index, name in enumerate(plans)
        }

    def compare(
        self,
        files: Mapping[str, Linked],
        scratch: Scratch,
        references: Sequence[str],
        limits: Mapping[str, float],
        options: RaceOptions,
        *,
        trusted: str,
    ) -> list[Comparison]:
        """Compare these libraries on the inputs there, by `limits` of their errors; seed, imports
        and what is left of the time are its own. `trusted`: as RightOutputs has it."""
        contestants = [
            Contestant.of_library(
                name,
                file.library,
                scratch.inputs,
                mod_name=self.mod_name,
                weights=file.weights,
                sets=scratch.sets,
            )
            for name, file in files.items()
        ]
        options = dataclasses.replace(options, seed=self.seed, imports=self._imports_of_workers)
        if self.limit.is_set:
            seconds = min(options.seconds, max(0.0, self.limit.left()))
            options = dataclasses.replace(options, seconds=seconds)
        right = RightOutputs(
            references=references,
            trusted=trusted,
            rtol=limits,
            truth=scratch.truth,
            exact=scratch.exact,
        )
        return (self.comparer or compared)(contestants, right, options)


def by_operators(plans: Mapping[str, tvm.IRModule]) -> list[str]:
    """Return the names of plans in the order of building: the less TVM has to compile the sooner,
    so that what is quick does not wait for what is not."""
    return sorted(plans, key=lambda name: len(operator_calls(plans[name]["main"])))


def _made(replies: Mapping[str, Reply]) -> tuple[dict[str, Linked], list[Comparison]]:
    """Return the files that forks made, by plan, and the failures of others. MachineError where
    the machine is at fault."""
    files, failures = {}, []
    for name, reply in replies.items():
        if reply.type == MachineError.__name__:
            raise MachineError(reply.message)
        costs = [Cost.failed(CostStatus.COMPILE_FAILED, reply.message)]
        if reply.outcome == "ok":
            costs = [Cost.from_json(fields) for fields in reply.value["failures"]]
            for file in reply.value["files"]:
                files[name] = Linked(*file)
        failures += [Comparison(name, cost) for cost in costs]
    return files, failures


@dataclasses.dataclass(frozen=True)
class Scratch:
    """The files of one comparison."""

    folder: str  # for libraries
    inputs: str  # a file of them
    has_made_up: bool  # whether any input is made up
    sets: int = 0  # of inputs that are stacked there; 0: one, which is not
    truth: str = ""  # a file of right outputs, "" where nobody knows them
    exact: Callable[[], Sequence[np.ndarray] | None] | None = None  # computes outputs with 64 bits


def make_inputs(
    mod: tvm.IRModule, seed: int, samples: Mapping[str, np.ndarray], sets: int = 0
) -> dict[str, np.ndarray]:
    """Make inputs of the module's main by name: the samples, and normal random ones for the others;
    or so many sets of them, stacked. GuardUnavailable where there can be none."""
    generator = np.random.default_rng(seed)
    try:
        rows = describe_inputs(mod, samples)
    except Unsupported as error:
        shapes = {n: s for n, s in open_inputs(mod).items() if n not in samples}
        reason = str(error)
        if shapes:
            reason = (
                f"inputs with open dimensions ({shapes_text(shapes)}) cannot be made up: give such "
                "inputs by the option sample_inputs, or fix their shapes"
            )
        raise GuardUnavailable(reason) from error

    def one_set() -> dict[str, np.ndarray]:
        return {row["name"]: random_tensor(row, generator) for row in rows}

    if not sets:
        return {**one_set(), **samples}
    made = [{**one_set(), **samples} for _ in range(sets)]
    return {name: np.stack([each[name] for each in made]) for name in made[0]}
