# SPDX-License-Identifier: Apache-2.0
"""The pass's report of one function, as files/records.py reads it from C++: the plan's parts,
costs, limits, and the graph with all that was known of each node.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from ..costs.cost import PartCost
from ..files.records import Attribute, described, read_json

_WHY = (
    "slower, no_better_plan, not_measured, refused, device, partitioned, opaque, no_pattern, "
    "or the status of a failed measurement; see docs/report.md"
)


@dataclasses.dataclass(frozen=True)
class ReportedPart:
    """A part of the plan, or one whose measuring failed."""

    backend: str
    rule: str  # names of the rules that made it, outermost first
    ops: str  # its operators, for people
    nodes: tuple[int, ...]  # their indexes, with those of what is free
    is_kernel: bool  # whether it launches one
    cost: PartCost

    @property
    def label(self) -> str:
        """Return backend and operators: "dnnl(nn.conv2d, add)"."""
        return f"{self.backend}({self.ops})"


@dataclasses.dataclass(frozen=True)
class Unplaced:
    """Equal operators on TVM that one external backend did not get, for one reason."""

    op: str = described("the operator")
    backend: str = described("that did not get them")
    why: str = described(_WHY)
    message: str = described("for refused and failures the backend's own words")
    rule: str = described("that found or refused them; empty when none did")
    operators: int = described("how many", minimum=0)
    seconds: float = described("of the plan's parts that hold them", minimum=0)
    backend_seconds: float = described("of each region there; 0 unless it is slower", minimum=0)
    instead_seconds: float = described("of what the plan has in its place; 0 likewise", minimum=0)
    regions: int = described("candidates of the backend that hold them; 0 likewise", minimum=0)


@dataclasses.dataclass(frozen=True)
class CostsAsked:
    """Counts of the costs of a function's candidates that were asked for, wherever answers came
    from."""

    candidates: int = described("on backends", default=0, minimum=0)
    distinct: int = described("of these differ as computations", default=0, minimum=0)
    asked: int = described("of the distinct ones", default=0, minimum=0)
    rounds: int = described("batches in which they were asked for", default=0, minimum=0)


@dataclasses.dataclass(frozen=True)
class ChargedTransition:
    """A value that changes its layout between two parts."""

    node: int = described("that makes it", minimum=0)
    seconds: float = described("that the plan is charged", minimum=0)


@dataclasses.dataclass(frozen=True)
class GraphNode:
    """A node of a function's graph; operators as callees, and names of values, are none."""

    index: int = described("post-dfs index, as placements have it", minimum=0)
    kind: str = described("call, var, const, tuple, projection, function, ...")
    op: str = described("of a call, as nn.conv2d; of control flow which, as If; else empty")
    name: str = described("of a variable; of others what the model's file calls it, where known")
    type: str = described("element type and shape, several for a tuple")
    attrs: dict[str, Attribute] = described("of a call or function, but empty ones")
    inputs: tuple[int, ...] = described("indexes that it reads, in order; some may be no node")
    is_kernel: bool = described("launches a kernel; what does not is free")
    is_opaque: bool = described("TVM cannot fuse it")
    is_result: bool = described("gives the function's result")
    device: str = described("that the program wants it on; empty for any")


@dataclasses.dataclass(frozen=True)
class GraphBackend:
    """A backend that the search had, by the name that costs and refusals have."""

    name: str = described("in a report tvm for the host target; host: of free nodes")
    is_external: bool = described("has its own compiler")
    device: str = described("that its code runs on")


@dataclasses.dataclass(frozen=True)
class CostedCandidate:
    """A candidate whose cost was asked for, whatever came of it."""

    backend: str = described("that would run it")
    rule: str = described("the partition rules that made it, outermost first")
    nodes: tuple[int, ...] = described("indexes", minimum=0)
    cost: PartCost = described("measured, or why not")


@dataclasses.dataclass(frozen=True)
class Reason:
    """Kernels that one backend did not get in the op-level plan, for one reason."""

    backend: str = described("that did not get them")
    why: str = described(_WHY)
    message: str = described("for refused and failures the backend's own words")
    rule: str = described("that found or refused them; empty when none did")
    candidate: int | None = described("its place in costed, the nearest to being chosen", minimum=0)
    instead_seconds: float | None = described(
        "of the parts that the plan has in just its place; null where none tile it, or not slower",
        minimum=0,
    )
    nodes: tuple[int, ...] = described("indexes", minimum=0)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A match that a backend's predicate or a limit turned down."""

    backend: str = described("whose rule it is")
    rule: str = described("the pattern's or rule's name")
    nodes: tuple[int, ...] = described("what matched; none where the rule failed as a whole")
    ops: tuple[str, ...] = described("its operators, inputs first")
    reason: str = described("the predicate's words, what it raised, or the limit")

    def Summary(self) -> str:
        return f"{self.rule} does not take {', '.join(self.ops)}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class FunctionGraph:
    """A function's nodes, and what was known of them when it was planned."""

    nodes: tuple[GraphNode, ...] = described("by index, inputs first", default=())
    backends: tuple[GraphBackend, ...] = described(
        "in the order in which they were asked", default=()
    )
    costed: tuple[CostedCandidate, ...] = described("small ones first", default=())
    reasons: tuple[Reason, ...] = described("why kernels are on no other backend", default=())
    refusals: tuple[Refusal, ...] = described("by backend", default=())


@dataclasses.dataclass(frozen=True)
class FunctionReport:
    """The pass's decision for one function."""

    function: str
    # why it was left as it was, and then nothing else is known; "" where it was not
    skipped: str = ""
    nodes: int = 0
    candidates: int = 0
    costs: CostsAsked = CostsAsked()
    seconds: float = 0.0  # of the plan, parts and transitions
    is_optimal: bool = True
    lower_bound_seconds: float = 0.0
    rival_seconds: float = 0.0  # of the fastest backend alone, 0 where nobody told
    is_beaten: bool = False  # the search ended since no plan can be faster than that
    below_bounds: int = 0  # costs that were below what was foreseen or proven of them
    search: str = ""  # one line for people on how the search went
    states_expanded: int = 0
    widest_position: int = 0
    states_cut: int = 0
    cuts: tuple[str, ...] = ()  # one line a limit that cut candidates
    parts: tuple[ReportedPart, ...] = ()
    transitions: tuple[ChargedTransition, ...] = ()
    failed: tuple[ReportedPart, ...] = ()  # candidates without a cost, and why
    placement: tuple[Any, ...] = ()  # the parts that ship as JSON values of placement.PlacedPart
    # those with all neighbours of one backend joined, None where that changes nothing
    merged: tuple[Any, ...] | None = None
    graph_text: str = ""  # `graph` as JSON

    @functools.cached_property
    def graph(self) -> FunctionGraph:
        """Return the function's nodes with all that was known of them; read when it is first asked
        for, which takes longer than planning."""
        return read_json(FunctionGraph, self.graph_text) if self.graph_text else FunctionGraph()

    @functools.cached_property
    def unplaced(self) -> tuple[Unplaced, ...]:
        """Return why operators on TVM are on no external backend, the dearest first."""
        return tuple(_unplaced(self))


def _unplaced(report: FunctionReport) -> list[Unplaced]:
    """Return the reasons for kernels on TVM against external backends, equal operators together."""
    graph = report.graph
    external = {backend.name for backend in graph.backends if backend.is_external}
    part_of = {node: k for k, part in enumerate(report.parts) for node in part.nodes}
    ops = {node.index: node.op or "call of a function" for node in graph.nodes}
    # Parts and candidates of equal operators; each counts once.
    groups: dict[tuple, list[tuple[int, int | None]]] = {}
    for reason in graph.reasons:
        if reason.backend not in external:
            continue
        for node in reason.nodes:
            if report.parts[part_of[node]].backend not in external:
                times = _times(reason, graph)
                key = (ops[node], reason.backend, reason.why, reason.message, reason.rule, times)
                groups.setdefault(key, []).append((part_of[node], reason.candidate))
    rows = []
    for (op, backend, why, message, rule, times), found in groups.items():
        seconds = sum(
            report.parts[part].cost.seconds or 0.0 for part in {part for part, _ in found}
        )
        regions = len({candidate for _, candidate in found}) if why == "slower" else 0
        there, here = times
        count = len(found)
        rows.append(
            Unplaced(
                op,
                backend,
                why,
                message=message,
                rule=rule,
                operators=count,
                seconds=seconds,
                backend_seconds=there,
                instead_seconds=here,
                regions=regions,
            )
        )
    return sorted(rows, key=lambda row: (-row.seconds, row.op))


def _times(reason: Reason, graph: FunctionGraph) -> tuple[float, float]:
    """Return the seconds of a slower candidate, and of what the plan has in its place; else
    zeros."""
    if reason.why != "slower" or reason.candidate is None or reason.instead_seconds is None:
        return 0.0, 0.0
    return graph.costed[reason.candidate].cost.seconds or 0.0, reason.instead_seconds
