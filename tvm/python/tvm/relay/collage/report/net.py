# SPDX-License-Identifier: Apache-2.0
"""The graph of one function of a report, what was measured of it, a plan's parts over it, and where
two plans differ: explanations and pictures read all of it here.

Precondition: the report has graphs and placements. Test: report/test_net.py,
report/test_explain.py.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ..costs.cost import PartCost
from ..plans.names import TVM_ALONE
from ..plans.placement.seen import SeenPlans
from ..views.function_report import CostedCandidate, FunctionGraph, GraphNode
from .looks import FREE
from .record import Report, SearchedFunction

_SHOWN = ("call", "call_other", "function", "other")
_SEEN_THROUGH = ("tuple", "projection")
_MOST_OPS = 4


class Net:
    """The graph of one function of a report, read through tuples."""

    def __init__(self, graph: FunctionGraph) -> None:
        self.nodes: dict[int, GraphNode] = {node.index: node for node in graph.nodes}

    def is_shown(self, index: int) -> bool:
        """Return whether a node computes something."""
        return index in self.nodes and self.nodes[index].kind in _SHOWN

    def shown(self, nodes: Iterable[int]) -> list[int]:
        """Return those of the nodes that compute something."""
        return [index for index in nodes if self.is_shown(index)]

    def sources(self, index: int) -> list[int]:
        """Return the operators and variables whose values a node reads, through tuples."""
        found: dict[int, None] = {}
        waiting = list(reversed(self.nodes[index].inputs))
        while waiting:
            value = waiting.pop()
            node = self.nodes.get(value)
            if node is None:
                continue
            if node.kind in _SEEN_THROUGH:
                waiting += reversed(node.inputs)
            elif node.kind in _SHOWN or node.kind == "var":
                found[value] = None
        return list(found)

    @functools.cached_property
    def readers(self) -> dict[int, list[int]]:
        """The operators that read a value, through tuples."""
        found: dict[int, list[int]] = {}
        for index in self.shown(self.nodes):
            for value in self.sources(index):
                found.setdefault(value, []).append(index)
        return found

    def results(self) -> list[int]:
        """Return what the function gives."""
        return [
            value
            for index, node in self.nodes.items()
            if node.is_result
            for value in ([index] if node.kind not in _SEEN_THROUGH else self.sources(index))
        ]

    def label(self, nodes: Iterable[int]) -> str:
        """Return operators in short: "conv2d + add + relu", or counted where they are many."""
        names = [short_name(self.nodes[index]) for index in nodes]
        if len(names) <= _MOST_OPS:
            return " + ".join(names)
        told = Counter(names).most_common()
        shown = ", ".join(f"{n} {name}" if n > 1 else name for name, n in told[:_MOST_OPS])
        left = sum(n for _, n in told[_MOST_OPS:])
        return f"{shown}, {left} more" if left else shown


def short_name(node: GraphNode) -> str:
    """Return an operator without its folder: nn.conv2d is conv2d."""
    return (node.op or node.kind).rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class PlacedKernel:
    """Nodes that run as one, as they were measured with all that is free among them."""

    nodes: tuple[int, ...]
    seconds: float | None  # alone; None for a row of operators that nobody measured
    flags: tuple[str, ...] = ()  # of that cost


class Known:
    """The seconds of measured candidates, by backend and operators."""

    def __init__(self, net: Net, costed: Iterable[CostedCandidate]) -> None:
        self._net = net
        self._best: dict[str, dict[frozenset[int], PlacedKernel]] = {}
        for row in costed:
            if (seconds := row.cost.seconds) is not None:
                of_backend = self._best.setdefault(row.backend, {})
                operators = frozenset(net.shown(row.nodes))
                best = of_backend.get(operators)
                if best is None or seconds < (math.inf if best.seconds is None else best.seconds):
                    of_backend[operators] = PlacedKernel(row.nodes, seconds, row.cost.flags)

    def part(self, backend: str, nodes: Iterable[int], cost: PartCost) -> PlacedKernel:
        """Return a plan's part by its own cost; where nobody measured it as a part (0 is what is
        free, or what TVM cannot fuse), by that of a candidate of just its operators there."""
        nodes = tuple(nodes)
        if cost.seconds:
            return PlacedKernel(nodes, cost.seconds, cost.flags)
        best = self._best.get(backend, {}).get(frozenset(self._net.shown(nodes)))
        return dataclasses.replace(best, nodes=nodes) if best else PlacedKernel(nodes, None)

    def tvms_kernels(self, placed: Collection[int]) -> list[PlacedKernel]:
        """Return the operators that no part holds, in order: the largest kernels that were
        measured, then what is left, rows together of which each operator feeds the next alone.

        Each gives one value, so that parts and kernels have no cycle where the parts have none.
        """
        left = {index for index in self._net.shown(self._net.nodes) if index not in placed}
        results = set(self._net.results())
        found = []
        known = self._best.get(TVM_ALONE, {})
        for operators in sorted(known, key=lambda each: (-len(each), min(each, default=0))):
            if operators and operators <= left and self._gives_one(operators, results):
                found.append(known[operators])
                left -= operators
        found += (PlacedKernel(tuple(row), None) for row in self._rows(sorted(left), results))
        return sorted(found, key=lambda kernel: min(kernel.nodes))

    def _gives_one(self, operators: frozenset[int], results: set[int]) -> bool:
        """Return whether all but the last are read inside alone."""
        last = max(operators)
        return all(
            index == last or (index not in results and operators.issuperset(readers))
            for index in operators
            for readers in [self._net.readers.get(index, [])]
        )

    def _rows(self, left: list[int], results: set[int]) -> Iterator[list[int]]:
        """Yield operators that follow each other, and nothing else reads or feeds."""
        row_of: dict[int, list[int]] = {}
        for index in left:
            sources = self._net.sources(index)
            row = row_of.get(sources[0]) if len(sources) == 1 else None
            is_next = row is not None and sources[0] not in results
            if row is None or not is_next or len(self._net.readers[sources[0]]) > 1:
                row = []
            row.append(index)
            row_of[index] = row
        yield from {id(row): row for row in row_of.values()}.values()


@dataclasses.dataclass(frozen=True)
class Part:
    """Nodes that run together in a plan."""

    backend: str  # tvm for the host target
    nodes: tuple[int, ...]  # sorted
    seconds: float | None  # alone; None where nobody measured that
    flags: tuple[str, ...] = ()  # what makes them doubtful


@dataclasses.dataclass(frozen=True)
class Difference:
    """Kernels that two plans split into other parts, or give to others."""

    ops: tuple[str, ...]  # of the kernels
    nodes: tuple[int, ...]  # the kernels
    here: tuple[Part, ...]  # of the first plan
    there: tuple[Part, ...]  # of the second one

    @property
    def loss(self) -> float | None:
        """Return by how many seconds the parts there take longer; None where a part was not
        measured."""
        seconds = [_sum(self.there), _sum(self.here)]
        return None if None in seconds else seconds[0] - seconds[1]  # type: ignore[operator]


class PlanParts:
    """The parts of a report's plans over the graph of one function."""

    def __init__(self, report: Report, function: SearchedFunction) -> None:
        self.graph = graph = function.graph or FunctionGraph()
        self.node_of: dict[int, GraphNode] = {node.index: node for node in graph.nodes}
        self._kernels = {node.index for node in graph.nodes if node.is_kernel}
        self._host = report.host_kind
        self._seen = report.placements or SeenPlans()
        self._function = function.function
        self._known = Known(Net(graph), graph.costed)

    def parts(self, plan: str) -> list[Part]:
        """Return those of a plan with kernels. PlacementError for no plan."""
        placement = self._seen.placement(plan)
        found: list[Part] = []
        placed: set[int] = set()
        for part in placement.function(self._function).parts:
            is_tvms = part.backend in (self._host, FREE)
            if is_tvms and not (part.cost.is_usable and self._kernels.intersection(part.nodes)):
                continue  # among TVM's kernels below
            backend = TVM_ALONE if is_tvms else part.backend
            found.append(_part(backend, self._known.part(backend, part.nodes, part.cost)))
            placed.update(part.nodes)
        tvms = (_part(TVM_ALONE, kernel) for kernel in self._known.tvms_kernels(placed))
        return [*found, *(part for part in tvms if self._kernels.intersection(part.nodes))]

    def differences(self, here: str, there: str) -> list[Difference]:
        """Return where two plans differ, the places that cost the second one most first."""
        mine, others = self.parts(here), self.parts(there)
        found = []
        for nodes in _components([*mine, *others]):
            parts = [[p for p in side if nodes.intersection(p.nodes)] for side in (mine, others)]
            if set(parts[0]) == set(parts[1]):
                continue
            kernels = tuple(sorted(nodes & self._kernels))
            ops = tuple(self.op_of(node) for node in kernels)
            sides = {"here": tuple(parts[0]), "there": tuple(parts[1])}
            found.append(Difference(ops, kernels, **sides))
        return sorted(found, key=lambda item: -(item.loss or 0.0))

    def op_of(self, node: int) -> str:
        """Return a node's operator, for people."""
        return self.node_of[node].op or "call of a function"


def _part(backend: str, kernel: PlacedKernel) -> Part:
    return Part(backend, tuple(sorted(kernel.nodes)), kernel.seconds, flags=kernel.flags)


def _components(parts: Iterable[Part]) -> list[frozenset[int]]:
    """Return the smallest sets of nodes that no part lies across the border of."""
    sets: list[set[int]] = []
    of_node: dict[int, set[int]] = {}
    for part in parts:
        whole = set(part.nodes)
        for other in {id(of_node[n]): of_node[n] for n in part.nodes if n in of_node}.values():
            whole |= other
        for node in whole:
            of_node[node] = whole
    for node in sorted(of_node):
        if not any(of_node[node] is each for each in sets[-1:]) and min(of_node[node]) == node:
            sets.append(of_node[node])
    return [frozenset(each) for each in sets]


def _sum(parts: Iterable[Part]) -> float | None:
    seconds = [part.seconds for part in parts]
    return None if None in seconds else sum(seconds)  # type: ignore[arg-type]
