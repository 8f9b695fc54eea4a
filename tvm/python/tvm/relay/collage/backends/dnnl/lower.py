# SPDX-License-Identifier: Apache-2.0
"""From Relay ops to oneDNN primitives, one function a kind of op.

The table at the end is what the backend takes; an op that is not in it, or whose attributes its
function refuses, is an UnsupportedOpError that names op, attribute and value. Predicates of the
patterns run the same functions, so pattern table and codegen cannot disagree.
Test: backends/dnnl/test_lower.py, backends/dnnl/test_errors.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tvm

from ...errors import UnsupportedOpError
from ..partition.graph import Graph, Operation, PostOp, reshaped
from . import qnn
from .attributes import MAX_RANK, check
from .fake_quantised import products_of_bytes
from .functions import EVALUABLE_OPS, recognise_all
from .norms import LayerNorm, lower_layer_norm, recognise_layer_norms
from .spatial import adaptive_pool, conv, deconv, global_pool, pool, resize
from .types import TYPES
from .views import depth_to_space, identity, pad, reshape, split, strided_slice, transpose


def lower(graph: Graph) -> Graph:
    """Return the graph in oneDNN's primitives; consumes the given one."""
    _check_tensors(graph)
    products_of_bytes(graph)
    recognise_layer_norms(graph)
    recognise_all(graph)
    lowered: list[Operation] = []
    for node in graph.nodes:
        if node.op not in _LOWER:
            raise UnsupportedOpError("dnnl", node.op, "the op is not in its table")
        primitives = _LOWER[node.op](graph, node)
        lowered += primitives if isinstance(primitives, list) else [primitives]
    graph.nodes = lowered
    graph.remove_unused()
    return graph


def _check_tensors(graph: Graph) -> None:
    for node in graph.nodes:
        for tensor in [*node.operands(), node.output]:
            check(node, graph.dtypes[tensor] in TYPES, "dtype", graph.dtypes[tensor])
            rank = len(graph.shapes[tensor])
            check(node, rank <= MAX_RANK, "number of axes", rank)
            empty = any(extent == 0 for extent in graph.shapes[tensor])
            check(node, not empty, "shape", graph.shapes[tensor])


def _dense(graph: Graph, node: Operation) -> Operation:
    return Operation("inner_product", node.inputs, node.output, {})


def _matmul(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    ranks = {len(graph.shapes[tensor]) for tensor in node.inputs}
    check(node, len(ranks) == 1, "ranks of the operands", sorted(ranks))
    ints = {
        "transpose_a": [int(attrs.transpose_a)],
        "transpose_b": [int(attrs.transpose_b)],
    }
    return Operation("matmul", node.inputs, node.output, {"ints": ints})


_BINARY = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "maximum": "max",
    "minimum": "min",
}
_COMMUTATIVE = {"add", "multiply", "maximum", "minimum"}


def _binary(graph: Graph, node: Operation) -> Operation:
    first, second = node.inputs
    shape = graph.shapes[node.output]
    if graph.shapes[first] != shape and node.op in _COMMUTATIVE:
        first, second = second, first
    check(node, graph.shapes[first] == shape, "shape of the first operand", graph.shapes[first])
    # More have reference code alone, a hundred times as slow.
    is_simple = _count_turns(graph.shapes[second], shape) < 4
    check(node, is_simple, "broadcast of the second operand", graph.shapes[second])
    return _binary_node(_BINARY[node.op], [first, second], node.output)


def _count_turns(operand: Sequence[int], result: Sequence[int]) -> int:
    """Return how many groups of neighbouring axes an operand has, or lacks, of the result's."""
    aligned = (1,) * (len(result) - len(operand)) + tuple(operand)
    has = [mine > 1 for mine, whole in zip(aligned, result) if whole > 1]
    return len(list(itertools.groupby(has)))


def _binary_node(algorithm: str, inputs: list[int], output: int) -> Operation:
    return Operation("binary", inputs, output, {"strings": {"algorithm": algorithm}})


def _bias_add(graph: Graph, node: Operation) -> list[Operation]:
    views, vector = _along_axis(graph, node)
    return [*views, _binary_node("add", [node.inputs[0], vector], node.output)]


def _prelu(graph: Graph, node: Operation) -> list[Operation]:
    views, vector = _along_axis(graph, node)
    return [*views, Operation("prelu", [node.inputs[0], vector], node.output, {})]


def _along_axis(graph: Graph, node: Operation) -> tuple[list[Operation], int]:
    """Return the vector that is a node's second operand such as broadcasts along attribute axis,
    after the view that makes it so of what is no constant."""
    data, vector = node.inputs
    rank = len(graph.shapes[data])
    axis = int(node.attrs.axis) % rank
    shape = [1] * rank
    shape[axis] = graph.shapes[vector][0]
    if vector in graph.constants:
        return [], graph.new_constant(reshaped(graph.constants[vector], shape))
    if axis == rank - 1:
        return [], vector
    view = graph.new_tensor(shape, graph.dtypes[vector])
    return [Operation("reshape", [vector], view, {})], view


def _clip(graph: Graph, node: Operation) -> Operation:
    """Lower a clip to a maximum or a minimum: one with two finite bounds is a function by now."""
    low, high = float(node.attrs.a_min), float(node.attrs.a_max)
    if math.isfinite(low):
        algorithm, bound, other, is_open = "max", low, ("a_max", high), high == math.inf
    else:
        algorithm, bound, other, is_open = "min", high, ("a_min", low), low == -math.inf
    check(node, is_open and graph.dtypes[node.output] == "float32", *other)
    limit = graph.new_constant(tvm.nd.array(np.array([bound], "float32")))
    return _binary_node(algorithm, [*node.inputs, limit], node.output)


def _function(graph: Graph, node: Operation) -> Operation:
    post: PostOp = node.attrs
    return _eltwise_node(post, node)


def _eltwise_node(post: PostOp, node: Operation) -> Operation:
    floats = {"alpha": post.alpha, "beta": post.beta}
    attrs = {"strings": {"algorithm": post.kind}, "floats": floats}
    return Operation("eltwise", node.inputs[:1], node.output, attrs)


def _softmax(graph: Graph, node: Operation) -> Operation:
    rank = len(graph.shapes[node.output])
    kind = "log_softmax" if "log" in node.op else "softmax"
    return Operation(
        kind, node.inputs, node.output, {"ints": {"axis": [int(node.attrs.axis) % rank]}}
    )


def _concatenate(graph: Graph, node: Operation) -> Operation:
    rank = len(graph.shapes[node.output])
    return Operation(
        "concat", node.inputs, node.output, {"ints": {"axis": [int(node.attrs.axis) % rank]}}
    )


def _reduce(graph: Graph, node: Operation) -> Operation | list[Operation]:
    attrs = node.attrs
    source = graph.shapes[node.inputs[0]]
    rank = len(source)
    # Relay's type takes none and an empty list for all axes, whatever is to be excluded.
    axes = {int(axis) % rank for axis in attrs.axis or range(rank)}
    if attrs.axis and attrs.exclude:
        axes = set(range(rank)) - axes
    # oneDNN wants something to reduce.
    if all(source[axis] == 1 for axis in axes):
        return identity(graph, node)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(source))
    strings = {"algorithm": node.op}
    if kept == graph.shapes[node.output]:
        return Operation("reduce", node.inputs, node.output, {"strings": strings})
    # oneDNN keeps reduced axes as ones: the result without them is a view.
    whole = graph.new_tensor(kept, graph.dtypes[node.output])
    view = Operation("reshape", [whole], node.output, {})
    return [Operation("reduce", node.inputs, whole, {"strings": strings}), view]


def _variance(graph: Graph, node: Operation) -> list[Operation]:
    """Lower to the mean of squares of the differences from the mean, which is the second
    operand."""
    check(node, not node.attrs.unbiased, "unbiased", node.attrs.unbiased)
    data, mean = node.inputs
    dtype = graph.dtypes[data]
    centred, squares = (graph.new_tensor(graph.shapes[data], dtype) for _ in range(2))
    floats, strings = {"alpha": 0.0, "beta": 0.0}, {"algorithm": "square"}
    means = _reduce(graph, Operation("mean", [squares], node.output, node.attrs))
    return [
        _binary_node("sub", [data, mean], centred),
        Operation("eltwise", [centred], squares, {"strings": strings, "floats": floats}),
        *(means if isinstance(means, list) else [means]),
    ]


def _layer_norm(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    rank = len(graph.shapes[node.output])
    check(node, int(attrs.axis) % rank == rank - 1, "axis", attrs.axis)
    scale = node.inputs[1] if attrs.scale else None
    shift = node.inputs[2] if attrs.center else None
    norm = LayerNorm(node.inputs[0], float(attrs.epsilon), scale, shift)
    return lower_layer_norm(graph, dataclasses.replace(node, attrs=norm))


def _cast(graph: Graph, node: Operation) -> Operation:
    if graph.dtypes[node.inputs[0]] == graph.dtypes[node.output]:
        return identity(graph, node)
    # TVM drops what is behind the point; types.py says where that is the same or may be rounded.
    return Operation("convert", node.inputs, node.output, qnn.conversion("truncate"))


def _qnn_dense(graph: Graph, node: Operation) -> Operation:
    ints = {"transpose_a": [0], "transpose_b": [1]}
    rank = len(graph.shapes[node.inputs[0]])
    check(node, rank == 2, "rank of the data", rank)
    return Operation("matmul", node.inputs, node.output, {"ints": ints})


_LOWER: dict[str, Callable[[Graph, Operation], Operation | list[Operation]]] = {
    "nn.conv1d": conv,
    "nn.conv2d": conv,
    "nn.conv3d": conv,
    "nn.conv1d_transpose": deconv,
    "nn.conv2d_transpose": deconv,
    "nn.conv3d_transpose": deconv,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.max_pool1d": pool,
    "nn.max_pool2d": pool,
    "nn.max_pool3d": pool,
    "nn.avg_pool1d": pool,
    "nn.avg_pool2d": pool,
    "nn.avg_pool3d": pool,
    "nn.global_max_pool2d": global_pool,
    "nn.global_avg_pool2d": global_pool,
    **{f"nn.adaptive_{kind}_pool{n}d": adaptive_pool for kind in ("avg", "max") for n in (1, 2, 3)},
    "image.resize2d": resize,
    **{op: _binary for op in _BINARY},
    "nn.bias_add": _bias_add,
    "nn.prelu": _prelu,
    "clip": _clip,
    "function": _function,
    "nn.softmax": _softmax,
    "nn.log_softmax": _softmax,
    "concatenate": _concatenate,
    **{op: _reduce for op in ("mean", "sum", "max", "min")},
    "variance": _variance,
    "layer_norm": lower_layer_norm,
    "reshape": reshape,
    "nn.batch_flatten": reshape,
    "squeeze": reshape,
    "expand_dims": reshape,
    "transpose": transpose,
    "split": split,
    "strided_slice": strided_slice,
    "nn.depth_to_space": depth_to_space,
    "nn.space_to_depth": depth_to_space,
    "nn.pad": pad,
    "nn.dropout": identity,
    "nn.layer_norm": _layer_norm,
    "cast": _cast,
    "qnn.conv2d": qnn.product(conv),
    "qnn.dense": qnn.product(_qnn_dense),
    "qnn.requantize": qnn.requantize,
    "qnn.quantize": qnn.quantize,
    "qnn.dequantize": qnn.dequantize,
    "qnn.add": qnn.add,
}

# Those that may be taken; which calls of them, lower() decides.
SUPPORTED_OPS = (frozenset(_LOWER) | EVALUABLE_OPS) - {"function", "layer_norm"}
