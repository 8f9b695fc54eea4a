# SPDX-License-Identifier: Apache-2.0
"""Finds what oneDNN computes on bytes in a graph of floats between dequantize and quantize.

A convolution or dense layer of dequantised data and weights is a product of bytes whose sums are
dequantised, and what only moves or compares elements is done to the bytes. A bias goes into the
sums. Where bytes would be wrong (weights with a zero point, a CPU without VNNI) floats stay.
Precondition: nodes are Relay's ops. Test: backends/dnnl/test_fake_quantised.py.
"""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tvm

from ..partition.graph import Graph, Operation
from .types import BYTES, why_bytes_are_inexact

_DEQUANTIZE, _QUANTIZE = "qnn.dequantize", "qnn.quantize"
# A product in floats -> that in bytes.
_PRODUCTS = {"nn.conv2d": "qnn.conv2d", "nn.dense": "qnn.dense"}
_SUMS = ("add", "nn.bias_add")
_MOVES = (
    *("nn.max_pool2d", "nn.batch_flatten", "reshape", "squeeze", "expand_dims", "transpose"),
    "strided_slice",
)


class _Dequantised(NamedTuple):
    """Bytes, tensors of one scale and zero point or one for each place of an axis."""

    data: int
    scale: int
    zero: int
    axis: int


def products_of_bytes(graph: Graph) -> None:
    """Put products and moves of bytes in place of those of floats."""
    found = {
        node.output: _Dequantised._make([*node.inputs[:3], int(node.attrs.axis)])
        for node in graph.nodes
        if node.op == _DEQUANTIZE and all(each in graph.constants for each in node.inputs[1:])
    }
    if not found:
        return
    for tensor, each in found.items():
        if each.data in graph.constants and tensor not in graph.outputs:
            graph.constants[tensor] = tvm.nd.array(_floats(graph, each))
    nodes: list[Operation] = []
    users = graph.users()
    taken: set[int] = set()  # outputs of nodes that others compute
    for node in graph.nodes:
        readers = [] if node.output in graph.outputs else users.get(node.output, [])
        only = readers[0] if len(readers) == 1 else None
        if node.output in taken or node.output in graph.constants:
            continue
        if node.op in _PRODUCTS and not why_bytes_are_inexact():
            made = _product(graph, found, node, reader=only)
        elif node.op in _MOVES and only is not None:
            made = _move(graph, found, node, reader=only)
        else:
            made = []
        taken.update(each.output for each in made)
        nodes += made or [node]
    graph.nodes = nodes


def _product(
    graph: Graph, found: dict[int, _Dequantised], node: Operation, reader: Operation | None
) -> list[Operation]:
    """Return a product of bytes, with a bias that reads it, and its dequantisation; nothing where
    it has to be one of floats."""
    data, weights = (found.get(tensor) for tensor in node.inputs)
    if data is None or weights is None or graph.scalar(data.scale) is None:
        return []
    is_known = graph.dtypes[data.data] in BYTES and weights.data in graph.constants
    is_signed = graph.dtypes[weights.data] == "int8" and not _numbers(graph, weights.zero).any()
    factors = _numbers(graph, weights.scale)
    axis, channels = _channels(node, len(graph.shapes[node.output]))
    if not is_known or not is_signed or (factors.size > 1 and weights.axis != axis):
        return []
    factors = (factors * _numbers(graph, data.scale)).astype("float32").reshape(-1)
    total = graph.new_tensor(graph.shapes[node.output], "int32")
    zero = graph.new_constant(tvm.nd.array(np.zeros((), "int32")))
    inputs = [data.data, weights.data, data.zero, zero]
    made = [Operation(_PRODUCTS[node.op], inputs, total, attrs=node.attrs)]
    output = node.output
    bias = _bias(graph, node, reader, channels=channels)
    if bias is not None and reader is not None:
        biased = graph.new_tensor(graph.shapes[total], "int32")
        shape = [1] * len(graph.shapes[total])
        shape[channels] = -1
        values = (bias / factors).astype("float32").reshape(shape)
        made.append(Operation("add", [total, graph.new_constant(tvm.nd.array(values))], biased))
        total, output = biased, reader.output
    constants = (factors, np.zeros(factors.shape, "int32"))
    inputs = [total, *(graph.new_constant(tvm.nd.array(each)) for each in constants)]
    attrs = types.SimpleNamespace(axis=channels)
    return [*made, Operation(_DEQUANTIZE, inputs, output, attrs=attrs)]


def _channels(node: Operation, rank: int) -> tuple[int, int]:
    """Return the axes of channels in the weights and in the result."""
    if node.op == "nn.dense":
        return 0, rank - 1
    layout = str(node.attrs.out_layout) or str(node.attrs.data_layout)
    return str(node.attrs.kernel_layout).find("O"), layout.find("C")


def _bias(
    graph: Graph, node: Operation, reader: Operation | None, channels: int
) -> np.ndarray | None:
    """Return the numbers that a product's reader adds to its channels, if it does."""
    if reader is None or reader.op not in _SUMS or node.output not in reader.inputs:
        return None
    others = [tensor for tensor in reader.inputs if tensor != node.output]
    if len(others) != 1 or others[0] not in graph.constants:
        return None
    result, values = graph.shapes[node.output], _numbers(graph, others[0])
    if graph.shapes[reader.output] != result:
        return None
    if reader.op == "nn.bias_add":
        is_own = int(reader.attrs.axis) % len(result) == channels
        return values if is_own else None
    places = [1] * (len(result) - values.ndim) + list(values.shape)
    is_own = all(extent == 1 for axis, extent in enumerate(places) if axis != channels)
    return values.reshape(-1) if is_own else None


def _move(
    graph: Graph, found: dict[int, _Dequantised], node: Operation, reader: Operation
) -> list[Operation]:
    """Move the bytes where floats were moved that only a quantisation with the same numbers
    reads."""
    data = found.get(node.inputs[0])
    if data is None or reader.op != _QUANTIZE or len(node.inputs) > 1:
        return []
    pairs = zip((data.scale, data.zero), reader.inputs[1:], strict=True)
    are_same = all(
        graph.scalar(mine) is not None and graph.scalar(mine) == graph.scalar(other)
        for mine, other in pairs
    )
    if not are_same or graph.dtypes[reader.output] != graph.dtypes[data.data]:
        return []
    return [Operation(node.op, [data.data], reader.output, attrs=node.attrs)]


def _floats(graph: Graph, each: _Dequantised) -> np.ndarray:
    values, scale, zero = (_numbers(graph, tensor) for tensor in (each.data, each.scale, each.zero))
    shape: Sequence[int] = ()
    if math.prod(scale.shape) > 1:
        shape = [-1 if axis == each.axis % values.ndim else 1 for axis in range(values.ndim)]
    return ((values.astype("float32") - zero.reshape(shape)) * scale.reshape(shape)).astype(
        "float32"
    )


def _numbers(graph: Graph, tensor: int) -> np.ndarray:
    return graph.constants[tensor].numpy()
