# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling and resizing: what slides over an image, a line or a volume.

Test: backends/dnnl/test_lower.py, backends/dnnl/test_errors.py.
"""

from __future__ import annotations

from ..ints import per_axis
from ..partition.graph import Graph, Operation
from .attributes import check, is_kernel_layout, is_plain_layout, padding


def conv(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    axes = len(str(attrs.data_layout)) - 2
    spatial = "DHW"[3 - axes :]
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    out_layout = str(attrs.out_layout) or data_layout
    check(node, is_plain_layout(data_layout, "NC" + spatial), "data_layout", data_layout)
    check(node, is_kernel_layout(kernel_layout, spatial), "kernel_layout", kernel_layout)
    check(node, out_layout == data_layout, "out_layout", out_layout)
    left, right = padding(attrs.padding, axes)
    channels = data_layout.index("C")
    groups = int(attrs.groups)
    out_channels = graph.shapes[node.output][channels]
    in_channels = graph.shapes[node.inputs[0]][channels]
    even = in_channels % groups == 0 and out_channels % groups == 0
    check(node, even, "groups", groups)
    return _convolution("conv", node, left, right)


def deconv(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    axes = int(node.op[len("nn.conv")])
    spatial = "DHW"[3 - axes :]
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    check(node, is_plain_layout(data_layout, "NC" + spatial), "data_layout", data_layout)
    check(node, is_kernel_layout(kernel_layout, spatial), "kernel_layout", kernel_layout)
    check(node, str(attrs.out_layout) in ("", data_layout), "out_layout", attrs.out_layout)
    # In NC.. TVM reads the weights as IO.., whatever the letters say.
    read_as = ("IO" + spatial, "GIO" + spatial)
    named = data_layout != "NC" + spatial or kernel_layout in read_as
    check(node, named, "kernel_layout", kernel_layout)
    # Without an axis of their own TVM and oneDNN order the weights of groups differently.
    groups = int(attrs.groups)
    check(node, groups == 1 or "G" in kernel_layout, "groups", groups)
    left, right = padding(attrs.padding, axes)
    more = per_axis(attrs.output_padding, axes)
    right = [pad - extra for pad, extra in zip(right, more)]
    return _convolution("deconv", node, left, right)


def _convolution(kind: str, node: Operation, left: list[int], right: list[int]) -> Operation:
    attrs, axes = node.attrs, len(left)
    ints = {
        "strides": per_axis(attrs.strides, axes),
        "dilation": per_axis(attrs.dilation, axes),
        "pad_l": left,
        "pad_r": right,
        "groups": [int(attrs.groups)],
    }
    strings = {"data_layout": str(attrs.data_layout), "kernel_layout": str(attrs.kernel_layout)}
    return Operation(kind, node.inputs, node.output, {"ints": ints, "strings": strings})


def pool(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    axes = int(node.op[len("nn.max_pool")])
    layout = str(attrs.layout)
    spatial = "DHW"[3 - axes :]
    check(node, is_plain_layout(layout, "NC" + spatial), "layout", layout)
    check(node, str(attrs.out_layout) in ("", layout), "out_layout", attrs.out_layout)
    left, right = padding(attrs.padding, axes)
    kernel = per_axis(attrs.pool_size, axes)
    dilation = per_axis(attrs.dilation, axes)
    is_padded = any(left + right)
    algorithm = "max"
    if "avg" in node.op:
        include = bool(attrs.count_include_pad) and is_padded
        algorithm = "avg_include_padding" if include else "avg_exclude_padding"
        # With these two TVM and oneDNN count the cells beyond the padding differently.
        check(node, not (attrs.ceil_mode and include), "ceil_mode", attrs.ceil_mode)
    # oneDNN averages no dilated windows, and finds their maxima by slow reference code alone.
    check(node, all(step == 1 for step in dilation), "dilation", dilation)
    strides = per_axis(attrs.strides, axes)
    # oneDNN wants each window to touch the image: the first one to end, the last to begin, in it.
    for i, axis in enumerate(spatial):
        source, result = (graph.shapes[t][layout.index(axis)] for t in (*node.inputs, node.output))
        fits = left[i] < kernel[i] and (result - 1) * strides[i] - left[i] < source
        check(node, fits, "padding", left + right)
    ints = {
        "kernel": kernel,
        "strides": strides,
        "dilation": dilation,
        "pad_l": left,
        "pad_r": right,
    }
    return Operation(
        "pool", node.inputs, node.output,
        {"ints": ints, "strings": {"layout": layout, "algorithm": algorithm}},
    )  # fmt: skip


def global_pool(graph: Graph, node: Operation) -> Operation:
    layout = str(node.attrs.layout)
    axes = len(layout) - 2
    check(node, is_plain_layout(layout, "NC" + "DHW"[3 - axes :]), "layout", layout)
    shape = graph.shapes[node.inputs[0]]
    return _side_by_side(node, [shape[layout.index(axis)] for axis in "DHW"[3 - axes :]])


def _side_by_side(node: Operation, kernel: list[int]) -> Operation:
    """Make a pool whose windows neither overlap nor leave anything out."""
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    ints = {
        "kernel": kernel, "strides": kernel, "dilation": ones, "pad_l": zeros, "pad_r": zeros,
    }  # fmt: skip
    algorithm = "max" if "max" in node.op else "avg_exclude_padding"
    strings = {"layout": str(node.attrs.layout), "algorithm": algorithm}
    return Operation("pool", node.inputs, node.output, {"ints": ints, "strings": strings})


def adaptive_pool(graph: Graph, node: Operation) -> Operation:
    """Lower a pool whose windows are all of one size and lie side by side."""
    layout = str(node.attrs.layout)
    axes = len(layout) - 2
    check(node, is_plain_layout(layout, "NC" + "DHW"[3 - axes :]), "layout", layout)
    check(node, str(node.attrs.out_layout) in ("", layout), "out_layout", node.attrs.out_layout)
    source, result = (graph.shapes[tensor] for tensor in (*node.inputs, node.output))
    is_whole = all(before % after == 0 for before, after in zip(source, result))
    check(node, is_whole, "output_size", list(result))
    places = [layout.index(axis) for axis in "DHW"[3 - axes :]]
    return _side_by_side(node, [source[i] // result[i] for i in places])


def resize(graph: Graph, node: Operation) -> Operation:
    """Lower a resize whose points are oneDNN's: the nearest of, or between, half pixels."""
    attrs, layout = node.attrs, str(node.attrs.layout)
    check(node, is_plain_layout(layout, "NCHW"), "layout", layout)
    check(node, str(attrs.out_dtype) in ("", "float32"), "out_dtype", attrs.out_dtype)
    method, mode = str(attrs.method), str(attrs.coordinate_transformation_mode)
    points = (
        f"{method} {mode} {attrs.rounding_method}" if "nearest" in method else f"{method} {mode}"
    )
    is_known = points in ("nearest_neighbor asymmetric floor", "linear half_pixel")
    check(node, is_known, "points", points)
    if "nearest" in method:
        # The nearest half pixel is the one below exactly where each is repeated as often.
        source, result = graph.shapes[node.inputs[0]], graph.shapes[node.output]
        is_whole = all(after % before == 0 for before, after in zip(source, result))
        check(node, is_whole, "size", list(result))
    strings = {"layout": layout, "algorithm": "linear" if method == "linear" else "nearest"}
    return Operation("resample", node.inputs, node.output, {"strings": strings})
