# SPDX-License-Identifier: Apache-2.0
"""The decision for a module, and why, as one record: the form of a report's JSON.

`make.py` makes it of a Result, `facts.py` says what is told of it, all else draws or writes it. The
schema in docs/report.schema.json follows from these classes. Times are in seconds, nodes go by
their index in the function. Test: report/test_record.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ..costs.compared import ComparedPlan
from ..costs.cost import FLAGS, CostStatus
from ..errors import CollageError, FileError
from ..files.json_schema import describe_class
from ..files.records import RecordError, described, read, to_json
from ..options.named import option
from ..plans.placement.seen import SeenPlans
from ..views.function_report import ChargedTransition, CostsAsked, FunctionGraph, Unplaced
from .precision import Precisions

_COUNT = {"minimum": 0}


def _mapping(meaning: str, **limits: Any) -> Any:
    return dataclasses.field(default_factory=dict, metadata={"meaning": meaning, **limits})


@dataclasses.dataclass(frozen=True, kw_only=True)
class CostCounts:
    """Counts of costs by where they came from, and how good they are; in JSON {} where none was
    needed."""

    measured: int = described("just now", 0, **_COUNT)
    from_store: int = described("by an earlier search on this machine", 0, **_COUNT)
    from_memory: int = described("an equal candidate was answered before", 0, **_COUNT)
    failed: dict[str, int] = _mapping("of the distinct ones by status", **_COUNT)
    noisy: int = described("known badly", 0, **_COUNT)
    busy: int = described("measured while other work left no core free", 0, **_COUNT)
    verified: int = described("outputs compared with TVM's", 0, **_COUNT)
    not_verified: int = described("asked for, but with nothing to compare with", 0, **_COUNT)

    def __bool__(self) -> bool:
        return any(vars(self).values())


@dataclasses.dataclass(frozen=True)
class WantedCosts(CostsAsked):
    """Counts of the costs that the search of one function asked for."""

    never_needed: int = described(
        "distinct ones that no plan could win with, or that time_limit cut", 0, **_COUNT
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Candidates that agree in all that is told of them."""

    backend: str = described("tvm for the host target")
    ops: str = described("operators, for people")
    rule: str = described("the partition rules that made them, outermost first")
    status: CostStatus = described("as in docs/measuring.md")
    message: str = described("why there is no cost, or what is odd about it")
    count: int = described("how many", **_COUNT)

    @property
    def is_known(self) -> bool:
        """Tell whether they have seconds."""
        return self.status.has_seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartGroup(Group):
    """Equal parts of the op-level plan."""

    seconds: float = described("of each, on average", minimum=0)
    total_seconds: float = described("of all", minimum=0)
    share: float = described("of all parts' seconds, 0 to 1", minimum=0)
    estimated: int = described("how many a cost function computed", 0, **_COUNT)
    noisy: int = described("how many are known badly", 0, **_COUNT)
    busy: int = described("how many were measured beside other work", 0, **_COUNT)


@dataclasses.dataclass(frozen=True)
class BackendShare:
    """The share of a backend in the op-level plan."""

    backend: str = described("tvm for the host target")
    parts: int = described("how many", **_COUNT)
    seconds: float = described("of all of them", minimum=0)
    share: float = described("of all parts' seconds, 0 to 1", minimum=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchedFunction:
    """The decision of the search for one function."""

    function: str = described("the global function")
    nodes: int = described("how many its graph has", **_COUNT)
    candidates: int = described("how many there were to choose from", **_COUNT)
    costs: WantedCosts = described("how many costs were asked for")
    seconds: float = described("of the op-level plan, as a sum of its parts and transitions")
    transitions: tuple[ChargedTransition, ...] = described(
        "changes of layout that it is charged, by the value's node", default=()
    )
    is_optimal: bool = described("whether no plan of these candidates can cost less")
    least_seconds: float = described(
        "of any plan of these candidates, by what was measured and by profiles", 0.0, **_COUNT
    )
    rival_seconds: float = described(
        "of the fastest backend alone, measured whole before; 0 where none was", 0.0, **_COUNT
    )
    is_beaten: bool = described(
        "whether the search ended as no plan can be faster than that by what is worth it", False
    )
    below_bounds: int = described("costs below what was foreseen of them", 0, **_COUNT)
    search: str = described("how the search went")
    cuts: tuple[str, ...] = described("limits that cut candidates")
    parts: tuple[PartGroup, ...] = described("of the op-level plan, equal ones together")
    backends: tuple[BackendShare, ...] = described("the same by backend, the largest first")
    failures: tuple[Group, ...] = described("candidates without a cost, equal ones together")
    unplaced: tuple[Unplaced, ...] = described("why operators on TVM are on no other backend")
    skipped: str = described("why it was left as it was; empty where it was not")
    graph: FunctionGraph | None = described(
        "its nodes, and all that was known of each; null or absent in older files", default=None
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FasterElsewhere:
    """Equal operators that another backend runs faster than the best backend alone does, by their
    profiles."""

    op: str = described("the operator")
    backend: str = described("that is faster")
    operators: int = described("how many", **_COUNT)
    here_seconds: float = described("of all of them on the best backend alone", minimum=0)
    there_seconds: float = described("on the other, without borders", minimum=0)


@dataclasses.dataclass(frozen=True)
class PlacedOps:
    """Equal parts of what ships."""

    backend: str = described("tvm for what no part holds")
    ops: str = described("operators, for people")
    parts: int | None = described("how many; null for TVM, whose fusion says that")
    operators: int = described("of all of them", **_COUNT)

    FORMER_FIELDS: ClassVar = frozenset({"label", "what"})


@dataclasses.dataclass(frozen=True)
class TriedStep:
    """A kernel of a step, and what it took."""

    kernel: str = described("as the backend calls it")
    status: CostStatus = described("as in docs/measuring.md")
    seconds: float | None = described("of the step alone; null without a cost", minimum=0)
    message: str = described("why there is none")


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a part that its backend can run by several kernels."""

    backend: str = described("whose step it is")
    step: str = described("for people")
    kernel: str = described("the one that runs")
    is_usual: bool = described("whether it runs without being chosen")
    tried: tuple[TriedStep, ...] = described("all that were measured, first the usual one")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriedPlan:
    """A plan that the search of whole plans tried."""

    name: str = described("trial-1 and so on, as placements have it")
    plan: str = described("its parts, for people")
    status: CostStatus = described("as in docs/measuring.md")
    seconds: float | None = described("of one run; null without a cost", minimum=0)
    message: str = described("why there is none, or what is odd about it")
    flags: tuple[str, ...] = described("what makes it doubtful", default=(), enum=FLAGS)
    after_seconds: float = described("since the search began")
    best_seconds: float | None = described("of the best plan so far; null before one ran")
    is_stored: bool = described("its time was known from an earlier search")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanSearch:
    """The trials of the search of whole plans."""

    strategy: str = described("evolutionary, local or random")
    genes: int = described("groups of operators that plans may differ in", **_COUNT)
    op_level_seconds: float | None = described("of the op-level plan in the same search")
    ended: str = described("why it ended")
    trials: tuple[TriedPlan, ...] = described("in the order in which they were tried")


@dataclasses.dataclass(frozen=True)
class OriginalAgreement:
    """The agreement of outputs with those of the model's file."""

    by: str = described("the runtime that ran the file, with its version; empty where none did")
    error: float | None = described("max|a-b| / max|b|; null where nothing was compared")
    why: str = described("what kept it from that, or what is to be known of a large error")
    summary: str = described("one line")


@dataclasses.dataclass(frozen=True)
class Decision:
    """The measurements for the decision that a replay is of."""

    plan: str = described("what shipped then")
    guard_skipped: str = described("as in the report")
    plans: tuple[ComparedPlan, ...] = described("as in the report")
    costs: CostCounts = described("as in the report")
    decided_at: str = described(
        "when, in UTC, where it is of an earlier compile of the model here; else empty", default=""
    )

    def figures(self) -> dict[str, Any]:
        """Return the fields of a report that it has."""
        return {name: value for name, value in vars(self).items() if name != "decided_at"}


@dataclasses.dataclass(frozen=True)
class Trade:
    """A type that a backend computes in where the model's is finer."""

    backend: str = described("its name")
    precision: str = described("the type")
    operators: tuple[str, ...] = described("by Relay's names, computed so; empty for all")

    def holds(self, ops: Iterable[str]) -> bool:
        """Return whether one of these operators is computed so."""
        return not self.operators or not set(self.operators).isdisjoint(ops)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The decision of Collage for a module, and why."""

    summary: str = described("one line")
    plan: str = described("what ships")
    host: str = described("the host target")
    executor: str = described("by which TVM runs it: graph, aot or vm", default="graph")
    guard_skipped: str = described(
        "why nothing was measured end to end; empty where it was, or without a guard"
    )
    ended_early: str = described(
        "why the best plan of before the search ships, compared in few rounds; empty where the "
        "compile came to its end",
        default="",
    )
    unverified: str = described(
        "why outputs were not compared with TVM's; empty where they were", default=""
    )
    original: OriginalAgreement | None = described(
        "how outputs agree with those of the model's file; null for none", default=None
    )
    plans: tuple[ComparedPlan, ...] = described(
        "what each plan took end to end, beside the best backend alone"
    )
    placement: tuple[PlacedOps, ...] = described("what ships, by backend and kind of part")
    functions: tuple[SearchedFunction, ...] = described("one a function of the module")
    elsewhere: tuple[FasterElsewhere, ...] = described(
        "operators that another backend runs faster than the best alone, by profiles", default=()
    )
    seconds: dict[str, float] = described("time spent by phase")
    costs: CostCounts = described("how many costs came from where; {} where none was needed")
    kernels: tuple[Step, ...] = described("by which kernel each step runs that has several")
    schedules: dict[str, int] = _mapping(
        "how many tuning records TVM's kernels may have, by who found them"
    )
    transfers: dict[str, int] = _mapping(
        "how many schedules of other kernels were tried, by what came of it"
    )
    graph_search: PlanSearch | None = described(
        "what the search of whole plans tried; null without one", default=None
    )
    precision: Precisions | None = described(
        "which layers are in 8 bits, and why; null where nobody chose", default=None
    )
    tensors: dict[str, Any] = _mapping(
        "name, shape and type of what it takes (inputs) and gives (outputs)"
    )
    colours: dict[str, str] = _mapping(
        "by backend, those that backends declare, so that pictures are alike"
    )
    trades: tuple[Trade, ...] = described("of backends that trade accuracy", default=())
    decision: Decision | None = described(
        "of a replay what was measured for its decision; else null", default=None
    )
    placements: SeenPlans | None = described(
        "of every plan that was seen; TVM goes by the kind of the host target there", default=None
    )

    @property
    def host_kind(self) -> str:
        """The kind of the host target, such as llvm: as placements call TVM."""
        return self.host.split(" ", 1)[0]

    @property
    def chosen(self) -> ComparedPlan | None:
        """Return what ships, as it was compared; None where it was not."""
        return next((row for row in self.plans if row.is_chosen), None)

    @property
    def searched(self) -> list[SearchedFunction]:
        """The functions that were not left as they were."""
        return [row for row in self.functions if not row.skipped]

    def seconds_of(self, plan: str) -> float | None:
        """Return what a plan takes end to end, where that was measured."""
        return next((row.seconds for row in self.plans if row.name == plan), None)

    def measured(self) -> Report:
        """Return the report with what was measured: a replay measured nothing, and has what was
        measured for its decision, which may have shipped another plan."""
        return dataclasses.replace(self, **self.decision.figures()) if self.decision else self

    def with_search_of(self, source: Report, decided_at: str = "") -> Report:
        """Return the report of a replay with what the report that its placement is of tells: by
        that it is explained and drawn. What was measured end to end stands apart in `decision`,
        since it is of that build and of what that one shipped. `decided_at`: when, where it is of
        an earlier compile."""
        plain = (source.plan, source.guard_skipped, source.plans)
        measured = Decision(*plain, costs=source.costs, decided_at=decided_at)
        return dataclasses.replace(
            self,
            functions=source.functions,
            elsewhere=source.elsewhere,
            placements=source.placements,
            precision=source.precision,
            colours={**self.colours, **source.colours},
            trades=tuple({each.backend: each for each in (*self.trades, *source.trades)}.values()),
            decision=source.decision or measured,
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; `read_report` is the inverse."""
        value: dict[str, Any] = to_json(self)
        for each in filter(None, (value, value["decision"])):
            each["costs"] = each["costs"] if CostCounts(**each["costs"]) else {}
        return value

    def check_is_full(self) -> None:
        """CollageError for a report of before graphs were in it."""
        if self.placements is None or any(row.graph is None for row in self.functions):
            raise CollageError(
                "it was written by an older version and has no graph to draw; build again with "
                + option("report", "the option report")
            )


def read_report(
    value: Mapping[str, Any], file: str, colours: Mapping[str, str] | None = None
) -> Report:
    """Return the record of a report's JSON value; `file` is where it is from. `colours`: what
    backends declare, for a report from before that was kept. CollageError for one of before plans
    had a ratio to the one that ships, FileError for what is no report of this version."""
    if any("ratio_to_chosen" not in row for row in value["plans"]):
        raise CollageError(
            f"{file} was written by an older version of tvm-collage (its plans lack "
            "ratio_to_chosen): compile again"
        )
    try:
        report = read(Report, value)
    except RecordError as error:
        raise FileError(
            f"{file} is of another version of tvm-collage and cannot be read ({error}): make it "
            "again"
        ) from None
    return report if report.colours else dataclasses.replace(report, colours=dict(colours or {}))


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a report's file."""
    defs: dict[str, Any] = {}
    top = describe_class(Report, defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": top.pop("description"),
        **top,
        "$defs": defs,
    }
