# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as what oneDNN has better kernels for, above all in image generators.

These begin with a vector of noise that becomes an image of 4 x 4. Each number of the result meets
each channel of the point once, which is a dense layer, but oneDNN runs the convolution of an image
that is nearly all padding. Of 100 channels to 512 of 4 x 4 that takes three times as long as
reading the weights.

They end with strided ones to few channels. oneDNN's kernel computes vectors of output channels, of
which 1 or 3 leave most lanes empty. With strides of s each result lies in one of s * s phases, by
its row and column modulo s, and each phase is a plain convolution of the image with some of the
weights: all of them are one convolution to s * s times as many channels, whose results are laid
beside each other. Test: backends/dnnl/test_points.py, backends/dnnl/test_phases.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import tvm

from ..partition.graph import Graph, Operation

# From so many channels on the kernel's lanes are filled well enough.
_MANY_CHANNELS = 8
# Phases with windows of their own share one that covers all: so many times the products at most.
_MOST_WORK = 3


@dataclasses.dataclass(frozen=True)
class _Axis:
    """Rows or columns. Result s * q + r is the sum over t of input q + t + first with weight
    r + pad - s * (t + first), for t below taps, where there are such an input and a weight."""

    extent: int
    result: int
    kernel: int
    stride: int
    pad: int

    @property
    def first(self) -> int:
        return -((self.kernel - 1 - self.pad) // self.stride)

    @property
    def last(self) -> int:
        return (self.stride - 1 + self.pad) // self.stride

    @property
    def taps(self) -> int:
        return self.last - self.first + 1

    @property
    def pad_right(self) -> int:
        return self.result // self.stride + self.last - self.extent

    @property
    def can_be_phases(self) -> bool:
        is_whole = self.result % self.stride == 0
        return is_whole and self.pad >= 0 and self.first <= 0 <= self.pad_right

    def weights(self) -> list[tuple[int, int, int]]:
        """Return phase, tap and weight of each product."""
        found = itertools.product(range(self.stride), range(self.taps))
        rows = ((r, t, r + self.pad - self.stride * (t + self.first)) for r, t in found)
        return [row for row in rows if 0 <= row[2] < self.kernel]


def replace_transposed(graph: Graph) -> Graph:
    """Return the graph, fused already, with dense layers and plain convolutions in the place of
    such convolutions; consumes the given one."""
    nodes: list[Operation] = []
    for node in graph.nodes:
        if _is_of_point(graph, node):
            nodes += _as_product(graph, node)
        elif axes := _axes_of(graph, node):
            nodes += _as_convolution(graph, node, axes)
        else:
            nodes.append(node)
    graph.nodes = nodes
    return graph


def _axes_of(graph: Graph, node: Operation) -> tuple[_Axis, _Axis] | None:
    """Return the rows and columns of a node that is such a convolution; None for another."""
    if node.op != "deconv" or len(node.inputs) > 2 or node.post_ops:
        return None
    ints, strings = node.attrs["ints"], node.attrs["strings"]
    data, weights = node.inputs
    kernel_layout, result = strings["kernel_layout"], graph.shapes[node.output]
    is_plain = strings["data_layout"] == "NCHW" and "G" not in kernel_layout
    is_float = {graph.dtypes[tensor] for tensor in (data, weights, node.output)} == {"float32"}
    if not (is_plain and is_float and weights in graph.constants and ints["groups"] == [1]):
        return None
    if set(ints["dilation"]) != {1} or result[1] >= _MANY_CHANNELS:
        return None
    window = [graph.shapes[weights][kernel_layout.index(letter)] for letter in "HW"]
    sizes = zip(graph.shapes[data][2:], result[2:], window, ints["strides"], ints["pad_l"])
    rows, columns = (_Axis(*size) for size in sizes)
    phases, work = rows.stride * columns.stride, 1.0
    for axis in (rows, columns):
        work *= axis.stride * axis.taps / axis.kernel
    if phases == 1 or work > _MOST_WORK or not (rows.can_be_phases and columns.can_be_phases):
        return None
    return rows, columns


def _as_convolution(graph: Graph, node: Operation, axes: tuple[_Axis, _Axis]) -> list[Operation]:
    rows, columns = axes
    data, weights = node.inputs
    kernel_layout = node.attrs["strings"]["kernel_layout"]
    values = graph.constants[weights].numpy()
    values = values.transpose([kernel_layout.index(letter) for letter in "OIHW"])
    batch, outputs, height, width = graph.shapes[node.output]
    strides = (rows.stride, columns.stride)
    taps = (rows.taps, columns.taps)
    spread = np.zeros((outputs, *strides, values.shape[1], *taps), "float32")
    for (r, t, k), (s, u, m) in itertools.product(rows.weights(), columns.weights()):
        spread[:, r, s, :, t, u] = values[:, :, k, m]
    spread = spread.reshape(outputs * rows.stride * columns.stride, values.shape[1], *taps)
    places = (height // rows.stride, width // columns.stride)
    channels = graph.new_tensor((batch, spread.shape[0], *places))
    phases = graph.new_tensor((batch, outputs, *strides, *places))
    beside = graph.new_tensor((batch, outputs, places[0], strides[0], places[1], strides[1]))
    ints = {
        "strides": [1, 1],
        "dilation": [1, 1],
        "pad_l": [-axis.first for axis in axes],
        "pad_r": [axis.pad_right for axis in axes],
        "groups": [1],
    }
    strings = {"data_layout": "NCHW", "kernel_layout": "OIHW"}
    inputs = [data, _new_constant(graph, spread)]
    return [
        dataclasses.replace(
            node,
            op="conv",
            inputs=inputs,
            output=channels,
            attrs={"ints": ints, "strings": strings},
        ),
        Operation("reshape", [channels], phases, attrs={}),
        Operation("transpose", [phases], beside, attrs={"ints": {"axes": [0, 1, 4, 2, 5, 3]}}),
        Operation("reshape", [beside], node.output, attrs={}),
    ]


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
        Operation("reshape", [data], rows, attrs={}),
        dataclasses.replace(
            node, op="inner_product", inputs=[rows, *inputs], output=flat, attrs={}
        ),
        Operation("reshape", [flat], node.output, attrs={}),
    ]


def _new_constant(graph: Graph, values: np.ndarray) -> int:
    return graph.new_constant(tvm.nd.array(np.ascontiguousarray(values, "float32")))
