# SPDX-License-Identifier: Apache-2.0
"""Moves elementwise work into the primitive before it: bias, residual sums, activations, types.

A node whose only reader is an elementwise or binary node takes that one in as a bias or post-op and
moves to its place (where all operands exist). A dense layer takes in a reshape of its rows first,
which importers write before the bias. A conversion after a product is how its result is stored;
results stay what they are without that, but for ties: numbers that were rounded to integers on the
way are rounded in the primitive as well.
Test: backends/dnnl/test_codegen.py, backends/dnnl/test_qnn.py.
"""

from __future__ import annotations

import math

import numpy as np
import tvm

from ..partition.graph import Graph, Operation, PostOp
from .types import BYTES, is_quantised

_WITH_BIAS = {"conv", "deconv", "inner_product", "matmul"}
_WITH_POST_OPS = {"conv", "deconv", "inner_product", "matmul", "binary"}
_WITH_TYPES = ("conv", "matmul", "inner_product")  # their results may be of another type
_MAX_POST_OPS = 8


def fuse(graph: Graph) -> Graph:
    """Return the graph with post-ops; consumes the given one."""
    absorbed: set[int] = set()  # outputs of nodes that were taken into another
    users = graph.users()
    position = {node.output: i for i, node in enumerate(graph.nodes)}
    nodes: list[Operation | None] = list(graph.nodes)
    for start, anchor in enumerate(graph.nodes):
        if anchor.op not in _WITH_POST_OPS or anchor.output in absorbed:
            continue
        place = start
        while anchor.output not in graph.outputs and len(anchor.post_ops) < _MAX_POST_OPS:
            readers = users.get(anchor.output, [])
            if len(readers) != 1 or readers[0].output in absorbed:
                break
            consumer = readers[0]
            if not _take_in(graph, anchor, consumer):
                break
            absorbed.add(consumer.output)
            nodes[place] = None
            place = position[consumer.output]
            anchor.output = consumer.output
            nodes[place] = anchor
    graph.nodes = [node for node in nodes if node]
    return _sums_by_type(graph)


def _take_in(graph: Graph, anchor: Operation, consumer: Operation) -> bool:
    """Add consumer to anchor as a bias or a post-op, if it can be; tell whether it was."""
    if consumer.post_ops:
        return False
    if consumer.op == "reshape":
        return _is_reshape_of_rows(graph, anchor, consumer)
    if anchor.op == "deconv" and max(anchor.attrs["ints"]["strides"]) > 1:
        # oneDNN's kernel for these (3.x, AVX-512) sums many input channels in parts, and applies
        # bias and post-ops to each part: found by outputs of DCGAN.
        return _take_scale(graph, anchor, consumer)
    if consumer.op == "eltwise":
        floats = consumer.attrs["floats"]
        kind = consumer.attrs["strings"]["algorithm"]
        post = PostOp(kind, floats["alpha"], floats["beta"])
        dtype = graph.dtypes[anchor.output]
        if "float" not in dtype and not _is_for_integers(post, dtype):
            return False
        anchor.post_ops.append(post)
        return True
    if consumer.op == "prelu":
        return _take_in_prelu(graph, anchor, consumer)
    if consumer.op == "convert":
        return _take_conversion(graph, anchor, consumer)
    if consumer.op != "binary":
        return False
    return _take_in_binary(graph, anchor, consumer)


def _is_reshape_of_rows(graph: Graph, anchor: Operation, consumer: Operation) -> bool:
    """Return whether only rows are arranged anew: oneDNN's dense layer takes all leading axes as
    one.

    Not below a post-op with an operand, which has the shape from before.
    """
    before, after = graph.shapes[anchor.output], graph.shapes[consumer.output]
    has_operands = any(post.input >= 0 for post in anchor.post_ops)
    return (
        anchor.op == "inner_product"
        and not has_operands
        and len(after) > 1
        and before[-1] == after[-1]
    )


def _take_scale(graph: Graph, anchor: Operation, consumer: Operation) -> bool:
    if consumer.op != "binary" or consumer.attrs["strings"]["algorithm"] != "mul":
        return False
    others = [each for each in consumer.inputs if each != anchor.output]
    return len(others) == 1 and _scale_weights(graph, anchor, others[0])


def _take_in_binary(graph: Graph, anchor: Operation, consumer: Operation) -> bool:
    algorithm = consumer.attrs["strings"]["algorithm"]
    first, second = consumer.inputs
    if first == second or graph.shapes[consumer.output] != graph.shapes[anchor.output]:
        return False
    if first != anchor.output:
        # Ours is the second operand: right only where the order does not matter.
        if algorithm in ("sub", "div") or graph.shapes[first] != graph.shapes[anchor.output]:
            return False
        first, second = second, first
    if algorithm == "mul" and _scale_weights(graph, anchor, second):
        return True
    if algorithm == "add" and _can_be_bias(graph, anchor, second):
        anchor.inputs = [*anchor.inputs, graph.flattened(second)]
        return True
    if "float" not in graph.dtypes[anchor.output]:
        return False
    if graph.shapes[second] == graph.shapes[anchor.output]:
        is_sum = algorithm == "add" and anchor.op != "binary"
        anchor.post_ops.append(PostOp("sum" if is_sum else algorithm, input=second))
        return True
    # A second broadcast sends oneDNN's binary primitive to its reference code.
    if anchor.op != "binary" and _is_per_channel(graph, anchor, second):
        anchor.post_ops.append(PostOp(algorithm, input=second))
        return True
    return False


def _take_in_prelu(graph: Graph, anchor: Operation, consumer: Operation) -> bool:
    data, slopes = consumer.inputs
    is_float = {graph.dtypes[anchor.output], graph.dtypes[slopes]} == {"float32"}
    is_taken = is_float and data == anchor.output and anchor.op != "binary"
    if is_taken and _is_per_channel(graph, anchor, slopes):
        anchor.post_ops.append(PostOp("prelu", input=slopes))
        return True
    return False


def channel_axis(graph: Graph, node: Operation) -> int:
    """Return which axis of a node's Relay result is its channels."""
    if node.op in ("conv", "deconv"):
        return node.attrs["strings"]["data_layout"].index("C")
    return len(graph.shapes[node.output]) - 1


def _is_per_channel(graph: Graph, node: Operation, tensor: int) -> bool:
    """Tell whether a tensor broadcasts to the node's result along every axis but the channels."""
    shape, result = graph.shapes[tensor], graph.shapes[node.output]
    if math.prod(shape) == 1:
        return True
    axis = channel_axis(graph, node)
    aligned = (1,) * (len(result) - len(shape)) + shape
    return all(extent == (result[i] if i == axis else 1) for i, extent in enumerate(aligned))


def _can_be_bias(graph: Graph, anchor: Operation, tensor: int) -> bool:
    if anchor.op not in _WITH_BIAS or len(anchor.inputs) > 2 or anchor.post_ops:
        return False
    channels = graph.shapes[anchor.output][channel_axis(graph, anchor)]
    if math.prod(graph.shapes[tensor]) != channels or not _is_per_channel(graph, anchor, tensor):
        return False
    return tensor in graph.constants or len(graph.shapes[tensor]) == 1


def _scale_weights(graph: Graph, anchor: Operation, tensor: int) -> bool:
    """Multiply a transposed convolution's weights by a scale of its channels; tell whether it was.

    TVM does that to convolutions (FoldScaleAxis), but not to these.
    """
    is_first = len(anchor.inputs) == 2 and not anchor.post_ops
    weights = anchor.inputs[1]
    constants = graph.constants
    if anchor.op != "deconv" or not is_first or not {tensor, weights} <= constants.keys():
        return False
    if not _is_per_channel(graph, anchor, tensor):
        return False
    layout = anchor.attrs["strings"]["kernel_layout"]
    if graph.dtypes[weights] != "float32" or "G" in layout:
        return False
    values = constants[weights].numpy()
    shape = [-1 if axis == "O" else 1 for axis in layout]
    scaled = values * constants[tensor].numpy().reshape(shape)
    anchor.inputs = [anchor.inputs[0], graph.new_constant(tvm.nd.array(scaled))]
    return True


def _take_conversion(graph: Graph, anchor: Operation, conversion: Operation) -> bool:
    """Let a product have the conversion's type, if it can; tell whether it does."""
    source, target = graph.dtypes[anchor.output], graph.dtypes[conversion.output]
    if anchor.op not in _WITH_TYPES:
        return False
    if not is_quantised(graph, anchor):
        return graph.dtypes[anchor.inputs[0]] == "bfloat16" and "float" in target
    if source == "float32":
        # TVM's partitioning for oneDNN casts to bytes where it means oneDNN's rounding.
        is_rounded = conversion.attrs["strings"]["rounding"] == "nearest"
        return target in BYTES or (is_rounded and target == "int32") or target == "bfloat16"
    if source == "int32" and target in BYTES:
        return _is_within(anchor.post_ops, target)
    if target != "float32":
        return False
    # Sums are integers by themselves; everything else is where it has been rounded.
    if anchor.post_ops or source in BYTES:
        anchor.post_ops.append(PostOp("round"))
    if source in BYTES:
        low, high = _range(source)
        anchor.post_ops.append(PostOp("clip", float(low), float(high)))
    return True


def _is_for_integers(post: PostOp, dtype: str) -> bool:
    """Tell whether a function commutes with rounding to integers, and so may come before it."""
    if post.kind == "relu":
        return post.alpha == 0.0
    if post.kind == "linear":
        return dtype == "int32" and post.alpha == 1.0 and post.beta.is_integer()
    return post.kind == "clip" and post.alpha.is_integer() and post.beta.is_integer()


def _sums_by_type(graph: Graph) -> Graph:
    """Return the graph where sums read bytes as they lie, and others than of one type are adds."""
    producers = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        for post in node.post_ops:
            if post.kind != "sum" or not is_quantised(graph, node):
                continue
            tensor, alpha, beta = _scaled_bytes(graph, producers, post.input)
            if tensor != post.input:
                post.kind, post.input, post.alpha, post.beta = "scaled_sum", tensor, alpha, beta
            elif graph.dtypes[tensor] != graph.dtypes[node.output]:
                post.kind = "add"
    return graph


def _scaled_bytes(
    graph: Graph, producers: dict[int, Operation], tensor: int
) -> tuple[int, float, float]:
    """Return (x, a, b) where the tensor is a * x + b of bytes x, or the tensor itself."""
    alpha, beta, at = 1.0, 0.0, producers.get(tensor)
    if at is not None and at.op == "eltwise" and at.attrs["strings"]["algorithm"] == "linear":
        alpha, beta = at.attrs["floats"]["alpha"], at.attrs["floats"]["beta"]
        at = producers.get(at.inputs[0])
    if at is None or at.op != "convert" or graph.dtypes[at.inputs[0]] not in BYTES or alpha == 0.0:
        return tensor, 1.0, 0.0
    return at.inputs[0], alpha, beta


def _is_within(post_ops: list[PostOp], dtype: str) -> bool:
    """Tell whether the last step leaves only what the type can hold: TVM's casts wrap around."""
    low, high = _range(dtype)
    last = post_ops[-1] if post_ops else PostOp("")
    return last.kind == "clip" and low <= last.alpha and last.beta <= high


def _range(dtype: str) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
