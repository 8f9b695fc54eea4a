# SPDX-License-Identifier: Apache-2.0
"""The graph of one function of a report, what was measured of it, a plan's parts over it, and where
two plans differ: explanations and pictures read all of it here.

Precondition: the report has graphs and placements. Test: report/test_net.py,
report/test_explain.py.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ..costs.cost import PartCost
from ..plans.names import TVM_ALONE
from ..plans.placement.seen import SeenPlans
from ..views.function_report import CostedCandidate, FunctionGraph, GraphNode
from .facts import seconds_together
from .looks import FREE, INT8
from .record import Report, SearchedFunction

_SHOWN = ("call", "call_other", "function", "other")
_SEEN_THROUGH = ("tuple", "projection")
_MOST_OPS = 4
_LAYER = re.compile(r"(q?nn\.)?(contrib_)?(conv|dense|batch_matmul|matmul|depthwise)")


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

    def precision(self, nodes: Iterable[int]) -> str:
        """Return int8 for operators some of which compute in 8 bits, or change to them; else ""."""
        return INT8 if any(map(_is_in_bytes, (self.nodes[index] for index in nodes))) else ""

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


def is_layer(op: str) -> bool:
    """Return whether a Relay operator is a convolution or a product."""
    return bool(_LAYER.match(op))


def _is_in_bytes(node: GraphNode) -> bool:
    """Return whether an operator is a quantised one, or a layer of integers."""
    is_of_integers = is_layer(node.op) and node.type.startswith("int32")
    return is_of_integers or node.op.startswith("qnn.")


@dataclasses.dataclass(frozen=True)
class Part:
    """Nodes that run as one in a plan, with all that is free among them."""

    backend: str  # tvm for the host target
    nodes: tuple[int, ...]
    seconds: float | None  # alone; None where nobody measured that
    flags: tuple[str, ...] = ()  # what makes them doubtful


class Known:
    """The seconds of measured candidates, by backend and operators."""

    def __init__(self, net: Net, costed: Iterable[CostedCandidate]) -> None:
        self._net = net
        self._best: dict[str, dict[frozenset[int], Part]] = {}
        for row in costed:
            if row.cost.seconds is not None:
                of_backend = self._best.setdefault(row.backend, {})
                operators = frozenset(net.shown(row.nodes))
                part = Part(row.backend, row.nodes, row.cost.seconds, flags=row.cost.flags)
                pair = of_backend.get(operators, part), part
                of_backend[operators] = min(pair, key=lambda each: each.seconds or 0.0)

    def part(self, backend: str, nodes: Iterable[int], cost: PartCost) -> Part:
        """Return a plan's part by its own cost; where nobody measured it as a part (0 is what is
        free, or what TVM cannot fuse), by that of a candidate of just its operators there."""
        nodes = tuple(nodes)
        if cost.seconds:
            return Part(backend, nodes, cost.seconds, flags=cost.flags)
        best = self._best.get(backend, {}).get(frozenset(self._net.shown(nodes)))
        return dataclasses.replace(best, nodes=nodes) if best else Part(backend, nodes, None)

    def tvms_kernels(self, placed: Collection[int]) -> list[Part]:
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
        rows = self._rows(sorted(left), results)
        found += (Part(TVM_ALONE, tuple(row), None) for row in rows)
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
class Difference:
    """A place where two plans differ: kernels that they split into other parts, or give to
    others."""

    function: str
    ops: tuple[str, ...]  # of the kernels
    nodes: tuple[int, ...]  # the kernels
    there: tuple[Part, ...]  # of the other plan
    here: tuple[Part, ...]  # of the plan that it is compared with

    @property
    def loss(self) -> float | None:
        """Return by how many seconds the parts there take longer; None where a part was not
        measured."""
        there, here = (seconds_together(side) for side in (self.there, self.here))
        return None if there is None or here is None else there - here


class PlanParts:
    """The parts of a report's plans over the graph of one function."""

    def __init__(self, report: Report, function: SearchedFunction) -> None:
        self.function, self.graph = function.function, function.graph or FunctionGraph()
        self.kernels = {node.index for node in self.graph.nodes if node.is_kernel}
        self._host = report.host_kind
        self._seen = report.placements or SeenPlans()
        self._net = Net(self.graph)
        self._known = Known(self._net, self.graph.costed)

    def parts(self, plan: str) -> list[Part]:
        """Return those of a plan with kernels. PlacementError for no plan."""
        found: list[Part] = []
        placed: set[int] = set()
        for part in self._seen.placement(plan).function(self.function).parts:
            is_tvms = part.backend in (self._host, FREE)
            if is_tvms and not (part.cost.is_usable and self.kernels.intersection(part.nodes)):
                continue  # among TVM's kernels below
            backend = TVM_ALONE if is_tvms else part.backend
            found.append(self._known.part(backend, part.nodes, part.cost))
            placed.update(part.nodes)
        tvms = self._known.tvms_kernels(placed)
        found += (part for part in tvms if self.kernels.intersection(part.nodes))
        return [dataclasses.replace(part, nodes=tuple(sorted(part.nodes))) for part in found]

    def differences(self, here: str, there: str) -> list[Difference]:
        """Return where two plans differ, the places that cost the second one most first."""
        mine, others = self.parts(here), self.parts(there)
        found = []
        for nodes in _components([*mine, *others]):
            own, other = (
                tuple(part for part in side if nodes.intersection(part.nodes))
                for side in (mine, others)
            )
            if set(own) != set(other):
                kernels = tuple(sorted(nodes & self.kernels))
                where = (self.function, self.ops_of(kernels), kernels)
                found.append(Difference(*where, there=other, here=own))
        return sorted(found, key=lambda item: -(item.loss or 0.0))

    def ops_of(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """Return the nodes' operators, for people."""
        return tuple(self._net.nodes[node].op or "call of a function" for node in nodes)


def _components(parts: Iterable[Part]) -> list[frozenset[int]]:
    """Return the smallest sets of nodes that no part lies across the border of."""
    of_node: dict[int, set[int]] = {}
    for part in parts:
        others = {id(of_node[node]): of_node[node] for node in part.nodes if node in of_node}
        whole = set(part.nodes).union(*others.values())
        of_node.update(dict.fromkeys(whole, whole))
    sets = {id(of_node[node]): of_node[node] for node in sorted(of_node)}
    return [frozenset(each) for each in sets.values()]
