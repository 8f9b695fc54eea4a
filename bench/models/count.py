# SPDX-License-Identifier: Apache-2.0
"""Parameters and multiply-accumulates of an ONNX model, read from its graph.

Shapes should be static. Test: bench/test_models.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, helper

# Inputs of a BatchNormalization that training does not learn: running mean and variance.
_RUNNING_STATISTICS = slice(3, 5)
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Larger initializers are left out of shape inference: no shape depends on a weight.
_SHAPE_VALUES = 1024


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


def infer_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Static shapes by tensor name; others are left out. The model is not changed.

    Weights become inputs for the inference, so that hundreds of megabytes are not copied.
    """
    graph = model.graph
    large = [item for item in graph.initializer if math.prod(item.dims) > _SHAPE_VALUES]
    small = [item for item in graph.initializer if math.prod(item.dims) <= _SHAPE_VALUES]
    names = {item.name for item in graph.initializer}
    inputs = [item for item in graph.input if item.name not in names]
    inputs += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in large]
    light = helper.make_model(
        helper.make_graph(graph.node, "shapes", inputs, graph.output, small),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )
    found = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    shapes = {item.name: tuple(item.dims) for item in graph.initializer}
    for info in [*found.input, *found.value_info, *found.output]:
        dims = info.type.tensor_type.shape.dim
        if info.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
            shapes[info.name] = tuple(d.dim_value for d in dims)
    return shapes


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
