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
from collections.abc import Sequence

import numpy as np
import tvm

from ..partition.functions import EVALUABLE_OPS, recognise_all
from ..partition.graph import MAX_RANK, Graph, Operation, PostOp
from ..partition.lowering import LowerNode, along_an_axis, check, lower_by, plain, vector_along
from ..partition.views import depth_to_space, reshape, split, strided_slice, transpose
from . import qnn
from .fake_quantised import products_of_bytes
from .norms import LayerNorm, lower_layer_norm, recognise_layer_norms
from .spatial import conv, deconv, pad, pool, pool_side_by_side, resize
from .types import TYPES


def lower(graph: Graph) -> Graph:
    """Return the graph in oneDNN's primitives; consumes the given one."""
    _check_tensors(graph)
    products_of_bytes(graph)
    recognise_layer_norms(graph)
    recognise_all(graph)
    return lower_by(_LOWER, graph)


def _check_tensors(graph: Graph) -> None:
    for node in graph.nodes:
        for tensor in [*node.operands(), node.output]:
            check(graph, node, graph.dtypes[tensor] in TYPES, "dtype", graph.dtypes[tensor])
            rank = len(graph.shapes[tensor])
            check(graph, node, rank <= MAX_RANK, "number of axes", rank)
            empty = any(extent == 0 for extent in graph.shapes[tensor])
            check(graph, node, not empty, "shape", graph.shapes[tensor])


def _matmul(graph: Graph, node: Operation) -> Operation:
    ranks = {len(graph.shapes[tensor]) for tensor in node.inputs}
    check(graph, node, len(ranks) == 1, "ranks of the operands", sorted(ranks))
    flags = ("transpose_a", "transpose_b")
    ints = {name: [int(getattr(node.attrs, name))] for name in flags}
    return Operation("matmul", node.inputs, node.output, attrs={"ints": ints})


# Relay op -> oneDNN's name; the order matters in the last two.
_BINARY = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
_BINARY |= {"subtract": "sub", "divide": "div"}


def _binary(graph: Graph, node: Operation) -> Operation:
    first, second = node.inputs
    shape = graph.shapes[node.output]
    if graph.shapes[first] != shape and node.op not in ("subtract", "divide"):
        first, second = second, first
    check(
        graph, node, graph.shapes[first] == shape, "shape of the first operand", graph.shapes[first]
    )
    # More have reference code alone, a hundred times as slow.
    is_simple = _count_turns(graph.shapes[second], shape) < 4
    check(graph, node, is_simple, "broadcast of the second operand", graph.shapes[second])
    return _binary_node(_BINARY[node.op], [first, second], node.output)


def _count_turns(operand: Sequence[int], result: Sequence[int]) -> int:
    """Return how many groups of neighbouring axes an operand has, or lacks, of the result's."""
    aligned = (1,) * (len(result) - len(operand)) + tuple(operand)
    has = [mine > 1 for mine, whole in zip(aligned, result) if whole > 1]
    return len(list(itertools.groupby(has)))


def _binary_node(algorithm: str, inputs: list[int], output: int) -> Operation:
    return Operation("binary", inputs, output, attrs={"strings": {"algorithm": algorithm}})


def _with_vector(graph: Graph, node: Operation) -> list[Operation]:
    """Lower a bias or PReLU, whose second operand is a vector along the attribute axis."""
    data, vector = node.inputs
    rank = len(graph.shapes[data])
    views, vector = vector_along(graph, vector, rank, int(node.attrs.axis) % rank)
    if node.op == "nn.prelu":
        return [*views, Operation("prelu", [data, vector], node.output, attrs={})]
    return [*views, _binary_node("add", [data, vector], node.output)]


def _clip(graph: Graph, node: Operation) -> Operation:
    """Lower a clip to a maximum or a minimum: one with two finite bounds is a function by now."""
    low, high = float(node.attrs.a_min), float(node.attrs.a_max)
    if math.isfinite(low):
        algorithm, bound, other, is_open = "max", low, ("a_max", high), high == math.inf
    else:
        algorithm, bound, other, is_open = "min", high, ("a_min", low), low == -math.inf
    check(graph, node, is_open and graph.dtypes[node.output] == "float32", *other)
    limit = graph.new_constant(tvm.nd.array(np.array([bound], "float32")))
    return _binary_node(algorithm, [*node.inputs, limit], node.output)


def _function(graph: Graph, node: Operation) -> Operation:
    post: PostOp = node.attrs
    floats = {"alpha": post.alpha, "beta": post.beta}
    attrs = {"strings": {"algorithm": post.kind}, "floats": floats}
    return Operation("eltwise", node.inputs[:1], node.output, attrs=attrs)


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
        return reshape(graph, node)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(source))
    strings = {"algorithm": node.op}
    if kept == graph.shapes[node.output]:
        return Operation("reduce", node.inputs, node.output, attrs={"strings": strings})
    # oneDNN keeps reduced axes as ones: the result without them is a view.
    whole = graph.new_tensor(kept, graph.dtypes[node.output])
    view = Operation("reshape", [whole], node.output, attrs={})
    return [Operation("reduce", node.inputs, whole, attrs={"strings": strings}), view]


def _variance(graph: Graph, node: Operation) -> list[Operation]:
    """Lower to the mean of squares of the differences from the mean, which is the second
    operand."""
    check(graph, node, not node.attrs.unbiased, "unbiased", node.attrs.unbiased)
    data, mean = node.inputs
    dtype = graph.dtypes[data]
    centred, squares = (graph.new_tensor(graph.shapes[data], dtype) for _ in range(2))
    means = _reduce(graph, Operation("mean", [squares], node.output, attrs=node.attrs))
    return [
        _binary_node("sub", [data, mean], centred),
        _function(graph, Operation("function", [centred], squares, attrs=PostOp("square"))),
        *(means if isinstance(means, list) else [means]),
    ]


def _layer_norm(graph: Graph, node: Operation) -> Operation:
    attrs = node.attrs
    rank = len(graph.shapes[node.output])
    check(graph, node, int(attrs.axis) % rank == rank - 1, "axis", attrs.axis)
    scale = node.inputs[1] if attrs.scale else None
    shift = node.inputs[2] if attrs.center else None
    norm = LayerNorm(node.inputs[0], float(attrs.epsilon), scale, shift=shift)
    return lower_layer_norm(graph, dataclasses.replace(node, attrs=norm))


def _cast(graph: Graph, node: Operation) -> Operation:
    if graph.dtypes[node.inputs[0]] == graph.dtypes[node.output]:
        return reshape(graph, node)
    # TVM drops what is behind the point; types.py says where that is the same or may be rounded.
    return Operation("convert", node.inputs, node.output, attrs=qnn.conversion("truncate"))


def _qnn_dense(graph: Graph, node: Operation) -> Operation:
    ints = {"transpose_a": [0], "transpose_b": [1]}
    rank = len(graph.shapes[node.inputs[0]])
    check(graph, node, rank == 2, "rank of the data", rank)
    return Operation("matmul", node.inputs, node.output, attrs={"ints": ints})


_LOWER: dict[str, LowerNode] = {
    **{f"nn.conv{n}d": conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": deconv for n in (1, 2, 3)},
    "nn.dense": plain("inner_product"),
    **dict.fromkeys(("nn.matmul", "nn.batch_matmul"), _matmul),
    **{f"nn.{kind}_pool{n}d": pool for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.global_{kind}_pool2d": pool_side_by_side for kind in ("max", "avg")},
    **{
        f"nn.adaptive_{kind}_pool{n}d": pool_side_by_side
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
    "image.resize2d": resize,
    **{op: _binary for op in _BINARY},
    **dict.fromkeys(("nn.bias_add", "nn.prelu"), _with_vector),
    "clip": _clip,
    "function": _function,
    "nn.softmax": along_an_axis("softmax"),
    "nn.log_softmax": along_an_axis("log_softmax"),
    "concatenate": along_an_axis("concat"),
    **{op: _reduce for op in ("mean", "sum", "max", "min")},
    "variance": _variance,
    "layer_norm": lower_layer_norm,
    **dict.fromkeys(("reshape", "nn.batch_flatten", "squeeze", "expand_dims"), reshape),
    "transpose": transpose,
    "split": split,
    "strided_slice": strided_slice,
    **dict.fromkeys(("nn.depth_to_space", "nn.space_to_depth"), depth_to_space),
    "nn.pad": pad,
    "nn.dropout": reshape,
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
