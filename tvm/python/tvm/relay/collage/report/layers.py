# SPDX-License-Identifier: Apache-2.0
"""A plan over the graph of a report: which part has which node, what parts cost alone, and where
two plans differ. For explanations and pictures. Test: report/test_explain.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ..plans.competing import TVM_ALONE
from ..plans.placement import SeenPlans
from ..views.function_report import FunctionGraph, GraphNode
from .net import FREE, Kernel, Known, Net, host_kind


@dataclasses.dataclass(frozen=True)
class Part:
    """Nodes that run together in a plan; seconds alone, None where nobody measured that, and what
    makes them doubtful."""

    backend: str
    nodes: frozenset[int]
    seconds: float | None
    flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Difference:
    """Kernels that two plans split into other parts, or give to others; seconds of these parts."""

    ops: tuple[str, ...]
    nodes: tuple[int, ...]
    here: tuple[Part, ...]
    there: tuple[Part, ...]

    @property
    def loss(self) -> float | None:
        """By how many seconds the parts there take longer; None where a part was not measured."""
        seconds = [_sum(self.there), _sum(self.here)]
        return None if None in seconds else seconds[0] - seconds[1]  # type: ignore[operator]


class Layers:
    """The parts of a report's plans over the graph of one function."""

    def __init__(
        self,
        report: dict[str, Any],
        seen: SeenPlans,
        function: dict[str, Any],
        graph: FunctionGraph,
    ):
        self.graph = graph
        self.node_of: dict[int, GraphNode] = {node.index: node for node in graph.nodes}
        self._kernels = [node.index for node in graph.nodes if node.is_kernel]
        self._host = host_kind(report)
        self._seen, self._function = seen, function["function"]
        self._known = Known(Net(function["graph"]), function["graph"]["costed"])

    def parts(self, plan: str) -> list[Part]:
        """Those of a plan with kernels. PlacementError for no plan."""
        placement = self._seen.placement(plan)
        found: list[Part] = []
        placed: set[int] = set()
        for part in placement.function(self._function).parts:
            is_tvms = part.backend in (self._host, FREE)
            nodes = frozenset(part.nodes)
            if is_tvms and not (part.cost.is_usable and nodes & set(self._kernels)):
                continue  # among TVM's kernels below
            backend = TVM_ALONE if is_tvms else part.backend
            found.append(_part(backend, self._known.part(backend, part.nodes, vars(part.cost))))
            placed |= nodes
        tvms = (_part(TVM_ALONE, kernel) for kernel in self._known.tvms_kernels(placed))
        return [*found, *(part for part in tvms if part.nodes & set(self._kernels))]

    def differences(self, here: str, there: str) -> list[Difference]:
        """Where two plans differ, the places that cost the second one most first."""
        mine, others = self.parts(here), self.parts(there)
        found = []
        for nodes in _components([*mine, *others]):
            parts = [[p for p in side if p.nodes & nodes] for side in (mine, others)]
            if set(parts[0]) == set(parts[1]):
                continue
            kernels = tuple(sorted(nodes & set(self._kernels)))
            ops = tuple(self.op_of(node) for node in kernels)
            found.append(Difference(ops, kernels, tuple(parts[0]), tuple(parts[1])))
        return sorted(found, key=lambda item: -(item.loss or 0.0))

    def op_of(self, node: int) -> str:
        return self.node_of[node].op or "call of a function"


def _part(backend: str, kernel: Kernel) -> Part:
    return Part(backend, frozenset(kernel.nodes), kernel.seconds, kernel.flags)


def _components(parts: Iterable[Part]) -> list[frozenset[int]]:
    """The smallest sets of nodes that no part lies across the border of."""
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
