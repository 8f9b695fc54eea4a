# SPDX-License-Identifier: Apache-2.0
"""Moves biases and clamps into the node before them. Test: backends/xnnpack/test_lower.py."""

from __future__ import annotations

import math

from ..partition.graph import Graph, Operation
from .windows import LAYOUTS

_WITH_BIAS = ("conv", "deconv", "dense")
_WITH_CLAMP = (*_WITH_BIAS, "pool")


def fuse(graph: Graph) -> Graph:
    """Return the graph with as few nodes; consumes the given one."""
    users = graph.users()
    taken: set[int] = set()  # nodes that are part of another, by id
    for node in graph.nodes:
        while node.output not in graph.outputs:
            readers = users.get(node.output, [])
            if len(readers) != 1 or not _take_in(graph, node, readers[0]):
                break
            taken.add(id(readers[0]))
            node.output = readers[0].output
    graph.nodes = [node for node in graph.nodes if id(node) not in taken]
    return graph


def _take_in(graph: Graph, node: Operation, reader: Operation) -> bool:
    """Add the reader of its result to a node, if it can be; tell whether it was."""
    if graph.shapes[reader.output] != graph.shapes[node.output]:
        return False
    if reader.op == "clamp" and node.op in _WITH_CLAMP and "floats" not in node.attrs:
        node.attrs["floats"] = reader.attrs["floats"]
        return True
    if reader.op != "add" or node.op not in _WITH_BIAS or "floats" in node.attrs:
        return False
    others = [tensor for tensor in reader.inputs if tensor != node.output]
    if len(node.inputs) > 2 or len(others) != 1 or not _is_bias(graph, node, others[0]):
        return False
    node.inputs = [*node.inputs, graph.flattened(others[0])]
    return True


def _is_bias(graph: Graph, node: Operation, tensor: int) -> bool:
    """Tell whether a constant has one number for each channel of the node's result."""
    shape, result = graph.shapes[tensor], graph.shapes[node.output]
    axis = len(result) - 1
    if node.op != "dense":
        axis = ({0, 1, 2, 3} - {0, *LAYOUTS[node.attrs["strings"]["layout"]]}).pop()
    aligned = (1,) * (len(result) - len(shape)) + tuple(shape)
    per_channel = all(n == (result[i] if i == axis else 1) for i, n in enumerate(aligned))
    return tensor in graph.constants and per_channel and math.prod(shape) == result[axis]
