# SPDX-License-Identifier: Apache-2.0
"""A plan of one function as boxes and edges, read from a report's JSON: parts, what is left to TVM,
inputs and results. Constants are left out; tuples and their fields are seen through.

Precondition: the report is one of `full_report`. Test: report/picture/test_parts.py.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import CollageError
from ...plans import TVM_ALONE

_SHOWN = ("call", "call_other", "function", "other")
_SEEN_THROUGH = ("tuple", "projection")
_FREE = "host"  # as a placement calls who runs what launches no kernel
_MOST_OPS = 4
_LONGEST_KERNEL = 16  # operators that TVM fuses in a row, about
_KNOWN = ("measured", "estimated")


@dataclasses.dataclass(frozen=True)
class Box:
    """kind: "part", "rest" (operators of no part), "input" or "output".

    nodes: indexes of its operators, in order; of an input the variable.
    label: its operators in short, or the variable's name.
    type: of what it gives. seconds: what it was measured at alone, None where nobody did.
    """

    kind: str
    backend: str
    nodes: tuple[int, ...]
    label: str
    type: str
    rule: str = ""
    seconds: float | None = None


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


class Net:
    """The graph of one function of a report."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.nodes: dict[int, dict[str, Any]] = {row["index"]: row for row in graph["nodes"]}

    def is_shown(self, index: int) -> bool:
        """Whether a node computes something."""
        return index in self.nodes and self.nodes[index]["kind"] in _SHOWN

    def sources(self, index: int) -> list[int]:
        """The operators and variables whose values a node reads, through tuples."""
        found: dict[int, None] = {}
        waiting = list(reversed(self.nodes[index]["inputs"]))
        while waiting:
            value = waiting.pop()
            node = self.nodes.get(value)
            if node is None:
                continue
            if node["kind"] in _SEEN_THROUGH:
                waiting += reversed(node["inputs"])
            elif node["kind"] in _SHOWN or node["kind"] == "var":
                found[value] = None
        return list(found)

    def results(self) -> list[int]:
        """What the function gives."""
        return [
            value
            for index, node in self.nodes.items()
            if node["is_result"]
            for value in ([index] if node["kind"] not in _SEEN_THROUGH else self.sources(index))
        ]

    def label(self, nodes: Iterable[int]) -> str:
        """Operators in short: "conv2d + add + relu", or counted where they are many."""
        names = [short_name(self.nodes[index]) for index in nodes]
        if len(names) <= _MOST_OPS:
            return " + ".join(names)
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        told = sorted(counts.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{n} {name}" if n > 1 else name for name, n in told[:_MOST_OPS])
        left = sum(n for _, n in told[_MOST_OPS:])
        return f"{shown}, {left} more" if left else shown


def short_name(node: dict[str, Any]) -> str:
    """An operator without its folder: nn.conv2d is conv2d."""
    return str(node["op"] or node["kind"]).rpartition(".")[2]


def plan_names(report: dict[str, Any]) -> list[str]:
    """The plans whose parts the report has, what ships first."""
    names = [row["plan"] for row in report["placements"]["plans"]]
    return sorted(names, key=lambda name: name != report["plan"])


def check_names(report: dict[str, Any], plan: str | None, function: str) -> None:
    """CollageError for a plan, or a function unless it is "", that the report cannot draw."""
    known = {"plan": plan_names(report), "function": [f["function"] for f in functions_of(report)]}
    for what, name in (("plan", plan), ("function", function)):
        if name and name not in known[what]:
            names = ", ".join(known[what]) or "none"
            raise CollageError(f"the report has no {what} {name!r} to draw: it has {names}")


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
    host = {str(report["host"]).split(" ", 1)[0], _FREE}
    times = _Times(net, function["graph"]["costed"])
    boxes: list[Box] = []
    box_of: dict[int, int] = {}

    def add(kind: str, backend: str, nodes: list[int], label: str, **known: Any) -> None:
        box_of.update(dict.fromkeys(nodes, len(boxes)))
        kind_of = net.nodes[nodes[-1]]["type"] if nodes else ""
        boxes.append(Box(kind, backend, tuple(nodes), label, kind_of, **known))

    for index, node in net.nodes.items():
        if node["kind"] == "var":
            add("input", "", [index], node["name"] or "input")
    for part in parts:
        nodes = [index for index in part["nodes"] if net.is_shown(index)]
        if nodes:
            backend = TVM_ALONE if part["backend"] in host else part["backend"]
            cost = part["cost"]
            seconds = cost["seconds"] if cost["status"] in _KNOWN else times.of(backend, nodes)
            add("part", backend, nodes, net.label(nodes), rule=part["rule"], seconds=seconds)
    for chain in _chains(net, set(box_of)):
        for nodes in times.pieces(chain):
            seconds = times.of(TVM_ALONE, nodes)
            add("rest", TVM_ALONE, nodes, net.label(nodes), seconds=seconds)
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


class _Times:
    """What candidates were measured at, by backend and operators."""

    def __init__(self, net: Net, costed: Iterable[dict[str, Any]]) -> None:
        self._seconds: dict[tuple[str, frozenset[int]], float] = {}
        for row in costed:
            if row["cost"]["status"] in _KNOWN:
                key = (row["backend"], frozenset(filter(net.is_shown, row["nodes"])))
                known = self._seconds.get(key, math.inf)
                self._seconds[key] = min(known, row["cost"]["seconds"])

    def of(self, backend: str, nodes: Iterable[int]) -> float | None:
        """None where nobody measured just these operators there."""
        return self._seconds.get((backend, frozenset(nodes)))

    def pieces(self, chain: list[int]) -> Iterator[list[int]]:
        """A chain of TVM's operators as the longest kernels that were measured, one after the
        other; what was not measured stays together between them."""
        start = unknown = 0
        while start < len(chain):
            longest = min(len(chain), start + _LONGEST_KERNEL)
            ends = range(longest, start, -1)
            end = next((e for e in ends if self.of(TVM_ALONE, chain[start:e]) is not None), None)
            if end is None:
                start += 1
                continue
            if unknown < start:
                yield chain[unknown:start]
            yield chain[start:end]
            start = unknown = end
        if unknown < len(chain):
            yield chain[unknown:]


def _types(net: Net, values: Iterable[int]) -> list[str]:
    return [net.nodes[value]["type"] for value in values]


def _parts_of(report: dict[str, Any], function: str, plan: str) -> list[dict[str, Any]]:
    placements = report["placements"]
    found = next(row for row in placements["plans"] if row["plan"] == plan)
    rows = next((row for row in placements["functions"] if row["name"] == function), None)
    return [rows["parts"][k] for k in found["parts"].get(function, ())] if rows else []


def _chains(net: Net, placed: set[int]) -> list[list[int]]:
    """Operators that no part holds: those that only feed each other, one after the other, together,
    so that the boxes have no cycle."""
    rest = [index for index in net.nodes if net.is_shown(index) and index not in placed]
    readers: dict[int, list[int]] = {}
    for index in net.nodes:
        if net.is_shown(index):
            for value in net.sources(index):
                readers.setdefault(value, []).append(index)
    results = set(net.results())
    chain_of: dict[int, list[int]] = {}
    chains: list[list[int]] = []
    for index in rest:
        sources = net.sources(index)
        chain = chain_of.get(sources[0]) if len(sources) == 1 else None
        if chain is None or len(readers[sources[0]]) > 1 or sources[0] in results:
            chain = []
            chains.append(chain)
        chain.append(index)
        chain_of[index] = chain
    return chains
