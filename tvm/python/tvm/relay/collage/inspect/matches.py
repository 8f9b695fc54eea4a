# SPDX-License-Identifier: Apache-2.0
"""Matches of a dataflow pattern in a function: see them before writing it into a pattern table.

    data, weight = wildcard(), is_constant()
    for match in collage.find_matches(is_op("nn.conv2d")(data, weight), mod["main"]):
        print(match, match.expr(weight))

A match means what TVM's matcher means by it, but overlapping ones are all found (docs/rules.md).
Test: inspect/test_matches.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tvm import relay
from tvm._ffi import get_global_func
from tvm.relay.dataflow_pattern import DFPattern

from ..files.records import read_json
from ..views import DataflowGraph, IndexSet
from .look import dataflow_graph


@dataclasses.dataclass(frozen=True)
class Match:
    """One match; node numbers are those of ``graph``.

    root: the node that the whole pattern stands for.
    bindings: each part of the pattern that took part, in the pattern's own order, with the nodes
        that it stands for: one, except for the parts of a dominator's path.
    inside: the nodes that the pattern describes; what a wildcard or another leaf stands for is
        input.
    """

    graph: DataflowGraph = dataclasses.field(repr=False)
    root: int
    bindings: Mapping[DFPattern, tuple[int, ...]]
    inside: IndexSet

    def expr(self, part: DFPattern | None = None) -> relay.Expr | None:
        """Return the expression that ``part`` (without it, the pattern) stands for; None if for
        none."""
        if part is None:
            return self.graph.expr(self.root)
        nodes = self.bindings.get(part)
        return self.graph.expr(nodes[0]) if nodes else None

    def Summary(self) -> str:
        """Return one line: the root and the nodes inside."""
        return f"match at {self.graph.node(self.root).Summary()} of {self.inside.Summary()}"

    __str__ = Summary


@dataclasses.dataclass(frozen=True)
class Binding:
    """A part of the pattern by its place among all parts, and what it stands for."""

    part: int
    nodes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FoundMatch:
    """A match as C++ tells it (border.schema.json)."""

    root: int
    bindings: tuple[Binding, ...]
    inside: IndexSet


def find_matches(pattern: DFPattern, function: relay.Function | DataflowGraph) -> list[Match]:
    """Return every match of ``pattern`` in a typed function, by ascending root, overlapping ones
    too.

    One root may have several: first TVM's, then those by other alternatives and other orders of the
    arguments of add and multiply, also where only the bindings differ; at most 64 of them, of 1,024
    ways tried. A root that TVM's matcher refuses has none.

    A function is looked at as it is written; `dataflow_graph(function)` is what the pass looks at.

    Raises TypeError when ``pattern`` is none, ModuleError when ``function`` is no Relay function.
    """
    if not isinstance(pattern, DFPattern):
        raise TypeError(f"a DFPattern is wanted, got {type(pattern).__name__}")
    is_graph = isinstance(function, DataflowGraph)
    graph = function if is_graph else dataflow_graph(function, as_written=True)
    found = read_json(list[FoundMatch], get_global_func("collage.FindMatches")(pattern, graph))
    parts = list(get_global_func("collage.PartsOfPattern")(pattern))
    return [
        Match(graph, m.root, {parts[b.part]: b.nodes for b in m.bindings}, inside=m.inside)
        for m in found
    ]
