# SPDX-License-Identifier: Apache-2.0
"""A placed graph as an ONNX file that Netron opens: to look at, not to run, since its operators are
TVM's. A part of several operators is a function of the file, each backend a domain.

Test: report/test_netron.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx
from onnx import helper

from .boxes import Box, BoxGraph, box_graph, chosen, graph_of
from .net import Net, short_name
from .record import Report

_IR_VERSION = 10  # the first with metadata of nodes
_TYPE = re.compile(r"(\w+)\[([^\]]*)\]")


def to_netron(report: Report, plan: str | None = None, function: str = "") -> bytes:
    """Return the file of a plan, of what ships unless one is named; of a function, or of the
    largest. CollageError where the report has none."""
    row, plan = chosen(report, plan, function)
    graph = box_graph(report, row, plan)
    return _Model(Net(graph_of(row)), graph).make(report, plan).SerializeToString()


class _Model:
    def __init__(self, net: Net, graph: BoxGraph) -> None:
        self._net, self._graph = net, graph
        self._functions: list[onnx.FunctionProto] = []
        self._names = Counter(row.name for row in net.nodes.values() if row.kind == "var")

    def make(self, report: Report, plan: str) -> onnx.ModelProto:
        boxes = self._graph.boxes
        nodes = [self._box(k, boxes[k]) for k in self._graph.order() if boxes[k].backend]
        inputs = [box.nodes[0] for box in boxes if box.kind == "input"]
        shown = [k for k in self._net.nodes if self._net.is_shown(k)]
        graph = helper.make_graph(
            nodes,
            plan,
            self._values(inputs),
            self._values(self._net.results()),
            value_info=self._values(shown),
        )
        domains = dict.fromkeys(box.backend for box in boxes if box.backend)
        model = helper.make_model(
            graph,
            functions=self._functions,
            opset_imports=[helper.make_opsetid(name, 1) for name in domains],
            ir_version=_IR_VERSION,
            producer_name="tvm-collage",
            doc_string=f"Plan {plan} for {report.host}. Domains are backends. Not to be run.",
        )
        helper.set_model_props(model, {"plan": plan, "host": report.host})
        return model

    def _box(self, k: int, box: Box) -> onnx.NodeProto:
        """Return one operator as a node, several as the call of a function."""
        if len(box.nodes) == 1:
            node = self._operator(box.nodes[0], box.backend)
            node.op_type = f"{box.backend}: {node.op_type}"
        else:
            inside = set(box.nodes)
            reads = [v for node in box.nodes for v in self._net.sources(node) if v not in inside]
            gives = [v for edge in self._graph.edges if edge.source == k for v in edge.values]
            comes = [self._value(v) for v in dict.fromkeys(reads)]
            goes = [self._value(v) for v in dict.fromkeys(gives or box.nodes[-1:])]
            kind = f"{box.backend}: {box.label} ({k})"
            self._functions.append(
                helper.make_function(
                    box.backend,
                    kind,
                    comes,
                    goes,
                    [self._operator(index, box.backend) for index in box.nodes],
                    [helper.make_opsetid(box.backend, 1)],
                )
            )
            node = helper.make_node(kind, comes, goes, name=f"part {k}", domain=box.backend)
        for key, text in (("backend", box.backend), ("time alone", box.time), ("rule", box.rule)):
            if text:
                node.metadata_props.add(key=key, value=text)
        return node

    def _operator(self, index: int, backend: str) -> onnx.NodeProto:
        row = self._net.nodes[index]
        node = helper.make_node(
            short_name(row),
            [self._value(value) for value in self._net.sources(index)],
            [self._value(index)],
            name=f"#{index} {row.name}".strip(),
            domain=backend,
        )
        for name, value in row.attrs.items():
            node.attribute.append(_attribute(name, value))
        weights = [
            self._net.nodes[value].type
            for value in row.inputs
            if value in self._net.nodes and self._net.nodes[value].kind == "const"
        ]
        if weights:
            node.metadata_props.add(key="constants", value=", ".join(weights))
        return node

    def _values(self, indexes: Iterable[int]) -> list[onnx.ValueInfoProto]:
        return [_value_info(self._value(index), self._net.nodes[index].type) for index in indexes]

    def _value(self, index: int) -> str:
        """Return an input's name, where it is the only one of that name; else the node's index."""
        row = self._net.nodes[index]
        is_named = row.kind == "var" and self._names[row.name] == 1
        return row.name if is_named else f"%{index}"


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Return numbers, texts and lists of one kind as they are; anything else as JSON text."""
    kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
    if len(kinds) == 1 and kinds <= {int, float, str}:
        return helper.make_attribute(name, value)
    return helper.make_attribute(name, json.dumps(value))


def _value_info(name: str, types: str) -> onnx.ValueInfoProto:
    """Return a value with its type; where that is none of ONNX's, or several, it stands as text."""
    found = _TYPE.fullmatch(types)
    kind = found and onnx.TensorProto.DataType.DESCRIPTOR.values_by_name.get(_onnx_name(found[1]))
    if not found or not kind:
        return helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, [], types)
    dims = [int(dim) if dim.isdigit() else dim for dim in found[2].split(", ") if dim]
    return helper.make_tensor_value_info(name, kind.number, dims)


def _onnx_name(kind: str) -> str:
    """Return ONNX's name of an element type."""
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(kind, kind.upper())
