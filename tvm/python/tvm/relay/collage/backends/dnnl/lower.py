# SPDX-License-Identifier: Apache-2.0
"""From Relay ops to oneDNN primitives, one function a kind of op.

The table at the end is what the backend takes; an op that is not in it, or whose attributes its
function refuses, is an UnsupportedOpError that names op, attribute and value. Predicates of the
patterns run the same functions, so pattern table and codegen cannot disagree.
Test: test_onednn_ops.py, test_onednn_errors.py.
"""

import dataclasses

import tvm

from ..errors import UnsupportedOpError
from ..partition.graph import Graph, Node, PostOp, reshaped
from . import qnn
from .functions import EVALUABLE_OPS, recognise_all
from .norms import LayerNorm, lower_layer_norm, recognise_layer_norms
from .types import TYPES

_MAX_RANK = 6
_plain_ints = tvm.get_global_func("collage.PlainInts")


def lower(graph: Graph) -> Graph:
    """Return the graph in oneDNN's primitives; consumes the given one."""
    recognise_layer_norms(graph)
    recognise_all(graph)
    _check_tensors(graph)
    lowered = []
    for node in graph.nodes:
        if node.op not in _LOWER:
            raise UnsupportedOpError("dnnl", node.op, "the op is not in its table")
        primitives = _LOWER[node.op](graph, node)
        lowered += primitives if isinstance(primitives, list) else [primitives]
    graph.nodes = lowered
    graph.remove_unused()
    return graph


def _check_tensors(graph):
    for node in graph.nodes:
        for tensor in [*node.operands(), node.output]:
            _check(node, graph.dtypes[tensor] in TYPES, "dtype", graph.dtypes[tensor])
            rank = len(graph.shapes[tensor])
            _check(node, rank <= _MAX_RANK, "number of axes", rank)
            empty = any(extent == 0 for extent in graph.shapes[tensor])
            _check(node, not empty, "shape", graph.shapes[tensor])


def _check(node, condition, attribute, value):
    if not condition:
        raise UnsupportedOpError("dnnl", node.op, f"{attribute}={value} is not supported")


def _ints(values) -> list[int]:
    # One call for all of them, where each would take several.
    return [int(text) for text in _plain_ints(values).split()]


def _padding(values, axes: int) -> tuple[list[int], list[int]]:
    """Return left and right padding from Relay's 1, n or 2n numbers."""
    pads = _ints(values)
    if len(pads) == 1:
        pads = pads * (2 * axes)
    if len(pads) == axes:
        pads = pads * 2
    return pads[:axes], pads[axes:]


def _is_plain_layout(layout: str, letters: str) -> bool:
    """Tell whether a layout is just these axes in some order, without blocks as in NCHW16c."""
    return sorted(layout) == sorted(letters)


def _is_kernel_layout(layout: str, spatial: str) -> bool:
    """Tell whether it is one of weights; TVM's partitioning for oneDNN gives groups an axis."""
    return _is_plain_layout(layout, ("GOI" if "G" in layout else "OI") + spatial)


def _per_axis(values, axes):
    values = _ints(values)
    return values * axes if len(values) == 1 else values


def _conv(graph, node):
    attrs = node.attrs
    axes = len(str(attrs.data_layout)) - 2
    spatial = "DHW"[3 - axes :]
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    out_layout = str(attrs.out_layout) or data_layout
    _check(node, _is_plain_layout(data_layout, "NC" + spatial), "data_layout", data_layout)
    _check(node, _is_kernel_layout(kernel_layout, spatial), "kernel_layout", kernel_layout)
    _check(node, out_layout == data_layout, "out_layout", out_layout)
    left, right = _padding(attrs.padding, axes)
    channels = data_layout.index("C")
    groups = int(attrs.groups)
    out_channels = graph.shapes[node.output][channels]
    in_channels = graph.shapes[node.inputs[0]][channels]
    even = in_channels % groups == 0 and out_channels % groups == 0
    _check(node, even, "groups", groups)
    ints = {
        "strides": _per_axis(attrs.strides, axes),
        "dilation": _per_axis(attrs.dilation, axes),
        "pad_l": left,
        "pad_r": right,
        "groups": [groups],
    }
    strings = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return Node("conv", node.inputs, node.output, {"ints": ints, "strings": strings})


def _deconv(graph, node):
    attrs = node.attrs
    axes = int(node.op[len("nn.conv")])
    spatial = "DHW"[3 - axes :]
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    _check(node, _is_plain_layout(data_layout, "NC" + spatial), "data_layout", data_layout)
    _check(node, _is_kernel_layout(kernel_layout, spatial), "kernel_layout", kernel_layout)
    _check(node, str(attrs.out_layout) in ("", data_layout), "out_layout", attrs.out_layout)
    # In NC.. TVM reads the weights as IO.., whatever the letters say.
    read_as = ("IO" + spatial, "GIO" + spatial)
    named = data_layout != "NC" + spatial or kernel_layout in read_as
    _check(node, named, "kernel_layout", kernel_layout)
    # Without an axis of their own TVM and oneDNN order the weights of groups differently.
    groups = int(attrs.groups)
    _check(node, groups == 1 or "G" in kernel_layout, "groups", groups)
    left, right = _padding(attrs.padding, axes)
    more = _per_axis(attrs.output_padding, axes)
    ints = {
        "strides": _per_axis(attrs.strides, axes),
        "dilation": _per_axis(attrs.dilation, axes),
        "pad_l": left,
        "pad_r": [pad - extra for pad, extra in zip(right, more)],
        "groups": [groups],
    }
    strings = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return Node("deconv", node.inputs, node.output, {"ints": ints, "strings": strings})


def _dense(graph, node):
    return Node("inner_product", node.inputs, node.output, {})


def _matmul(graph, node):
    attrs = node.attrs
    ranks = {len(graph.shapes[tensor]) for tensor in node.inputs}
    _check(node, len(ranks) == 1, "ranks of the operands", sorted(ranks))
    ints = {
        "transpose_a": [int(attrs.transpose_a)],
        "transpose_b": [int(attrs.transpose_b)],
    }
    return Node("matmul", node.inputs, node.output, {"ints": ints})


def _pool(graph, node):
    attrs = node.attrs
    axes = int(node.op[len("nn.max_pool")])
    layout = str(attrs.layout)
    spatial = "DHW"[3 - axes :]
    _check(node, _is_plain_layout(layout, "NC" + spatial), "layout", layout)
    _check(node, str(attrs.out_layout) in ("", layout), "out_layout", attrs.out_layout)
    left, right = _padding(attrs.padding, axes)
    kernel = _per_axis(attrs.pool_size, axes)
    dilation = _per_axis(attrs.dilation, axes)
    is_padded = any(left + right)
    algorithm = "max"
    if "avg" in node.op:
        include = bool(attrs.count_include_pad) and is_padded
        algorithm = "avg_include_padding" if include else "avg_exclude_padding"
        # With these two TVM and oneDNN count the cells beyond the padding differently.
        _check(node, not (attrs.ceil_mode and include), "ceil_mode", attrs.ceil_mode)
        _check(node, all(step == 1 for step in dilation), "dilation", dilation)
    # oneDNN wants each window to touch the image.
    fits = all(pad < size for pad, size in zip(left, kernel))
    _check(node, fits, "padding", left + right)
    ints = {
        "kernel": kernel,
        "strides": _per_axis(attrs.strides, axes),
        "dilation": dilation,
        "pad_l": left,
        "pad_r": right,
    }
    return Node(
        "pool", node.inputs, node.output,
        {"ints": ints, "strings": {"layout": layout, "algorithm": algorithm}},
    )  # fmt: skip


def _global_pool(graph, node):
    layout = str(node.attrs.layout)
    axes = len(layout) - 2
    _check(node, _is_plain_layout(layout, "NC" + "DHW"[3 - axes :]), "layout", layout)
    shape = graph.shapes[node.inputs[0]]
    kernel = [shape[layout.index(axis)] for axis in "DHW"[3 - axes :]]
    ones, zeros = [1] * axes, [0] * axes
    ints = {
        "kernel": kernel, "strides": ones, "dilation": ones, "pad_l": zeros, "pad_r": zeros,
    }  # fmt: skip
    algorithm = "max" if "max" in node.op else "avg_exclude_padding"
    return Node(
        "pool", node.inputs, node.output,
        {"ints": ints, "strings": {"layout": layout, "algorithm": algorithm}},
    )  # fmt: skip


def _resize(graph, node):
    """Where oneDNN's points are Relay's: it reads the nearest of, or between, half pixels."""
    attrs, layout = node.attrs, str(node.attrs.layout)
    _check(node, _is_plain_layout(layout, "NCHW"), "layout", layout)
    _check(node, str(attrs.out_dtype) in ("", "float32"), "out_dtype", attrs.out_dtype)
    method, mode = str(attrs.method), str(attrs.coordinate_transformation_mode)
    points = (
        f"{method} {mode} {attrs.rounding_method}" if "nearest" in method else f"{method} {mode}"
    )
    is_known = points in ("nearest_neighbor asymmetric floor", "linear half_pixel")
    _check(node, is_known, "points", points)
    if "nearest" in method:
        # The nearest half pixel is the one below exactly where each is repeated as often.
        source, result = graph.shapes[node.inputs[0]], graph.shapes[node.output]
        is_whole = all(after % before == 0 for before, after in zip(source, result))
        _check(node, is_whole, "size", list(result))
    strings = {"layout": layout, "algorithm": "linear" if method == "linear" else "nearest"}
    return Node("resample", node.inputs, node.output, {"strings": strings})


_BINARY = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "maximum": "max",
    "minimum": "min",
}
_COMMUTATIVE = {"add", "multiply", "maximum", "minimum"}


def _binary(graph, node):
    first, second = node.inputs
    shape = graph.shapes[node.output]
    if graph.shapes[first] != shape and node.op in _COMMUTATIVE:
        first, second = second, first
    _check(node, graph.shapes[first] == shape, "shape of the first operand", graph.shapes[first])
    return _binary_node(_BINARY[node.op], [first, second], node.output)


def _binary_node(algorithm, inputs, output):
    return Node("binary", inputs, output, {"strings": {"algorithm": algorithm}})


def _bias_add(graph, node):
    data, bias = node.inputs
    rank = len(graph.shapes[data])
    axis = int(node.attrs.axis) % rank
    shape = [1] * rank
    shape[axis] = graph.shapes[bias][0]
    if bias in graph.constants:
        view = graph.new_constant(reshaped(graph.constants[bias], shape))
    elif axis == rank - 1:
        view = bias
    else:
        raise UnsupportedOpError("dnnl", node.op, f"axis={axis} needs a constant bias")
    return _binary_node("add", [data, view], node.output)


def _function(graph, node):
    post: PostOp = node.attrs
    return _eltwise_node(post, node)


def _eltwise_node(post, node):
    floats = {"alpha": post.alpha, "beta": post.beta}
    attrs = {"strings": {"algorithm": post.kind}, "floats": floats}
    return Node("eltwise", node.inputs[:1], node.output, attrs)


def _softmax(graph, node):
    rank = len(graph.shapes[node.output])
    kind = "log_softmax" if "log" in node.op else "softmax"
    return Node(kind, node.inputs, node.output, {"ints": {"axis": [int(node.attrs.axis) % rank]}})


def _concatenate(graph, node):
    rank = len(graph.shapes[node.output])
    return Node(
        "concat", node.inputs, node.output, {"ints": {"axis": [int(node.attrs.axis) % rank]}}
    )


def _reduce(graph, node):
    attrs = node.attrs
    source = graph.shapes[node.inputs[0]]
    rank = len(source)
    axes = {int(axis) % rank for axis in attrs.axis} if attrs.axis is not None else set(range(rank))
    if attrs.exclude:
        axes = set(range(rank)) - axes
    if not axes:
        return _identity(graph, node)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(source))
    strings = {"algorithm": node.op}
    if kept == graph.shapes[node.output]:
        return Node("reduce", node.inputs, node.output, {"strings": strings})
    # oneDNN keeps reduced axes as ones: the result without them is a view.
    whole = graph.new_tensor(kept, graph.dtypes[node.output])
    view = Node("reshape", [whole], node.output, {})
    return [Node("reduce", node.inputs, whole, {"strings": strings}), view]


def _variance(graph, node):
    """The mean of squares of the differences from the mean, which is the second operand."""
    _check(node, not node.attrs.unbiased, "unbiased", node.attrs.unbiased)
    data, mean = node.inputs
    dtype = graph.dtypes[data]
    centred, squares = (graph.new_tensor(graph.shapes[data], dtype) for _ in range(2))
    floats, strings = {"alpha": 0.0, "beta": 0.0}, {"algorithm": "square"}
    means = _reduce(graph, Node("mean", [squares], node.output, node.attrs))
    return [
        _binary_node("sub", [data, mean], centred),
        Node("eltwise", [centred], squares, {"strings": strings, "floats": floats}),
        *(means if isinstance(means, list) else [means]),
    ]


def _reshape(graph, node):
    return Node("reshape", node.inputs[:1], node.output, {})


def _transpose(graph, node):
    rank = len(graph.shapes[node.output])
    axes = node.attrs.axes
    order = [int(axis) % rank for axis in axes] if axes else list(range(rank))[::-1]
    return Node("transpose", node.inputs, node.output, {"ints": {"axes": order}})


def _split(graph, node):
    attrs, index = node.attrs
    source = graph.shapes[node.inputs[0]]
    axis = int(attrs.axis) % len(source)
    sections = attrs.indices_or_sections
    if isinstance(sections, (int, tvm.tir.IntImm)):
        start = source[axis] // int(sections) * index
    else:
        start = [0, *map(int, sections)][index]
    begin = [start if i == axis else 0 for i in range(len(source))]
    return Node("slice", node.inputs, node.output, {"ints": {"begin": begin}})


def _strided_slice(graph, node):
    attrs = node.attrs
    source = graph.shapes[node.inputs[0]]
    strides = _ints(attrs.strides) if attrs.strides is not None else []
    _check(node, all(step == 1 for step in strides), "strides", strides)
    axes = _ints(attrs.axes) if attrs.axes is not None else range(len(attrs.begin))
    begin = [0] * len(source)
    for axis, start in zip(axes, _ints(attrs.begin)):
        extent = source[axis]
        begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
    return Node("slice", node.inputs, node.output, {"ints": {"begin": begin}})


def _layer_norm(graph, node):
    attrs = node.attrs
    rank = len(graph.shapes[node.output])
    _check(node, int(attrs.axis) % rank == rank - 1, "axis", attrs.axis)
    scale = node.inputs[1] if attrs.scale else None
    shift = node.inputs[2] if attrs.center else None
    norm = LayerNorm(node.inputs[0], float(attrs.epsilon), scale, shift)
    return lower_layer_norm(graph, dataclasses.replace(node, attrs=norm))


def _cast(graph, node):
    if graph.dtypes[node.inputs[0]] == graph.dtypes[node.output]:
        return _identity(graph, node)
    # TVM drops what is behind the point; types.py says where that is the same or may be rounded.
    return Node("convert", node.inputs, node.output, qnn.conversion("truncate"))


def _qnn_dense(graph, node):
    ints = {"transpose_a": [0], "transpose_b": [1]}
    rank = len(graph.shapes[node.inputs[0]])
    _check(node, rank == 2, "rank of the data", rank)
    return Node("matmul", node.inputs, node.output, {"ints": ints})


def _identity(graph, node):
    return Node("reshape", node.inputs[:1], node.output, {})


_LOWER = {
    "nn.conv1d": _conv,
    "nn.conv2d": _conv,
    "nn.conv3d": _conv,
    "nn.conv1d_transpose": _deconv,
    "nn.conv2d_transpose": _deconv,
    "nn.conv3d_transpose": _deconv,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.max_pool1d": _pool,
    "nn.max_pool2d": _pool,
    "nn.max_pool3d": _pool,
    "nn.avg_pool1d": _pool,
    "nn.avg_pool2d": _pool,
    "nn.avg_pool3d": _pool,
    "nn.global_max_pool2d": _global_pool,
    "nn.global_avg_pool2d": _global_pool,
    "image.resize2d": _resize,
    **{op: _binary for op in _BINARY},
    "nn.bias_add": _bias_add,
    "function": _function,
    "nn.softmax": _softmax,
    "nn.log_softmax": _softmax,
    "concatenate": _concatenate,
    **{op: _reduce for op in ("mean", "sum", "max", "min")},
    "variance": _variance,
    "layer_norm": lower_layer_norm,
    "reshape": _reshape,
    "nn.batch_flatten": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "split": _split,
    "strided_slice": _strided_slice,
    "nn.dropout": _identity,
    "nn.layer_norm": _layer_norm,
    "cast": _cast,
    "qnn.conv2d": qnn.product(_conv),
    "qnn.dense": qnn.product(_qnn_dense),
    "qnn.requantize": qnn.requantize,
    "qnn.quantize": qnn.quantize,
    "qnn.dequantize": qnn.dequantize,
    "qnn.add": qnn.add,
}

# Those that may be taken; which calls of them, lower() decides.
SUPPORTED_OPS = (frozenset(_LOWER) | EVALUABLE_OPS) - {"function", "layer_norm"}
