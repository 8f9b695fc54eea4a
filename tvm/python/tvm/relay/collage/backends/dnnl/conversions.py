# SPDX-License-Identifier: Apache-2.0
"""Fusing of element types: a conversion after a product is how its result is stored.

Results stay what they are without fusing, but for ties: numbers that were rounded to integers on
the way are rounded in the primitive as well. Test: backends/dnnl/test_qnn.py.
"""

from __future__ import annotations

import numpy as np

from ..partition.graph import Graph, Operation, PostOp
from .types import BYTES, is_quantised

_PRODUCTS = ("conv", "matmul", "inner_product")


def take_conversion(graph: Graph, anchor: Operation, conversion: Operation) -> bool:
    """Let a product have the conversion's type, if it can; tell whether it does."""
    source, target = graph.dtypes[anchor.output], graph.dtypes[conversion.output]
    if anchor.op not in _PRODUCTS:
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


def is_for_integers(post: PostOp, dtype: str) -> bool:
    """Tell whether a function commutes with rounding to integers, and so may come before it."""
    if post.kind == "relu":
        return post.alpha == 0.0
    if post.kind == "linear":
        return dtype == "int32" and post.alpha == 1.0 and post.beta.is_integer()
    return post.kind == "clip" and post.alpha.is_integer() and post.beta.is_integer()


def sums_by_type(graph: Graph) -> Graph:
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
