# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools of images: what XNNPACK's windows can do.

Test: backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

from ..ints import pads_of, per_axis
from ..partition.graph import Graph, Operation
from ..partition.lowering import check

# A layout of images -> where rows and columns are in it.
LAYOUTS = {"NCHW": (2, 3), "NHWC": (1, 2)}


def conv(graph: Graph, node: Operation) -> Operation:
    """Lower a convolution of weights that are known, which XNNPACK packs once."""
    layout = _image_layout(graph, node, "data_layout")
    kernel_layout = str(node.attrs.kernel_layout)
    check(graph, node, sorted(kernel_layout) == sorted("OIHW"), "kernel_layout", kernel_layout)
    channels, groups = layout.index("C"), int(node.attrs.groups)
    counts = [graph.shapes[tensor][channels] for tensor in (node.inputs[0], node.output)]
    check(graph, node, all(count % groups == 0 for count in counts), "groups", groups)
    # Some write the weights of several results a channel with these along the axis I.
    inner = graph.shapes[node.inputs[1]][kernel_layout.index("I")]
    check(graph, node, inner * groups == counts[0], "weights", graph.shapes[node.inputs[1]])
    return _convolution(graph, node, "conv", {"groups": [groups]}, kernel_layout)


def deconv(graph: Graph, node: Operation) -> Operation:
    """Lower a transposed convolution; TVM reads the weights of NCHW as IOHW, whatever it says."""
    layout = _image_layout(graph, node, "data_layout")
    check(graph, node, layout == "NCHW", "data_layout", layout)
    check(graph, node, int(node.attrs.groups) == 1, "groups", node.attrs.groups)
    more = per_axis(node.attrs.output_padding, 2)
    return _convolution(graph, node, "deconv", {"more": more}, "IOHW")


def _convolution(
    graph: Graph, node: Operation, kind: str, ints: dict[str, list[int]], kernel_layout: str
) -> Operation:
    check(graph, node, node.inputs[1] in graph.constants, "weights", "no constant")
    strings = {"layout": str(node.attrs.data_layout), "kernel_layout": kernel_layout}
    attrs = {"ints": {**_windows(node), **ints}, "strings": strings}
    return Operation(kind, node.inputs, node.output, attrs=attrs)


def pool(graph: Graph, node: Operation) -> Operation:
    """Lower a pool whose results are as many as XNNPACK counts, which rounds down; its averages
    leave out what lies beyond the image."""
    attrs, layout = node.attrs, _image_layout(graph, node, "layout")
    windows, kernel = _windows(node), per_axis(attrs.pool_size, 2)
    is_max = "max" in node.op
    check(graph, node, kernel != [1, 1], "pool_size", kernel)
    pads, strides, dilation = (windows[name] for name in ("pads", "strides", "dilation"))
    check(graph, node, is_max or dilation == [1, 1], "dilation", dilation)
    includes = not is_max and bool(attrs.count_include_pad) and any(pads)
    check(graph, node, not includes, "count_include_pad", True)
    for i, axis in enumerate(LAYOUTS[layout]):
        source, result = (graph.shapes[tensor][axis] for tensor in (*node.inputs, node.output))
        extent = (kernel[i] - 1) * dilation[i] + 1
        count = (source + pads[i] + pads[i + 2] - extent) // strides[i] + 1
        check(graph, node, count == result, "ceil_mode", True)
        # A window that reads the padding alone has no maximum and no average.
        most = max(pads[i], pads[i + 2])
        fits = most < extent and (not most or dilation[i] == 1 or dilation[i] <= source)
        check(graph, node, fits, "padding", pads)
    strings = {"layout": layout, "algorithm": "max" if is_max else "avg"}
    ints = {"kernel": kernel, **windows}
    attrs = {"ints": ints, "strings": strings}
    return Operation("pool", node.inputs, node.output, attrs=attrs)


def pool_of_all(graph: Graph, node: Operation) -> Operation:
    """Lower the average of a whole image to a mean."""
    axes = list(LAYOUTS[_image_layout(graph, node, "layout")])
    is_whole = all(graph.shapes[node.output][axis] == 1 for axis in axes)
    check(graph, node, is_whole, "output_size", graph.shapes[node.output])
    ints = {"axes": axes, "keep_dims": [1]}
    return Operation("mean", node.inputs, node.output, attrs={"ints": ints})


def _image_layout(graph: Graph, node: Operation, attribute: str) -> str:
    layout = str(getattr(node.attrs, attribute))
    check(graph, node, layout in LAYOUTS, attribute, layout)
    out = str(getattr(node.attrs, "out_layout", ""))
    check(graph, node, out in ("", layout), "out_layout", out)
    return layout


def _windows(node: Operation) -> dict[str, list[int]]:
    """Return the numbers that say how a node's windows lie."""
    numbers = {name: per_axis(getattr(node.attrs, name), 2) for name in ("strides", "dilation")}
    return {**numbers, "pads": pads_of(node.attrs.padding, 2)}
