# SPDX-License-Identifier: Apache-2.0
"""The graph of one function of a report, what was measured of it, and the kernels that TVM is left
with in a plan: explanations and pictures read all of it here.

Precondition: the report is one of `full_report`. Test: report/test_net.py.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ..plans.competing import TVM_ALONE

# As placements call who runs what launches no kernel.
FREE = "host"
_SHOWN = ("call", "call_other", "function", "other")
_SEEN_THROUGH = ("tuple", "projection")
_MOST_OPS = 4


class Net:
    """The graph of one function of a report."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.nodes: dict[int, dict[str, Any]] = {row["index"]: row for row in graph["nodes"]}

    def is_shown(self, index: int) -> bool:
        """Whether a node computes something."""
        return index in self.nodes and self.nodes[index]["kind"] in _SHOWN

    def shown(self, nodes: Iterable[int]) -> list[int]:
        """Those of the nodes that compute something."""
        return [index for index in nodes if self.is_shown(index)]

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

    @functools.cached_property
    def readers(self) -> dict[int, list[int]]:
        """The operators that read a value, through tuples."""
        found: dict[int, list[int]] = {}
        for index in self.shown(self.nodes):
            for value in self.sources(index):
                found.setdefault(value, []).append(index)
        return found

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


def host_kind(report: dict[str, Any]) -> str:
    """As placements call TVM: the kind of the host target, such as llvm."""
    return str(report["host"]).split(" ", 1)[0]


def short_name(node: dict[str, Any]) -> str:
    """An operator without its folder: nn.conv2d is conv2d."""
    return str(node["op"] or node["kind"]).rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Nodes that run as one, as they were measured with all that is free among them; seconds alone,
    None for a row of operators that nobody measured, and the flags of that cost."""

    nodes: tuple[int, ...]
    seconds: float | None
    flags: tuple[str, ...] = ()


class Known:
    """What candidates were measured at, by backend and operators."""

    def __init__(self, net: Net, costed: Iterable[dict[str, Any]]) -> None:
        self._net = net
        self._best: dict[str, dict[frozenset[int], Kernel]] = {}
        for row in costed:
            cost = row["cost"]
            if (seconds := cost["seconds"]) is not None:
                of_backend = self._best.setdefault(row["backend"], {})
                operators = frozenset(net.shown(row["nodes"]))
                best = of_backend.get(operators)
                if best is None or seconds < (math.inf if best.seconds is None else best.seconds):
                    of_backend[operators] = Kernel(
                        tuple(row["nodes"]), seconds, tuple(cost.get("flags", ()))
                    )

    def part(self, backend: str, nodes: Iterable[int], cost: dict[str, Any]) -> Kernel:
        """A plan's part by its own cost; where nobody measured it as a part (0 is what is free, or
        what TVM cannot fuse), by that of a candidate of just its operators there."""
        nodes = tuple(nodes)
        if cost["seconds"]:
            return Kernel(nodes, cost["seconds"], tuple(cost.get("flags", ())))
        best = self._best.get(backend, {}).get(frozenset(self._net.shown(nodes)))
        return dataclasses.replace(best, nodes=nodes) if best else Kernel(nodes, None)

    def tvms_kernels(self, placed: Collection[int]) -> list[Kernel]:
        """The operators that no part holds, in order: the largest kernels that were measured, then
        what is left, rows together of which each operator feeds the next alone.

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
        found += (Kernel(tuple(row), None) for row in self._rows(sorted(left), results))
        return sorted(found, key=lambda kernel: min(kernel.nodes))

    def _gives_one(self, operators: frozenset[int], results: set[int]) -> bool:
        """Whether all but the last are read inside alone."""
        last = max(operators)
        return all(
            index == last or (index not in results and operators.issuperset(readers))
            for index in operators
            for readers in [self._net.readers.get(index, [])]
        )

    def _rows(self, left: list[int], results: set[int]) -> Iterator[list[int]]:
        """Operators that follow each other, and nothing else reads or feeds."""
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
