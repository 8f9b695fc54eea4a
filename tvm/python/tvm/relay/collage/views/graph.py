# SPDX-License-Identifier: Apache-2.0
"""A function as the rules and the search see it, and the nodes of it that could be a partition.

Test: views/test_views.py.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tvm import relay
from tvm._ffi import get_global_func, register_object

from ..files.records import read_json
from .handle import IndexSet, OpKind, TensorType, View, call, fact, ints


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a DataflowGraph."""

    index: int  # its place in the post-dfs order of the function
    # "call" (of an op), "call_other", "tuple", "projection", "function", "other" (control flow,
    # references; `name` says which), or a leaf: "var", "const", "op", "global", "constructor"; or
    # "left_out": it only names another node's value, which its readers read (a variable's pure let,
    # a field of a tuple that is written out), or nobody reads it
    type: str
    name: str  # the op of a call or op node, the hint of a variable
    kind: OpKind  # what TVM can fuse it with
    # of a call or a function, as plain values; of what is none, its type and hash as text
    attrs: dict[str, Any]
    # one TensorType, or several for a tuple; () when it is no tensor or the type is unknown
    types: tuple[TensorType, ...]
    is_tuple: bool
    projection: int  # the field that a projection reads, else -1
    inputs: tuple[int, ...]  # nodes that it reads, callee first, repeated as often as they are read
    outputs: tuple[int, ...]  # nodes that read it, ascending
    dominator: int  # its immediate post-dominator, -1 for none
    scope: int  # the number of the function, branch, clause or let body that it belongs to
    num_bytes: int  # size of its value; 0 when not known at compile time
    is_placeable: bool  # whether a partition can hold it
    is_result: bool  # whether the function returns it
    summary: str = dataclasses.field(repr=False)

    @property
    def op(self) -> str:
        """Return the op's name of a call of an op, else ""."""
        return self.name if self.type == "call" else ""

    def Summary(self) -> str:
        """Return one line: "%5 = add(%0, %1)"."""
        return self.summary


@register_object("collage.DataflowGraph")
class DataflowGraph(View):
    """One Relay function as flat arrays over its post-dfs order; what all rules and the search see.

    ``len(graph)`` nodes, ``graph[i]`` the i-th, ``for node in graph`` all.
    """

    __slots__ = ()

    size: int = fact("how many nodes it has")
    result: int = fact("the node that the function returns")
    placeable: IndexSet = fact("the nodes that a cover must place")

    def __len__(self) -> int:
        return self._fields.size

    def __iter__(self) -> Iterator[Node]:
        return map(self.node, range(len(self)))

    def __getitem__(self, index: int) -> Node:
        return self.node(index)

    @property
    def function(self) -> relay.Function:
        """Return the function that was imported."""
        return call("Function", self)

    @functools.cached_property
    def _described(self) -> dict[str, Any]:
        return json.loads(get_global_func("collage.DescribeFunction")(self.function))

    @property
    def structural_hash(self) -> str:
        """16 hexadecimal digits: ops, attributes, types and wiring, the same in every process.

        Names of variables and values of weights are left out; `weights_hash` has those.
        """
        return self._described["key"]

    @property
    def weights_hash(self) -> str:
        """16 hexadecimal digits: the values of the function's weights, in their order."""
        return self._described["weights"]

    def node(self, index: int) -> Node:
        """Return the node; IndexError outside of the graph."""
        return read_json(Node, call("NodeFields", self, self._checked(index)))

    def expr(self, index: int) -> relay.Expr:
        """Return the node's Relay expression; IndexError outside of the graph."""
        return call("Expr", self, self._checked(index))

    def sub_graph(
        self,
        indices: Iterable[int],
        composites: Mapping[str, Iterable[int]] | Iterable[tuple[str, Iterable[int]]] = (),
    ) -> SubGraph:
        """Make the SubGraph of those nodes; `composites` are labels and the nodes inside of each,
        as a mapping, or as pairs where a label occurs twice.

        ValueError for a node that is not in the graph or cannot be placed. Whether the sub-graph
        makes sense is `is_valid`'s to say.
        """
        parts = list(composites.items() if isinstance(composites, Mapping) else composites)
        labels = [label for label, _ in parts]
        return call("SubGraph", self, ints(indices), labels, [ints(part) for _, part in parts])

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"node {index} is not in the {self.Summary()}")
        return index


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
        """Return one line: "depth <= 4, exits <= 1, no taps"; "no limit" for the defaults."""
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

    inside: IndexSet = fact(
        "its nodes; constants, variables and operators are reached from them, never members"
    )
    entries: IndexSet = fact("inside nodes that read an input")
    exits: IndexSet = fact("inside nodes that are read outside or are the function's result")
    inputs: IndexSet = fact("outside nodes that are read, constants and callees left out")
    outputs: IndexSet = fact("outside nodes that read an exit")
    constants: IndexSet = fact(
        "the constants that are read; they are bound into the exported function"
    )
    nested: tuple[NestedSubGraph, ...] = fact("its composites, by first node")
    kind: OpKind = fact(
        "the strongest kind inside; tuples of tensors and projections count as injective"
    )
    depth: int = fact("the calls on the longest path inside")
    has_taps: bool = fact("whether an exit also feeds an inside node")

    @property
    def graph(self) -> DataflowGraph:
        """Return the graph whose nodes it holds."""
        return call("GraphOf", self)

    def __len__(self) -> int:
        return len(self._fields.inside)

    def why_invalid(self, config: SubGraphConfig | None = None) -> str:
        """Return the first reason why it can be no partition within `config`; "" when it can."""
        limits = dataclasses.asdict(config or SubGraphConfig())
        return str(call("WhyInvalid", self, json.dumps(limits)))

    def is_valid(self, config: SubGraphConfig | None = None) -> bool:
        """Return whether it is convex, in one scope, its composites disjoint, and within
        `config`."""
        return not self.why_invalid(config)

    def _identity(self) -> tuple[Any, ...]:
        # The function's address names the graph: the graph's handle is made anew at each use.
        nested = tuple((part.composite, part.inside, repr(part.attrs)) for part in self.nested)
        return self.graph.function.handle.value, self.inside, nested

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubGraph) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())
