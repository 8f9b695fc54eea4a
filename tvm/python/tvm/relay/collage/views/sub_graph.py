# SPDX-License-Identifier: Apache-2.0
"""Nodes that could be a partition, and the limits of one. Test: views/test_views.py."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tvm._ffi import register_object

from ..records import read
from .graph import DataflowGraph
from .handle import IndexSet, OpKind, View, call


@dataclasses.dataclass(frozen=True)
class SubGraphConfig:
    """Limits that a backend sets on its partitions; the defaults allow everything.

    max_depth: calls on the longest path inside, max_exits: values used outside; 0 is no limit.
    allow_taps: whether a value may be used inside and outside.
    """

    max_depth: int = 0
    max_exits: int = 0
    allow_taps: bool = True

    def Summary(self) -> str:
        """One line: "depth <= 4, exits <= 1, no taps"; "no limit" for the defaults."""
        limits = [f"depth <= {self.max_depth}"] if self.max_depth else []
        limits += [f"exits <= {self.max_exits}"] if self.max_exits else []
        limits += [] if self.allow_taps else ["no taps"]
        return ", ".join(limits) or "no limit"


@dataclasses.dataclass(frozen=True)
class NestedSubGraph:
    """A part of a sub-graph that becomes one function with that `Composite` attribute, and `attrs`
    beside it."""

    composite: str
    inside: IndexSet
    attrs: dict[str, Any]


@register_object("collage.SubGraph")
class SubGraph(View):
    """A set of placeable nodes of one graph, with what crosses its border.

    Two are equal that hold the same nodes of one graph with the same composites.
    """

    __slots__ = ()

    @property
    def graph(self) -> DataflowGraph:
        """The graph whose nodes it holds."""
        return call("GraphOf", self)

    @property
    def inside(self) -> IndexSet:
        """Its nodes; constants, variables and operators are reached from them, never members."""
        return IndexSet(self._fields["inside"])

    @property
    def entries(self) -> IndexSet:
        """Inside nodes that read an input."""
        return IndexSet(self._fields["entries"])

    @property
    def exits(self) -> IndexSet:
        """Inside nodes that are read outside or are the function's result."""
        return IndexSet(self._fields["exits"])

    @property
    def inputs(self) -> IndexSet:
        """Outside nodes that are read, constants and callees left out."""
        return IndexSet(self._fields["inputs"])

    @property
    def outputs(self) -> IndexSet:
        """Outside nodes that read an exit."""
        return IndexSet(self._fields["outputs"])

    @property
    def constants(self) -> IndexSet:
        """Constants that are read; they are bound into the exported function."""
        return IndexSet(self._fields["constants"])

    @property
    def nested(self) -> tuple[NestedSubGraph, ...]:
        """Its composites, by first node."""
        return tuple(read(NestedSubGraph, fields) for fields in self._fields["nested"])

    @property
    def kind(self) -> OpKind:
        """The strongest kind inside; tuples of tensors and projections count as injective."""
        return OpKind(self._fields["kind"])

    @property
    def depth(self) -> int:
        """Calls on the longest path inside."""
        return self._fields["depth"]

    @property
    def has_taps(self) -> bool:
        """Whether an exit also feeds an inside node."""
        return self._fields["has_taps"]

    def __len__(self) -> int:
        return len(self._fields["inside"])

    def why_invalid(self, config: SubGraphConfig | None = None) -> str:
        """The first reason why it can be no partition within `config`; "" when it can."""
        limits = dataclasses.asdict(config or SubGraphConfig())
        return str(call("WhyInvalid", self, json.dumps(limits)))

    def is_valid(self, config: SubGraphConfig | None = None) -> bool:
        """Whether it is convex, in one scope, its composites disjoint, and within `config`."""
        return not self.why_invalid(config)

    def _identity(self) -> tuple[Any, ...]:
        # The function's address names the graph: the graph's handle is made anew at each use.
        nested = tuple((part.composite, part.inside, repr(part.attrs)) for part in self.nested)
        return self.graph.function.handle.value, self.inside, nested

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubGraph) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())
