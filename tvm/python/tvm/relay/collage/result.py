# SPDX-License-Identifier: Apache-2.0
"""The decision of Collage for a module. Test: test_optimizer.py, report/test_tables.py."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm_collage.runner import Runner

from .backends import declared_colours, list_traders
from .compile.built import Built, tensors_of
from .costs.kernel import KernelChoice
from .errors import ExecutorError, MachineError, OptionError, UnknownPlanError
from .estimators.profiles import Profiles
from .files.attached import attach_report
from .files.records import read
from .files.text import check_file_path, write_whole
from .measure.race.comparison import compare_plans
from .options.named import option
from .plans.graph_search import GraphSearch, GuardResult
from .plans.names import TVM_ALONE, is_single
from .plans.original import Agreement
from .plans.placement import Placement, SeenPlans
from .plans.placement.seen import can_be_saved
from .report import (
    CostCounts,
    OriginalAgreement,
    PlanSearch,
    Report,
    ToldDecision,
    notebook_html,
    plot_history,
    to_dot,
)
from .report.elsewhere import faster_elsewhere
from .report.facts import Summary
from .report.looks import report_looks
from .report.make import graph_of, placement_of, searched_functions, step_of
from .report.precision import Precisions
from .report.record import FasterElsewhere, Trade
from .tuning import TuningRecords
from .views.function_report import FunctionReport


@dataclasses.dataclass(frozen=True, repr=False)
class Result(ToldDecision):
    """The decision of Collage for a module.

    mod: the module to build for `host`, parts of external backends as global functions.
    plan: the name of the plan that ships: "collage" (op-level optimum), "collage-merged" (its
        neighbouring parts joined), "collage-coarse" and "collage-coarser" (fewer parts, whose costs
        add up to little more), "collage-exact" (the optimum of the backends that do not trade
        accuracy), "graph-1" (the best of the search of whole plans, then "graph-2"), "tvm" or a
        backend's name; "collage-untuned" and "tvm-untuned" are those without the tuning records;
        "-one-thread" behind a name says that all of it runs on the calling thread.
    guard: what each plan did end to end; None when the guard was off or had nothing to compare.
    partitioned: one report a function of the op-level search (parts, costs, failures, limits).
    seconds: time spent by phase ("prepare", "partition", "guard"), in seconds.
    makers: what makes the placement of each plan that was seen, also of those that lost and of
        those that the search of whole plans tried; see `placement` and `placements`.
    guard_skipped: why nothing was measured end to end: a placement was replayed, an earlier compile
        has decided (its figures are record.decision, docs/store.md), or a guard that was on could
        not, e.g. for inputs with open dimensions; "" otherwise. Where it could not,
        the op-level optimum ships if the cost of each of its parts was measured, else TVM alone.
    ended_early: why the best plan of the first answer ships, as it was raced before the search:
        somebody interrupted the compile, or a limit left no time to compare others; "" otherwise.
    costs: how many costs came from where (MeasuredCostEstimator.counts); {} when none was needed.
    records: the tuning records, of the options `tuning_log` and `tune`, that what ships is built
        with: build `mod` yourself in `with result.records.in_force():`.
    transfers: how many schedules of other kernels (option transfer_log) came to what when TVM's
        kernels tried them, in this build or, as the log tells, in an earlier one; {} for none.
    profiles: of each backend alone, by which the search foresaw costs; None where it did not.
    kernels: by which kernels the steps of its parts run, and what the others took.
    search: what the search of whole plans tried (option graph_search); None without one.
    executor: by which TVM runs what ships: "graph", "aot" or "vm".
    original: how its outputs agree with those of the model's file; None where none was named.
    precision: which layers are in 8 bits, and what was measured for that choice; None without one
        (docs/precision.md).
    model: the ONNX ModelProto with these precisions, that `mod` is of; None without such a choice.
    make_built: builds what ships, or has what `relay.build` or `relay.vm.compile` built; None where
        that cannot run in this process.
    """

    mod: tvm.IRModule
    host: tvm.target.Target
    plan: str
    guard: GuardResult | None
    partitioned: list[FunctionReport]
    seconds: dict[str, float]
    guard_skipped: str = ""
    ended_early: str = ""
    makers: Mapping[str, Callable[[], Placement]] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )
    costs: dict[str, Any] = dataclasses.field(default_factory=dict)
    records: TuningRecords = dataclasses.field(default_factory=TuningRecords, compare=False)
    transfers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    profiles: Profiles | None = dataclasses.field(default=None, repr=False)
    kernels: tuple[KernelChoice, ...] = ()
    search: GraphSearch | None = None
    executor: str = "graph"
    original: Agreement | None = None
    precision: Precisions | None = None
    model: Any = dataclasses.field(default=None, repr=False)
    make_built: Callable[[], Built] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @functools.cached_property
    def placement(self) -> Placement:
        """Return the placement that ships. Saved to a file it gives the same module again without
        measuring. PlacementError says why there is none."""
        return self._make_placement(self.plan)

    @functools.cached_property
    def placements(self) -> SeenPlans:
        """Return the placement of every plan that was seen and that a file can hold."""
        found = {name: self._make_placement(name) for name in self.makers}
        return SeenPlans.of({name: made for name, made in found.items() if can_be_saved(made)})

    def save_placement(self, path: str | os.PathLike, plan: str | None = None) -> None:
        """Write the placement of what ships, or of another plan that was seen, to a file
        (docs/placement.md)."""
        made = self.placement if plan is None else self._make_placement(plan)
        made.save(path)

    def _make_placement(self, plan: str) -> Placement:
        if plan not in self.makers:
            known = ", ".join(self.makers) or "none"
            raise UnknownPlanError(f"plan {plan!r} has no placement: these have one: {known}")
        return self.makers[plan]()

    def save_model(self, path: str | os.PathLike) -> None:
        """Write `model`, ONNX with its precisions, to a file: whoever replays the placement
        compiles that one. OptionError where no precisions were chosen, or for the path."""
        path = os.fspath(path)
        if self.model is None:
            raise OptionError(
                "there is no model to save: no precisions were chosen, which takes "
                + option("calibration")
            )
        check_file_path(path, "the model")
        write_whole(path, self.model.SerializeToString())

    def save_tuning_log(self, path: str | os.PathLike) -> None:
        """Write `records` to a file for the option `tuning_log`, at once or not at all. OSError."""
        write_whole(os.fspath(path), "".join(f"{record.text}\n" for record in self.records))

    @property
    def library(self) -> Any:
        """The executor's library of the guard's plan; None without a guard. Where the plans shared
        their kernels (docs/choosing.md) it is built once more."""
        return self.guard.libraries[self.plan] if self.guard else None

    @functools.cached_property
    def _built(self) -> Built:
        if self.make_built is None:
            raise ExecutorError(
                "a library for another runtime than cpp has no runner: build it without the "
                "argument `runtime`"
            )
        return self.make_built()

    def build(self) -> None:
        """Build what ships where no guard has, as `runner` and `save_library` do otherwise. Errors
        are those of `runner`."""
        self._built  # noqa: B018 - it is kept

    def runner(self) -> Runner:
        """Return what ships as a fast function of arrays by name (docs/deploy.md), with memory of
        its own.

        Builds `mod` where `optimize` decided and no guard has built it. ExecutorError for a library
        of another runtime, ModuleError for a VM's function without fixed shapes.
        """
        return self._built.runner()

    def save_library(self, path: str | os.PathLike) -> None:
        """Write the library of what ships to a file (.so) that carries its report: `collage.load`
        reads both, and the file goes wherever a library of TVM's does. OptionError for the path,
        MachineError where it cannot be linked or written."""
        path = os.fspath(path)
        check_file_path(path, "the library")
        module = self._built.module
        # The ending tells TVM what to write.
        temporary = f"{path}.{os.getpid()}.so"
        try:
            module.export_library(temporary)
            attach_report(temporary, self.report)
            os.replace(temporary, path)
        except (OSError, RuntimeError) as error:  # a full disk, a linker's
            why = " ".join(str(error).split())[:300]
            raise MachineError(f"library {path!r} cannot be written: {why}") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """Return what to_json gives, made once, since it takes long: to read alone."""
        return self.record.to_json()

    def to_json(self) -> dict[str, Any]:
        """Plan, measurements, parts, the graph with all that was known of each node, and the
        placements of all plans, as JSON values (docs/report.schema.json); times in seconds."""
        return self.record.to_json()

    @functools.cached_property
    def record(self) -> Report:
        """The same as a record, made once. Beside what is told in short: the graph of each
        function, in which TVM goes by "tvm", the tensors of main, which of a VM's library nothing
        else tells, what backends declare, and the placements of every plan that was seen."""
        short = self._told(is_full=False)
        functions = tuple(
            dataclasses.replace(row, graph=graph_of(function.graph, self.host.kind.name))
            for row, function in zip(short.functions, self.partitioned, strict=True)
        )
        return dataclasses.replace(
            short,
            functions=functions,
            tensors=tensors_of(self.mod),
            colours=declared_colours(),
            trades=tuple(
                Trade(each.name, each.trades_accuracy, tuple(sorted(each.traded_ops or ())))
                for each in list_traders()
            ),
            placements=self.placements,
        )

    def _told(self, is_full: bool = True) -> Report:
        """Return the record, or, unless it was made, all of it but graphs and placements, which
        take long."""
        if is_full or "record" in vars(self):
            return self.record
        comparisons = self.guard.comparisons if self.guard else []
        singles = [item.name for item in comparisons if is_single(item.name)]
        plans = compare_plans(comparisons, singles, self.plan)
        found = self.original
        report = Report(
            summary="",
            plan=self.plan,
            host=str(self.host),
            executor=self.executor,
            guard_skipped=self.guard_skipped,
            ended_early=self.ended_early,
            unverified=self.guard.unverified if self.guard else "",
            original=OriginalAgreement(**vars(found), summary=found.Summary()) if found else None,
            plans=plans,
            placement=placement_of(self.mod, TVM_ALONE),
            functions=searched_functions(self.partitioned, self.host.kind.name, plans),
            elsewhere=self._elsewhere(),
            seconds=dict(self.seconds),
            costs=CostCounts(**self.costs),
            kernels=tuple(map(step_of, self.kernels)),
            schedules=self.records.origins(),
            transfers=dict(self.transfers),
            graph_search=read(PlanSearch, self.search.to_json()) if self.search else None,
            precision=self.precision,
        )
        return dataclasses.replace(report, summary=Summary(report))

    def _elsewhere(self) -> tuple[FasterElsewhere, ...]:
        found = self.profiles
        return faster_elsewhere(found.seconds, found.rival, self.partitioned) if found else ()

    def told_by(self, source: Report | None, file: str = "", decided_at: str = "") -> Result:
        """A replay whose report tells of the search that `source` tells of: that of a placement in
        a file, or of an earlier compile, which decided then."""
        found = dataclasses.replace(self)
        if file:
            found = dataclasses.replace(self, guard_skipped=f"{self.guard_skipped}, {file}")
        if source:
            vars(found)["record"] = found.record.with_search_of(source, decided_at)
        return found

    def built_by(self, make_built: Callable[[], Built] | None) -> Result:
        """Return the same decision, with what was worked out of it, and this `make_built`."""
        found = dataclasses.replace(self, make_built=make_built)
        known = ("placement", "placements", "record", "report")
        vars(found).update({name: vars(self)[name] for name in known if name in vars(self)})
        return found

    def to_dot(self) -> str:
        """The graph of what ships in Graphviz's DOT, coloured by backend: `dot -Tsvg` draws it."""
        return to_dot(self.mod, TVM_ALONE, report_looks(self.record))

    def _repr_html_(self) -> str:
        """The three lines and the picture in a notebook; `save_html` writes the page."""
        return notebook_html(self.record)

    def plot_history(self, path: str | os.PathLike) -> None:
        """Draw what the search of whole plans tried, and the best so far, against seconds, as a
        picture (`.png`, `.svg`). OptionError without such a search; needs matplotlib."""
        if self.search is None:
            raise OptionError(
                "there is no search to draw: set "
                + option("graph_search")
                + " to one of evolutionary, local, random"
            )
        plot_history(read(PlanSearch, self.search.to_json()), path)

    def Summary(self) -> str:
        """One line: what ships, how fast, what it runs on, the time it took to find out."""
        return self._told(is_full=False).summary

    def __repr__(self) -> str:
        return f"Result({self.Summary()})"
