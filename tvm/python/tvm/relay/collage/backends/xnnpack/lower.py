# SPDX-License-Identifier: Apache-2.0
"""From Relay ops to XNNPACK's nodes, one function a kind of op.

The table at the end is what the backend takes; an op that is not in it, or whose attributes its
function refuses, is an UnsupportedOpError that names op, attribute and value. Predicates run the
same functions, so that both agree. Shapes stay Relay's until axis_orders.py arranges them.
Test: backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relay

from ..ints import ints_of
from ..partition.flatten import flatten, flatten_calls
from ..partition.functions import EVALUABLE_OPS, recognise_all
from ..partition.graph import MAX_RANK, Graph, Operation, PostOp
from ..partition.lowering import LowerNode, along_an_axis, check, lower_by, plain, vector_along
from ..partition.views import depth_to_space, reshape, split, strided_slice, transpose
from .axis_orders import arrange
from .fuse import fuse
from .windows import conv, deconv, pool, pool_of_all


def lower_function(function: relay.Function) -> Graph:
    """Return the partition's nodes; UnsupportedOpError names what XNNPACK cannot run."""
    return arrange(fuse(lower(flatten(function, "xnnpack"))))


def takes(call: relay.Call) -> bool:
    """Accept a bare call; UnsupportedOpError says why not."""
    lower(flatten_calls("xnnpack", call, [call]))
    return True


def lower(graph: Graph) -> Graph:
    """Return the graph in XNNPACK's nodes; consumes the given one."""
    for node in graph.nodes:
        # The number that a pad adds is an attribute by its own type.
        inputs = node.inputs[:1] if node.op == "nn.pad" else node.inputs
        for tensor in [*inputs, node.output]:
            shape = graph.shapes[tensor]
            check(graph, node, graph.dtypes[tensor] == "float32", "dtype", graph.dtypes[tensor])
            check(graph, node, len(shape) <= MAX_RANK, "number of axes", len(shape))
            check(graph, node, 0 not in shape, "shape", shape)
        check(graph, node, graph.shapes[node.output], "number of axes", 0)
    recognise_all(graph, _FUNCTIONS)
    return lower_by(_LOWER, graph)


def _constant(graph: Graph, value: float) -> int:
    return graph.new_constant(tvm.nd.array(np.array([value], "float32")))


def _like(graph: Graph, tensor: int) -> int:
    return graph.new_tensor(graph.shapes[tensor], graph.dtypes[tensor])


# --- functions of one variable -------------------------------------------------------------------

# From there on a sigmoid is 0 or 1 in float32.
_SATURATED = 104.0
# Functions that are nodes of the same name, without parameters. XNNPACK's exp, log, sqrt and rsqrt
# are wrong of infinity, of no number or of the largest numbers.
_NODES = ("tanh", "square")


def _function(graph: Graph, node: Operation) -> list[Operation]:
    post: PostOp = node.attrs
    (source,), result = node.inputs, node.output
    return _FUNCTIONS[post.kind](graph, post, source, result)


def _same(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    return [Operation(post.kind, [source], result, attrs={})]


def _clamp(source: int, result: int, low: float, high: float) -> Operation:
    bounds = {"low": low, "high": high}
    floats = {name: value for name, value in bounds.items() if math.isfinite(value)}
    return Operation("clamp", [source], result, attrs={"floats": floats})


def _sigmoid(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    """Lower to a clamp and a sigmoid: beyond 8e26 XNNPACK's sigmoid is no number."""
    inside = _like(graph, result)
    return [
        _clamp(source, inside, -_SATURATED, _SATURATED),
        Operation("sigmoid", [inside], result, attrs={}),
    ]


def _relu(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    if post.alpha == 0.0:
        return [_clamp(source, result, 0.0, math.inf)]
    return [Operation("leaky_relu", [source], result, attrs={"floats": {"alpha": post.alpha}})]


def _clip(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    return [_clamp(source, result, post.alpha, post.beta)]


def _elu(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    return [Operation("elu", [source], result, attrs={"floats": {"alpha": post.alpha}})]


def _gelu(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    return [Operation("gelu", [source], result, attrs={})]


def _linear(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    """Lower alpha * x + beta."""
    nodes = []
    if post.beta != 0.0:
        scaled = source if post.alpha == 1.0 else _like(graph, result)
        nodes = [Operation("add", [scaled, _constant(graph, post.beta)], result, attrs={})]
        result = scaled
    if post.alpha != 1.0 or post.beta == 0.0:
        factors = [source, _constant(graph, post.alpha)]
        nodes.insert(0, Operation("multiply", factors, result, attrs={}))
    return nodes


def _swish(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    """Lower x * sigmoid(alpha * x)."""
    gate = _like(graph, result)
    nodes, scaled = [], source
    if post.alpha != 1.0:
        scaled = _like(graph, result)
        nodes = _linear(graph, PostOp("linear", post.alpha, 0.0), source, scaled)
    return [
        *nodes,
        *_sigmoid(graph, post, scaled, gate),
        Operation("multiply", [source, gate], result, attrs={}),
    ]


def _hardsigmoid(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    line = _like(graph, result)
    return [*_linear(graph, post, source, line), _clamp(line, result, 0.0, 1.0)]


def _hardswish(graph: Graph, post: PostOp, source: int, result: int) -> list[Operation]:
    """Lower x * clip(alpha * x + beta, 0, 1): a node where it is that of MobileNetV3."""
    if math.isclose(post.alpha, 1 / 6, rel_tol=1e-5) and math.isclose(post.beta, 0.5, rel_tol=1e-5):
        return [Operation("hardswish", [source], result, attrs={})]
    gate = _like(graph, result)
    return [
        *_hardsigmoid(graph, post, source, gate),
        Operation("multiply", [source, gate], result, attrs={}),
    ]


_FUNCTIONS: dict[str, Callable[[Graph, PostOp, int, int], list[Operation]]] = {
    **dict.fromkeys(_NODES, _same),
    "sigmoid": _sigmoid,
    "linear": _linear,
    "relu": _relu,
    "clip": _clip,
    "elu": _elu,
    "gelu_erf": _gelu,
    "swish": _swish,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
}


# --- others ---------------------------------------------------------------------------------------


def _with_vector(kind: str) -> Callable[[Graph, Operation], list[Operation]]:
    """Return the lowering of an op whose second operand is a vector along the attribute axis."""

    def lower(graph: Graph, node: Operation) -> list[Operation]:
        data, vector = node.inputs
        rank = len(graph.shapes[data])
        views, vector = vector_along(graph, vector, rank, int(node.attrs.axis) % rank)
        return [*views, Operation(kind, [data, vector], node.output, attrs={})]

    return lower


def _dense(graph: Graph, node: Operation) -> Operation:
    # Weights that are computed would be packed in each run.
    check(graph, node, node.inputs[1] in graph.constants, "weights", "no constant")
    return Operation("dense", node.inputs, node.output, attrs={})


def _matmul(graph: Graph, node: Operation) -> Operation:
    first, second = (graph.shapes[tensor] for tensor in node.inputs)
    attrs = node.attrs
    check(
        graph, node, len(first) == len(second), "ranks of the operands", [len(first), len(second)]
    )
    check(graph, node, not attrs.transpose_a, "transpose_a", attrs.transpose_a)
    check(
        graph, node, first[:-2] == second[:-2], "batches of the operands", [first[:-2], second[:-2]]
    )
    ints = {"transpose_b": [int(attrs.transpose_b)]}
    return Operation("matmul", node.inputs, node.output, attrs={"ints": ints})


def _mean(graph: Graph, node: Operation) -> Operation:
    rank = len(graph.shapes[node.inputs[0]])
    axes = {int(axis) % rank for axis in node.attrs.axis or range(rank)}
    if node.attrs.axis and node.attrs.exclude:
        axes = set(range(rank)) - axes
    check(graph, node, axes, "axis", "none")
    ints = {"axes": sorted(axes), "keep_dims": [int(node.attrs.keepdims)]}
    return Operation("mean", node.inputs, node.output, attrs={"ints": ints})


# Operands that one node joins.
_MOST_JOINED = 5


def _concat(graph: Graph, node: Operation) -> list[Operation]:
    """Lower to nodes that each join what there is so far with a few more."""
    axis = int(node.attrs.axis) % len(graph.shapes[node.output])
    joined, others = node.inputs[:_MOST_JOINED], node.inputs[_MOST_JOINED:]
    nodes = []
    while True:
        extents = list(graph.shapes[node.output])
        extents[axis] = sum(graph.shapes[tensor][axis] for tensor in joined)
        result = graph.new_tensor(extents) if others else node.output
        nodes.append(Operation("concat", joined, result, attrs={"ints": {"axis": [axis]}}))
        if not others:
            return nodes
        joined, others = [result, *others[: _MOST_JOINED - 1]], others[_MOST_JOINED - 1 :]


def _pad(graph: Graph, node: Operation) -> Operation:
    data, number = node.inputs
    check(graph, node, str(node.attrs.pad_mode) == "constant", "pad_mode", node.attrs.pad_mode)
    check(graph, node, number in graph.constants, "number", "one that is not known")
    widths = [ints_of(axis) for axis in node.attrs.pad_width]
    check(graph, node, min(map(min, widths)) >= 0, "pad_width", widths)
    value = graph.constants[number].numpy().item()
    check(graph, node, math.isfinite(value), "number", value)
    before, behind = ([sides[k] for sides in widths] for k in (0, 1))
    attrs = {"ints": {"before": before, "behind": behind}, "floats": {"value": value}}
    return Operation("pad", [data], node.output, attrs=attrs)


_LOWER: dict[str, LowerNode] = {
    "function": _function,
    "nn.conv2d": conv,
    "nn.conv2d_transpose": deconv,
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d"), pool),
    **dict.fromkeys(("nn.global_avg_pool2d", "nn.adaptive_avg_pool2d"), pool_of_all),
    "nn.dense": _dense,
    **dict.fromkeys(("nn.batch_matmul", "nn.matmul"), _matmul),
    **{op: plain(op) for op in ("add", "subtract", "multiply", "divide", "maximum", "minimum")},
    **{op: plain(op) for op in ("floor", "ceil")},
    "nn.bias_add": _with_vector("add"),
    "nn.prelu": _with_vector("prelu"),
    "nn.softmax": along_an_axis("softmax"),
    "mean": _mean,
    "concatenate": _concat,
    **dict.fromkeys(
        ("reshape", "nn.batch_flatten", "squeeze", "expand_dims", "nn.dropout"), reshape
    ),
    "transpose": transpose,
    "split": split,
    "strided_slice": strided_slice,
    **dict.fromkeys(("nn.depth_to_space", "nn.space_to_depth"), depth_to_space),
    "nn.pad": _pad,
}

# No nodes by themselves, but parts of functions that are.
_NONE = {"erf", "exp", "log", "power", "rsqrt", "sqrt"}
# Those that may be taken; which calls of them, lower() decides.
SUPPORTED_OPS = (frozenset(_LOWER) | (EVALUABLE_OPS - _NONE)) - {"function"}
