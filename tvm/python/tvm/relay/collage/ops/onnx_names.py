# SPDX-License-Identifier: Apache-2.0
"""Names of values that ONNX nodes read and write, in the bodies of a node (If, Loop, Scan) too.

Test: ops/test_onnx_node.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

# Another name of ONNX's own domain, "".
_OWN = "ai.onnx"


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


def has_body(node: onnx.NodeProto) -> bool:
    """Tell whether a node runs others (If, Loop, Scan)."""
    return any(True for _ in _bodies(node))


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the bodies of its nodes."""
    yield graph
    for node in graph.node:
        for body in _bodies(node):
            yield from graphs_in(body)


def count_nodes(graph: onnx.GraphProto) -> int:
    """Return how many nodes a graph has, those in bodies too."""
    return sum(len(each.node) for each in graphs_in(graph))


def plainly_named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with "" for ONNX's own domain, which may be called ai.onnx as well."""
    if all(each.domain != _OWN for each in model.opset_import) and _OWN not in domains(model.graph):
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    known = {each.domain for each in model.opset_import}
    for each in list(plain.opset_import):
        if each.domain == _OWN and "" in known:
            plain.opset_import.remove(each)
        elif each.domain == _OWN:
            each.domain = ""
    for graph in graphs_in(plain.graph):
        for node in graph.node:
            node.domain = "" if node.domain == _OWN else node.domain
    return plain


def own_opset(model: onnx.ModelProto, default: int) -> int:
    """Return the version of ONNX's own operators that a model names."""
    return next((each.version for each in model.opset_import if not each.domain), default)


def domains(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the domains of the operators in a graph and its bodies."""
    for each in graphs_in(graph):
        yield from (node.domain for node in each.node)


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
