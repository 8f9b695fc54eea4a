# SPDX-License-Identifier: Apache-2.0
"""Names of values that ONNX nodes read and write, in the bodies of a node (If, Loop, Scan) too.

Test: ops/test_onnx_node.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx


def renamed(node: onnx.NodeProto, new: Callable[[str], str]) -> onnx.NodeProto:
    """Return a node with other names of values, in its bodies too; "" stays."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, new)
    return copy


def _rename(node: onnx.NodeProto, new: Callable[[str], str]) -> None:
    node.input[:] = [name and new(name) for name in node.input]
    node.output[:] = [name and new(name) for name in node.output]
    for graph in _bodies(node):
        for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            value.name = new(value.name)
        for inner in graph.node:
            _rename(inner, new)


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def domains(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the domains of the operators in a graph and its bodies."""
    for node in graph.node:
        yield node.domain
        for body in _bodies(node):
            yield from domains(body)


def captured(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node's bodies read of the graph around it, each once."""
    found: dict[str, None] = {}
    for graph in _bodies(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            found.update((n, None) for n in (*inner.input, *captured(inner)) if n not in own)
            own.update(inner.output)
        found.update((value.name, None) for value in graph.output if value.name not in own)
    return [name for name in found if name]
