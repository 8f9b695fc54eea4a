# SPDX-License-Identifier: Apache-2.0
"""Weights of products in 8 bits: a quarter of the memory that a product of few rows waits for.

Each column of a matrix has a step of its own, the largest magnitude in it by 127 (symmetric
quantisation by output channel), so that its largest weight is exact.
Test: backends/onnx_model/test_weights.py.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from ...ops.onnx_names import captured, own_opset
from .builder import OPSET

_LARGEST = 127
# Before it DequantizeLinear has no axis.
FIRST_OPSET = 13
# A matrix of fewer weights is in the caches anyway.
_FEWEST = 1 << 14


def compress_weights(model: ModelProto) -> ModelProto:
    """Return the model, changed, with 8 bits for the float32 matrices that products alone read."""
    graph = model.graph
    if own_opset(model, OPSET) < FIRST_OPSET:  # nodes of a user's file keep their version
        return model
    constants = {tensor.name: tensor for tensor in graph.initializer}
    compressed = []
    for name, axis in sorted(_columns(graph).items()):
        if name not in constants or not _is_large_matrix(constants[name]):
            continue
        steps, rounded = _in_bytes(numpy_helper.to_array(constants[name]), axis)
        constants[name].CopyFrom(numpy_helper.from_array(rounded, f"{name}.int8"))
        graph.initializer.append(numpy_helper.from_array(steps, f"{name}.steps"))
        inputs = [f"{name}.int8", f"{name}.steps"]
        compressed.append(helper.make_node("DequantizeLinear", inputs, [name], name, axis=axis))
    nodes = [*compressed, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _columns(graph: GraphProto) -> dict[str, int]:
    """Return the values that are right operands of products and nothing else, each with the axis of
    its columns, the same in all of them."""
    axes: dict[str, set[int]] = {}
    others: set[str] = set()
    for node in graph.node:
        if node.op_type in ("MatMul", "Gemm"):
            is_turned = any(each.name == "transB" and each.i for each in node.attribute)
            axes.setdefault(node.input[1], set()).add(0 if is_turned else 1)
            others.update((node.input[0], *node.input[2:]))
        else:
            others.update((*node.input, *captured(node)))
    return {
        name: min(found) for name, found in axes.items() if len(found) == 1 and name not in others
    }


def _is_large_matrix(tensor: TensorProto) -> bool:
    is_float = tensor.data_type == TensorProto.FLOAT
    return is_float and len(tensor.dims) == 2 and int(np.prod(tensor.dims)) >= _FEWEST


def _in_bytes(weights: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the step of each column, and the weights in these steps."""
    steps = np.abs(weights).max(axis=1 - axis, keepdims=True) / np.float32(_LARGEST)
    steps[steps == 0] = 1
    return steps.reshape(-1), np.rint(weights / steps).astype("int8")
