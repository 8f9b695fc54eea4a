# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling, resizing and padding: what slides over an image, a line or a volume, or
widens it.

Test: backends/dnnl/test_lower.py, backends/dnnl/test_errors.py.
"""

from __future__ import annotations

import numpy as np
import tvm

from ..ints import ints_of, pads_of, per_axis
from ..partition.graph import Graph, Operation
from ..partition.lowering import check
from ..partition.views import reshape


def conv(graph: Graph, node: Operation) -> Operation:
    layout, axes = _layout(graph, node, "data_layout")
    _check_kernel_layout(graph, node, axes)
    channels, groups = layout.index("C"), int(node.attrs.groups)
    counts = [graph.shapes[tensor][channels] for tensor in (node.inputs[0], node.output)]
    check(graph, node, all(count % groups == 0 for count in counts), "groups", groups)
    return _convolution("conv", node, len(axes))


def deconv(graph: Graph, node: Operation) -> Operation:
    layout, axes = _layout(graph, node, "data_layout")
    kernel_layout = _check_kernel_layout(graph, node, axes)
    # In NC.. TVM reads the weights as IO.., whatever the letters say.
    named = layout != "NC" + axes or kernel_layout in ("IO" + axes, "GIO" + axes)
    check(graph, node, named, "kernel_layout", kernel_layout)
    # Without an axis of their own TVM and oneDNN order the weights of groups differently.
    groups = int(node.attrs.groups)
    check(graph, node, groups == 1 or "G" in kernel_layout, "groups", groups)
    lowered = _convolution("deconv", node, len(axes))
    more, ints = per_axis(node.attrs.output_padding, len(axes)), lowered.attrs["ints"]
    ints["pad_r"] = [pad - extra for pad, extra in zip(ints["pad_r"], more)]
    return lowered


def _layout(graph: Graph, node: Operation, attribute: str = "layout") -> tuple[str, str]:
    """Return a node's layout and which letters of it are an image's axes; others are refused than
    these, N and C in some order (none in blocks as in NCHW16c), for data and result alike."""
    layout = str(getattr(node.attrs, attribute))
    axes = "DHW"[5 - len(layout) :]
    check(graph, node, sorted(layout) == sorted("NC" + axes), attribute, layout)
    out = str(getattr(node.attrs, "out_layout", ""))
    check(graph, node, out in ("", layout), "out_layout", out)
    return layout, axes


def _check_kernel_layout(graph: Graph, node: Operation, axes: str) -> str:
    """Return the layout of weights; TVM's partitioning for oneDNN gives groups an axis."""
    layout = str(node.attrs.kernel_layout)
    letters = ("GOI" if "G" in layout else "OI") + axes
    check(graph, node, sorted(layout) == sorted(letters), "kernel_layout", layout)
    return layout


def _windows(node: Operation, axes: int) -> dict[str, list[int]]:
    """Return the numbers that say how a node's windows lie."""
    pads = pads_of(node.attrs.padding, axes)
    numbers = {name: per_axis(getattr(node.attrs, name), axes) for name in ("strides", "dilation")}
    return {**numbers, "pad_l": pads[:axes], "pad_r": pads[axes:]}


def _convolution(kind: str, node: Operation, axes: int) -> Operation:
    ints = {**_windows(node, axes), "groups": [int(node.attrs.groups)]}
    names = ("data_layout", "kernel_layout")
    strings = {name: str(getattr(node.attrs, name)) for name in names}
    return Operation(kind, node.inputs, node.output, attrs={"ints": ints, "strings": strings})


def pool(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    layout, axes = _layout(graph, node)
    windows, kernel = _windows(node, len(axes)), per_axis(attrs.pool_size, len(axes))
    left, right, strides = (windows[name] for name in ("pad_l", "pad_r", "strides"))
    algorithm = "max"
    if "avg" in node.op:
        include = bool(attrs.count_include_pad) and any(left + right)
        algorithm = "avg_include_padding" if include else "avg_exclude_padding"
        # With these two TVM and oneDNN count the cells beyond the padding differently.
        check(graph, node, not (attrs.ceil_mode and include), "ceil_mode", attrs.ceil_mode)
    # oneDNN averages no dilated windows, and finds their maxima by slow reference code alone.
    check(graph, node, set(windows["dilation"]) == {1}, "dilation", windows["dilation"])
    # oneDNN wants each window to touch the image: the first one to end, the last to begin, in it.
    for i, axis in enumerate(axes):
        source, result = (graph.shapes[t][layout.index(axis)] for t in (*node.inputs, node.output))
        fits = left[i] < kernel[i] and (result - 1) * strides[i] - left[i] < source
        check(graph, node, fits, "padding", left + right)
    return _pool(node, {"kernel": kernel, **windows}, algorithm)


def _pool(node: Operation, ints: dict[str, list[int]], algorithm: str) -> Operation:
    strings = {"layout": str(node.attrs.layout), "algorithm": algorithm}
    return Operation("pool", node.inputs, node.output, attrs={"ints": ints, "strings": strings})


def pool_side_by_side(graph: Graph, node: Operation) -> Operation:
    """Lower a pool of the whole, or one whose windows are all of one size, which neither overlap
    nor leave anything out."""
    layout, axes = _layout(graph, node)
    source, result = (graph.shapes[tensor] for tensor in (*node.inputs, node.output))
    is_whole = all(before % after == 0 for before, after in zip(source, result))
    check(graph, node, is_whole, "output_size", list(result))
    kernel = [source[i] // result[i] for i in map(layout.index, axes)]
    ones, zeros = [1] * len(axes), [0] * len(axes)
    ints = {"kernel": kernel, "strides": kernel, "dilation": ones, "pad_l": zeros, "pad_r": zeros}
    return _pool(node, ints, "max" if "max" in node.op else "avg_exclude_padding")


def resize(graph: Graph, node: Operation) -> Operation:
    """Lower a resize whose points are oneDNN's: the nearest of, or between, half pixels."""
    attrs, layout = node.attrs, str(node.attrs.layout)
    check(graph, node, sorted(layout) == sorted("NCHW"), "layout", layout)
    check(graph, node, str(attrs.out_dtype) in ("", "float32"), "out_dtype", attrs.out_dtype)
    is_nearest = "nearest" in attrs.method
    points = f"{attrs.method} {attrs.coordinate_transformation_mode}"
    points += f" {attrs.rounding_method}" if is_nearest else ""
    is_known = points in ("nearest_neighbor asymmetric floor", "linear half_pixel")
    check(graph, node, is_known, "points", points)
    if is_nearest:
        # The nearest half pixel is the one below exactly where each is repeated as often.
        source, result = graph.shapes[node.inputs[0]], graph.shapes[node.output]
        is_whole = all(after % before == 0 for before, after in zip(source, result))
        check(graph, node, is_whole, "size", list(result))
    strings = {"layout": layout, "algorithm": "nearest" if is_nearest else "linear"}
    return Operation("resample", node.inputs, node.output, attrs={"strings": strings})


def pad(graph: Graph, node: Operation) -> Operation | list[Operation]:
    """Lower a pad: what it adds is a constant beside the data, axis by axis."""
    data, number = node.inputs
    dtype = graph.dtypes[data]
    check(graph, node, str(node.attrs.pad_mode) == "constant", "pad_mode", node.attrs.pad_mode)
    check(graph, node, number in graph.constants, "number", "one that is not known")
    check(graph, node, dtype != "bfloat16", "dtype", dtype)
    widths = [ints_of(axis) for axis in node.attrs.pad_width]
    check(graph, node, min(map(min, widths)) >= 0, "pad_width", widths)
    value = graph.constants[number].numpy().item()
    padded = [axis for axis, sides in enumerate(widths) if any(sides)]
    nodes: list[Operation] = []
    for axis in padded:
        pieces = [
            np.full(_with_extent(graph, data, axis, extent=n), value, dtype) for n in widths[axis]
        ]
        before, after = ([graph.new_constant(tvm.nd.array(p))] if p.size else [] for p in pieces)
        whole = _with_extent(graph, data, axis, extent=graph.shapes[data][axis] + sum(widths[axis]))
        result = node.output if axis == padded[-1] else graph.new_tensor(whole, dtype)
        ints = {"axis": [axis]}
        nodes.append(Operation("concat", [*before, data, *after], result, attrs={"ints": ints}))
        data = result
    return nodes or reshape(graph, node)


def _with_extent(graph: Graph, tensor: int, axis: int, extent: int) -> tuple[int, ...]:
    """Return the tensor's shape with another extent of one axis."""
    shape = graph.shapes[tensor]
    return (*shape[:axis], extent, *shape[axis + 1 :])
