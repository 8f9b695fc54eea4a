# SPDX-License-Identifier: Apache-2.0
"""A function as the rules and the search see it. Test: views/test_views.py."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tvm import relay
from tvm._ffi import get_global_func, register_object

from ..records import read_json
from .handle import IndexSet, OpKind, TensorType, View, call, ints

if TYPE_CHECKING:
    from .sub_graph import SubGraph


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a DataflowGraph.

    index: its place in the post-dfs order of the function.
    type: "call" (of an op), "call_other", "tuple", "projection", "function", "other" (control
        flow, references; `name` says which), or a leaf: "var", "const", "op", "global",
        "constructor"; or "left_out": it only names another node's value, which its readers read
        (a variable's pure let, a field of a tuple that is written out), or nobody reads it.
    name: the op of a call or op node, the hint of a variable.
    kind: what TVM can fuse it with.
    attrs: of a call or a function, as plain values; of what is none, its type and hash as text.
    types: one TensorType, or several for a tuple; () when it is no tensor or the type is unknown.
    projection: the field that a projection reads, else -1.
    inputs: nodes that it reads, callee first, repeated as often as they are read.
    outputs: nodes that read it, ascending.
    dominator: its immediate post-dominator, -1 for none.
    scope: the number of the function, branch, clause or let body that it belongs to.
    num_bytes: size of its value; 0 when not known at compile time.
    is_placeable: whether a partition can hold it. is_result: whether the function returns it.
    """

    index: int
    type: str
    name: str
    kind: OpKind
    attrs: dict[str, Any]
    types: tuple[TensorType, ...]
    is_tuple: bool
    projection: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dominator: int
    scope: int
    num_bytes: int
    is_placeable: bool
    is_result: bool
    summary: str = dataclasses.field(repr=False)

    @property
    def op(self) -> str:
        """The op's name of a call of an op, else ""."""
        return self.name if self.type == "call" else ""

    def Summary(self) -> str:
        """One line: "%5 = add(%0, %1)"."""
        return self.summary


@register_object("collage.DataflowGraph")
class DataflowGraph(View):
    """One Relay function as flat arrays over its post-dfs order; what all rules and the search see.

    ``len(graph)`` nodes, ``graph[i]`` the i-th, ``for node in graph`` all.
    """

    __slots__ = ()

    def __len__(self) -> int:
        return self._fields["size"]

    def __iter__(self) -> Iterator[Node]:
        return map(self.node, range(len(self)))

    def __getitem__(self, index: int) -> Node:
        return self.node(index)

    @property
    def function(self) -> relay.Function:
        """The function that was imported."""
        return call("Function", self)

    @property
    def result(self) -> int:
        """The node that the function returns."""
        return self._fields["result"]

    @property
    def placeable(self) -> IndexSet:
        """The nodes that a cover must place."""
        return IndexSet(self._fields["placeable"])

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
        """The node; IndexError outside of the graph."""
        return read_json(Node, call("NodeFields", self, self._checked(index)))

    def expr(self, index: int) -> relay.Expr:
        """The node's Relay expression; IndexError outside of the graph."""
        return call("Expr", self, self._checked(index))

    def sub_graph(
        self,
        indices: Iterable[int],
        composites: Mapping[str, Iterable[int]] | Iterable[tuple[str, Iterable[int]]] = (),
    ) -> SubGraph:
        """The SubGraph of those nodes; `composites` are labels and the nodes inside of each, as a
        mapping, or as pairs where a label occurs twice.

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
