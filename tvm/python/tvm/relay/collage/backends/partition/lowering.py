# SPDX-License-Identifier: Apache-2.0
"""Lowerings' shared pieces: refusing an op for an attribute, going by a table, the plainest rows.

Test: backends/dnnl/test_lower.py, backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import UnsupportedOpError
from .graph import Graph, Operation, reshaped

# From a node with Relay's op to a library's nodes of it, one or several.
LowerNode = Callable[[Graph, Operation], Operation | list[Operation]]


def check(graph: Graph, node: Operation, condition: object, attribute: str, value: object) -> None:
    """Raise UnsupportedOpError, naming the graph's backend, op, attribute and value, where the
    condition is not met."""
    if not condition:
        raise UnsupportedOpError(graph.backend, node.op, f"{attribute}={value} is not supported")


def lower_by(table: Mapping[str, LowerNode], graph: Graph) -> Graph:
    """Return the graph with each node lowered by the row of its op, without what nobody reads;
    consumes the given one. UnsupportedOpError names an op that has no row."""
    lowered: list[Operation] = []
    for node in graph.nodes:
        if node.op not in table:
            raise UnsupportedOpError(graph.backend, node.op, "the op is not in its table")
        made = table[node.op](graph, node)
        lowered += made if isinstance(made, list) else [made]
    graph.nodes = lowered
    graph.remove_unused()
    return graph


def plain(kind: str) -> LowerNode:
    """Return the lowering of an op to a node that needs no attributes."""
    return lambda graph, node: Operation(kind, node.inputs, node.output, attrs={})


def along_an_axis(kind: str) -> LowerNode:
    """Return the lowering of an op to a node along its attribute axis."""

    def lower(graph: Graph, node: Operation) -> Operation:
        axis = int(node.attrs.axis) % len(graph.shapes[node.output])
        return Operation(kind, node.inputs, node.output, attrs={"ints": {"axis": [axis]}})

    return lower


def vector_along(graph: Graph, vector: int, rank: int, axis: int) -> tuple[list[Operation], int]:
    """Return a vector as a tensor of that rank along an axis, and the node that it takes: none for
    a constant, nor along the last axis, where a vector broadcasts as it is."""
    shape = [graph.shapes[vector][0] if i == axis else 1 for i in range(rank)]
    if vector in graph.constants:
        return [], graph.new_constant(reshaped(graph.constants[vector], shape))
    if axis == rank - 1:
        return [], vector
    view = graph.new_tensor(shape, graph.dtypes[vector])
    return [Operation("reshape", [vector], view, attrs={})], view
