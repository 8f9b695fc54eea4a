# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of a single point, as products of matrices.

Generators of images begin so: a vector of noise becomes an image of 4 x 4. Each number of the
result meets each channel of the point once, which is a dense layer, but oneDNN runs the convolution
of an image that is nearly all padding. Of 100 channels to 512 of 4 x 4 that takes three times as
long as reading the weights.
Test: backends/dnnl/test_points.py.
"""

from __future__ import annotations

import math

import numpy as np
import tvm

from ..partition.graph import Graph, Operation


def products_of_points(graph: Graph) -> Graph:
    """Return the graph, fused already, with dense layers in their place; consumes the given one."""
    nodes: list[Operation] = []
    for node in graph.nodes:
        nodes += _as_product(graph, node) if _is_of_point(graph, node) else [node]
    graph.nodes = nodes
    return graph


def _is_of_point(graph: Graph, node: Operation) -> bool:
    """Tell whether a node is such a convolution, and each number of its result has its weights."""
    if node.op != "deconv":
        return False
    ints, strings = node.attrs["ints"], node.attrs["strings"]
    shape = graph.shapes[node.inputs[0]]
    extents = [shape[axis] for axis, letter in enumerate(strings["data_layout"]) if letter in "DHW"]
    # Beyond the window there is the bias alone, and between the taps of a dilated one.
    is_covered = set(ints["dilation"]) == {1} and min(ints["pad_l"] + ints["pad_r"]) >= 0
    return (
        set(extents) == {1}
        and strings["data_layout"][0] == "N"
        and is_covered
        and "G" not in strings["kernel_layout"]
        and all(tensor in graph.constants for tensor in node.inputs[1:])
        and {graph.dtypes[tensor] for tensor in [*node.inputs, node.output]} == {"float32"}
        and all(post.input < 0 for post in node.post_ops)
    )


def _as_product(graph: Graph, node: Operation) -> list[Operation]:
    ints, strings = node.attrs["ints"], node.attrs["strings"]
    data_layout, kernel_layout = strings["data_layout"], strings["kernel_layout"]
    data, weights, *bias = node.inputs
    image, batch = data_layout[1:], graph.shapes[node.output][0]
    # The weights that the padding does not cut off, in the order of the result, inputs last.
    spatial = "DHW"[-len(ints["pad_l"]) :]
    inside = {
        letter: slice(left, -right or None)
        for letter, left, right in zip(spatial, ints["pad_l"], ints["pad_r"], strict=True)
    }
    values = graph.constants[weights].numpy()
    values = values[tuple(inside.get(letter, slice(None)) for letter in kernel_layout)]
    axes = image.replace("C", "O") + "I"
    values = values.transpose([kernel_layout.index(letter) for letter in axes])
    outputs = values.shape[:-1]
    units = math.prod(outputs)
    inputs = [_new_constant(graph, values.reshape(units, -1))]
    if bias:
        numbers = graph.constants[bias[0]].numpy().reshape(-1)
        aligned = numbers.reshape([-1 if axis == "C" else 1 for axis in image])
        inputs.append(_new_constant(graph, np.broadcast_to(aligned, outputs).reshape(-1)))
    rows = graph.new_tensor((batch, values.shape[-1]))
    flat = graph.new_tensor((batch, units))
    return [
        Operation("reshape", [data], rows, {}),
        Operation("inner_product", [rows, *inputs], flat, {}, node.post_ops),
        Operation("reshape", [flat], node.output, {}),
    ]


def _new_constant(graph: Graph, values: np.ndarray) -> int:
    return graph.new_constant(tvm.nd.array(np.ascontiguousarray(values, "float32")))
