# SPDX-License-Identifier: Apache-2.0
"""A plan of one function as boxes and edges: parts, what is left to TVM, inputs and results.
Constants are left out; tuples and their fields are seen through.

Precondition: the report has graphs and placements. Test: report/test_boxes.py.
"""

from __future__ import annotations

import dataclasses
import heapq

from ..errors import CollageError, OptionError, UnknownPlanError
from ..plans.names import TVM_ALONE
from ..plans.placement import PlacedPart
from ..plans.placement.seen import SeenPlan, SeenPlans, parts_at
from ..views.function_report import FunctionGraph
from .facts import time_text
from .looks import FREE
from .net import Known, Net, Part, is_layer
from .precision import FLOAT32
from .record import Report, SearchedFunction


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of a plan, or what it reads and gives."""

    kind: str  # part, rest (operators of no part), input or output
    backend: str  # "" for inputs and outputs
    nodes: tuple[int, ...]  # indexes of its operators, in order; of an input the variable
    label: str  # its operators in short, or the variable's name
    type: str  # of what it gives
    rule: str = ""  # that found the part
    seconds: float | None = None  # what it was measured at alone; None where nobody did
    flags: tuple[str, ...] = ()  # what makes the seconds doubtful, as costs have it
    precision: str = ""  # of a part in fewer bits than the model's float32

    @property
    def time(self) -> str:
        """Return it for people: "1.23 ms (busy)"."""
        return time_text(self.seconds, self.flags)

    @property
    def is_named(self) -> bool:
        """Tell whether it is an input or the output, which has a name and no more."""
        return self.kind in ("input", "output")


@dataclasses.dataclass(frozen=True)
class Edge:
    """A box that reads what another gives."""

    source: int  # the box that gives, by its place
    target: int  # the box that reads
    values: tuple[int, ...]  # the nodes that make what is read, or variables


@dataclasses.dataclass(frozen=True)
class BoxGraph:
    """A plan of a function."""

    boxes: list[Box]
    edges: list[Edge]  # each pair of boxes once

    @property
    def seconds(self) -> float:
        """Return the sum of all parts that are known."""
        return sum(box.seconds or 0.0 for box in self.boxes)

    def order(self) -> list[int]:
        """Return boxes so that each comes after what it reads, by their first operator where that
        is free."""
        waiting = [0] * len(self.boxes)
        readers: list[list[int]] = [[] for _ in self.boxes]
        for edge in self.edges:
            waiting[edge.target] += 1
            readers[edge.source].append(edge.target)
        first = [min(box.nodes, default=0) for box in self.boxes]
        ready = [(first[k], k) for k, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            _, k = heapq.heappop(ready)
            order.append(k)
            for reader in readers[k]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (first[reader], reader))
        return order


def plan_names(report: Report) -> list[str]:
    """Return the plans whose parts the report has, what ships first."""
    return sorted(_placements(report).names(), key=lambda name: name != report.plan)


def check_names(report: Report, plan: str | None, function: str) -> None:
    """UnknownPlanError or OptionError for a plan, or a function unless it is "", that the report
    cannot draw."""
    functions = [row.function for row in functions_of(report)]
    for what, name, known, kind in (
        ("plan", plan, plan_names(report), UnknownPlanError),
        ("function", function, functions, OptionError),
    ):
        if name and name not in known:
            names = ", ".join(known) or "none"
            raise kind(f"the report has no {what} {name!r} to draw: it has {names}")


def chosen(report: Report, plan: str | None, function: str) -> tuple[SearchedFunction, str]:
    """Return a function and a plan: what ships unless one is named, the largest function.
    CollageError where there is none."""
    check_names(report, plan, function)
    rows = [row for row in functions_of(report) if function in ("", row.function)]
    names = plan_names(report)
    if not rows or not names:
        raise CollageError(nothing_to_draw(report))
    return rows[0], plan or names[0]


def nothing_to_draw(report: Report) -> str:
    """Say why, in one line."""
    skipped = next((row.skipped for row in report.functions if row.skipped), "")
    return f"there is nothing to draw: {skipped or 'no function was searched for this report'}"


def functions_of(report: Report) -> list[SearchedFunction]:
    """Return the functions that can be drawn, those with the most nodes first."""
    rows = [row for row in report.functions if graph_of(row).nodes]
    return sorted(rows, key=lambda row: -len(graph_of(row).nodes))


def graph_of(function: SearchedFunction) -> FunctionGraph:
    """Return the function's graph, which is empty where older files have none."""
    return function.graph or FunctionGraph()


def box_graph(report: Report, function: SearchedFunction, plan: str) -> BoxGraph:
    """Return a plan of a function. Precondition: the report has both."""
    graph = graph_of(function)
    net = Net(graph)
    known = Known(net, graph.costed)
    boxes: list[Box] = []
    box_of: dict[int, int] = {}
    kept = frozenset(_plan_of(report, plan).kept if function.function == "main" else ())

    def add(kind: str, part: Part, label: str = "", rule: str = "") -> None:
        nodes = part.nodes
        box_of.update(dict.fromkeys(nodes, len(boxes)))
        gives = net.nodes[nodes[-1]].type if nodes else ""
        label = label or net.label(nodes)
        about = {**vars(part), "label": label, "type": gives, "rule": rule}
        if part.backend:
            about["precision"] = _precision(report, net, part, kept)
        boxes.append(Box(kind, **about))

    for index, node in net.nodes.items():
        if node.kind == "var":
            add("input", Part("", (index,), None), node.name or "input")
    for part in _parts_of(report, function.function, plan):
        if nodes := net.shown(part.nodes):
            backend = TVM_ALONE if part.backend in (report.host_kind, FREE) else part.backend
            add("part", known.part(backend, nodes, part.cost), rule=part.rule)
    for kernel in known.tvms_kernels(set(box_of)):
        add("rest", dataclasses.replace(kernel, nodes=tuple(net.shown(kernel.nodes))))
    edges: dict[tuple[int, int], dict[int, None]] = {}
    for index, target in box_of.items():
        if net.is_shown(index):
            for value in net.sources(index):
                if box_of[value] != target:
                    edges.setdefault((box_of[value], target), {})[value] = None
    results = [value for value in net.results() if value in box_of]
    if results:
        gives = " ".join(net.nodes[value].type for value in results)
        boxes.append(Box("output", "", (), label="output", type=gives))
        for value in results:
            edges.setdefault((box_of[value], len(boxes) - 1), {})[value] = None
    return BoxGraph(boxes, [Edge(*pair, tuple(values)) for pair, values in edges.items()])


def _precision(report: Report, net: Net, part: Part, kept: frozenset[int]) -> str:
    """Return the precisions of a part's operators, "" for those of the model: what its backend
    trades accuracy for, 8 bits, and float32 where some layers are kept from both."""
    ops = {node: net.nodes[node].op for node in part.nodes}
    layers = {node for node, op in ops.items() if is_layer(op)}
    own = kept & layers
    mine = (each for each in report.trades if each.backend == part.backend)
    others = [op for node, op in ops.items() if node not in own]
    traded = next((each.precision for each in mine if each.holds(others)), "")
    if own and own == layers:
        traded = ""
    if not traded:
        return net.precision(part.nodes)
    # What comes in 8 bits is not computed in them for that.
    in_bytes = net.precision(node for node, op in ops.items() if op != "qnn.dequantize")
    return " and ".join(filter(None, (traded, in_bytes, FLOAT32 if own else "")))


def _parts_of(report: Report, function: str, plan: str) -> list[PlacedPart]:
    placements = _placements(report)
    found = _plan_of(report, plan)
    rows = next((row for row in placements.functions if row.name == function), None)
    return parts_at(rows.parts, found.parts.get(function, ()), plan, name=function) if rows else []


def _plan_of(report: Report, plan: str) -> SeenPlan:
    return next(row for row in _placements(report).plans if row.plan == plan)


def _placements(report: Report) -> SeenPlans:
    return report.placements or SeenPlans()
