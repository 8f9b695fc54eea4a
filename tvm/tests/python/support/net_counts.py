# SPDX-License-Identifier: Apache-2.0
"""Parameters and multiply-accumulates of an ONNX model, read from its graph, whose shapes are
static."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import onnx
from models.graph import infer_shapes
from onnx import TensorProto

# Inputs of a BatchNormalization that training does not learn: running mean and variance.
_RUNNING_STATISTICS = slice(3, 5)
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


class Counts(NamedTuple):
    """parameters: learned numbers (neither running statistics nor constants); macs: those of
    convolutions and products of matrices in one run, None if a shape among them is not known."""

    parameters: int
    macs: int | None
    nodes: int


def count(model: onnx.ModelProto) -> Counts:
    """What a model holds and does."""
    graph = model.graph
    skipped = {
        name
        for node in graph.node
        if node.op_type == "BatchNormalization"
        for name in node.input[_RUNNING_STATISTICS]
    }
    parameters = sum(
        math.prod(item.dims)
        for item in graph.initializer
        if item.data_type in _FLOATS
        and item.name not in skipped
        and not item.name.startswith("constant")
    )
    shapes = infer_shapes(model)
    macs = [_node_macs(node, shapes) for node in graph.node if node.op_type in _PRODUCTS]
    return Counts(parameters, None if None in macs else sum(macs), len(graph.node))


def _node_macs(node: Any, shapes: dict[str, tuple[int, ...]]) -> int | None:
    """Multiply-accumulates of a product's node."""
    needed = [*node.input[:2], node.output[0]]
    if not all(name in shapes for name in needed):
        return None
    data, weight, output = (shapes[name] for name in needed)
    if node.op_type == "Conv":
        return math.prod(output) * math.prod(weight[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(data) * math.prod(weight[1:])
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return math.prod(output) * data[0 if transposed else 1]
    return math.prod(output) * data[-1]
