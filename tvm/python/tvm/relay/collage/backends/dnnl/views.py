# SPDX-License-Identifier: Apache-2.0
"""Views and slices: other shapes, orders and boxes of the same values.

Test: backends/dnnl/test_lower.py.
"""

from __future__ import annotations

import tvm

from ..ints import ints_of
from ..partition.graph import Graph, Node
from .attributes import check


def reshape(graph: Graph, node: Node) -> Node:
    return Node("reshape", node.inputs[:1], node.output, {})


def transpose(graph: Graph, node: Node) -> Node:
    rank = len(graph.shapes[node.output])
    axes = node.attrs.axes
    order = [int(axis) % rank for axis in axes] if axes else list(range(rank))[::-1]
    return Node("transpose", node.inputs, node.output, {"ints": {"axes": order}})


def split(graph: Graph, node: Node) -> Node:
    attrs, index = node.attrs
    source = graph.shapes[node.inputs[0]]
    axis = int(attrs.axis) % len(source)
    sections = attrs.indices_or_sections
    if isinstance(sections, (int, tvm.tir.IntImm)):
        start = source[axis] // int(sections) * index
    else:
        start = [0, *map(int, sections)][index]
    begin = [start if i == axis else 0 for i in range(len(source))]
    return Node("slice", node.inputs, node.output, {"ints": {"begin": begin}})


def strided_slice(graph: Graph, node: Node) -> Node:
    attrs = node.attrs
    source = graph.shapes[node.inputs[0]]
    strides = ints_of(attrs.strides)
    check(node, all(step == 1 for step in strides), "strides", strides)
    axes = ints_of(attrs.axes) if attrs.axes is not None else range(len(attrs.begin))
    begin = [0] * len(source)
    for axis, start in zip(axes, ints_of(attrs.begin)):
        extent = source[axis]
        begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
    return Node("slice", node.inputs, node.output, {"ints": {"begin": begin}})


def identity(graph: Graph, node: Node) -> Node:
    return Node("reshape", node.inputs[:1], node.output, {})
