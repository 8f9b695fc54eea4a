# SPDX-License-Identifier: Apache-2.0
"""A plan of one function as boxes and edges, read from a report's JSON: parts, what is left to TVM,
inputs and results. Constants are left out; tuples and their fields are seen through.

Precondition: the report is one of `full_report`. Test: report/picture/test_parts.py.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable
from typing import Any

from ...errors import CollageError, OptionError, UnknownPlanError
from ...plans.competing import TVM_ALONE
from ...plans.placement.seen import parts_at
from ..net import FREE, Known, Net, host_kind
from ..times import time_text


@dataclasses.dataclass(frozen=True)
class Box:
    """kind: "part", "rest" (operators of no part), "input" or "output".

    nodes: indexes of its operators, in order; of an input the variable.
    label: its operators in short, or the variable's name.
    type: of what it gives. seconds: what it was measured at alone, None where nobody did.
    flags: what makes the seconds doubtful, as costs have it.
    """

    kind: str
    backend: str
    nodes: tuple[int, ...]
    label: str
    type: str
    rule: str = ""
    seconds: float | None = None
    flags: tuple[str, ...] = ()

    @property
    def time(self) -> str:
        """For people: "1.23 ms (busy)"."""
        return time_text(self.seconds, self.flags)


@dataclasses.dataclass(frozen=True)
class Edge:
    """From a box to another; values: the nodes that make what is read, or variables."""

    source: int
    target: int
    values: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class BoxGraph:
    """Boxes, and each pair of them that an edge joins, once."""

    boxes: list[Box]
    edges: list[Edge]

    @property
    def seconds(self) -> float:
        """Of all parts that are known."""
        return sum(box.seconds or 0.0 for box in self.boxes)

    def order(self) -> list[int]:
        """Boxes so that each comes after what it reads, by their first operator where that is
        free."""
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


def plan_names(report: dict[str, Any]) -> list[str]:
    """The plans whose parts the report has, what ships first."""
    names = [row["plan"] for row in report["placements"]["plans"]]
    return sorted(names, key=lambda name: name != report["plan"])


def check_names(report: dict[str, Any], plan: str | None, function: str) -> None:
    """For a plan, or a function unless it is "", that the report cannot draw: UnknownPlanError, or
    OptionError."""
    functions = [row["function"] for row in functions_of(report)]
    for what, name, known, kind in (
        ("plan", plan, plan_names(report), UnknownPlanError),
        ("function", function, functions, OptionError),
    ):
        if name and name not in known:
            names = ", ".join(known) or "none"
            raise kind(f"the report has no {what} {name!r} to draw: it has {names}")


def chosen(report: dict[str, Any], plan: str | None, function: str) -> tuple[dict[str, Any], str]:
    """The row of a function and a plan: what ships unless one is named, the largest function.
    CollageError where there is none."""
    check_names(report, plan, function)
    rows = [row for row in functions_of(report) if function in ("", row["function"])]
    names = plan_names(report)
    if not rows or not names:
        raise CollageError(nothing_to_draw(report))
    return rows[0], plan or names[0]


def nothing_to_draw(report: dict[str, Any]) -> str:
    """Why, as one line."""
    skipped = next((row["skipped"] for row in report["functions"] if row["skipped"]), "")
    return f"there is nothing to draw: {skipped or 'no function was searched for this report'}"


def functions_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of functions that can be drawn, those with the most nodes first."""
    rows = [row for row in report["functions"] if row["graph"]["nodes"]]
    return sorted(rows, key=lambda row: -len(row["graph"]["nodes"]))


def box_graph(report: dict[str, Any], function: dict[str, Any], plan: str) -> BoxGraph:
    """A plan of a function. Precondition: the report has both."""
    net = Net(function["graph"])
    parts = _parts_of(report, function["function"], plan)
    host = {host_kind(report), FREE}
    known = Known(net, function["graph"]["costed"])
    boxes: list[Box] = []
    box_of: dict[int, int] = {}

    def add(kind: str, backend: str, nodes: list[int], label: str, **more: Any) -> None:
        box_of.update(dict.fromkeys(nodes, len(boxes)))
        kind_of = net.nodes[nodes[-1]]["type"] if nodes else ""
        boxes.append(Box(kind, backend, tuple(nodes), label, kind_of, **more))

    for index, node in net.nodes.items():
        if node["kind"] == "var":
            add("input", "", [index], node["name"] or "input")
    for part in parts:
        nodes = net.shown(part["nodes"])
        if nodes:
            backend = TVM_ALONE if part["backend"] in host else part["backend"]
            alone = known.part(backend, nodes, part["cost"])
            cost = {"seconds": alone.seconds, "flags": alone.flags}
            add("part", backend, nodes, net.label(nodes), rule=part["rule"], **cost)
    for kernel in known.tvms_kernels(set(box_of)):
        nodes = net.shown(kernel.nodes)
        cost = {"seconds": kernel.seconds, "flags": kernel.flags}
        add("rest", TVM_ALONE, nodes, net.label(nodes), **cost)
    edges: dict[tuple[int, int], dict[int, None]] = {}
    for index, target in box_of.items():
        if net.is_shown(index):
            for value in net.sources(index):
                if box_of[value] != target:
                    edges.setdefault((box_of[value], target), {})[value] = None
    results = [value for value in net.results() if value in box_of]
    if results:
        boxes.append(Box("output", "", (), "output", " ".join(_types(net, results))))
        for value in results:
            edges.setdefault((box_of[value], len(boxes) - 1), {})[value] = None
    return BoxGraph(boxes, [Edge(*pair, tuple(values)) for pair, values in edges.items()])


def _types(net: Net, values: Iterable[int]) -> list[str]:
    return [net.nodes[value]["type"] for value in values]


def _parts_of(report: dict[str, Any], function: str, plan: str) -> list[dict[str, Any]]:
    placements = report["placements"]
    found = next(row for row in placements["plans"] if row["plan"] == plan)
    rows = next((row for row in placements["functions"] if row["name"] == function), None)
    return parts_at(rows["parts"], found["parts"].get(function, ()), plan, function) if rows else []
