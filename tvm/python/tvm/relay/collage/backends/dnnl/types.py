# SPDX-License-Identifier: Apache-2.0
"""Refusals: attributes of ops, and element types of a primitive's operands and result.

Types are asked for when all fusing is done: then a product's result has the type it is stored in.
Test: backends/dnnl/test_types.py.
"""

from __future__ import annotations

import tvm

from ...errors import UnsupportedOpError
from ..partition.graph import Graph, Operation

_FLOATS = ("float32", "bfloat16")
BYTES = ("int8", "uint8")
TYPES = (*_FLOATS, *BYTES, "int32")
PRODUCTS = ("conv", "deconv", "inner_product", "matmul")

# Products of data and weights, which may be of two floats.
CONVERTING = ("conv", "deconv", "inner_product")

# Primitive whose operands and result are of one type -> these types.
_ALIKE = {
    **dict.fromkeys(("binary", "softmax", "log_softmax", "layer_norm"), _FLOATS),
    **dict.fromkeys(("reduce", "resample"), _FLOATS),
    "prelu": ("float32",),
    "concat": (*_FLOATS, *BYTES),
    **dict.fromkeys(("reshape", "slice", "transpose"), TYPES),
}
_ORDERED = ("relu",)  # oneDNN has no other function of integers

# (from, to) -> how it rounds: what a conversion by itself may be. Exact ones are the same in both.
_NEAREST, _TRUNCATE = "nearest", "truncate"
_CONVERSIONS = {
    **{(source, "float32"): (_NEAREST, _TRUNCATE) for source in ("bfloat16", "int32", *BYTES)},
    ("float32", "bfloat16"): (_NEAREST, _TRUNCATE),
    **{("float32", target): (_NEAREST,) for target in BYTES},
}


def check_types(graph: Graph) -> Graph:
    """Return the graph; UnsupportedOpError names the first primitive with types it has no code for.

    bfloat16 is refused where oneDNN has no kernels for it on this CPU, and products of bytes where
    its sums of them saturate.
    """
    for node in graph.nodes:
        types = [graph.dtypes[tensor] for tensor in [*node.operands(), node.output]]
        if not _may_have(graph, node):
            text = ", ".join(types[:-1]) + f" -> {types[-1]}"
            raise UnsupportedOpError(graph.backend, _name(node), f"types {text} are not supported")
        if "bfloat16" in types and not runs_bfloat16():
            reason = "bfloat16 needs AVX-512, which this CPU lacks"
            raise UnsupportedOpError(graph.backend, _name(node), reason)
        if is_quantised(graph, node) and (reason := why_bytes_are_inexact()):
            raise UnsupportedOpError(graph.backend, _name(node), reason)
    return graph


def runs_bfloat16() -> bool:
    """Tell whether oneDNN computes in bfloat16 on this CPU."""
    return bool(tvm.get_global_func("collage.onednn.runs_bfloat16")())


def why_bytes_are_inexact() -> str:
    """Return why oneDNN's sums of 8-bit products may be wrong on this CPU, or ""."""
    return str(tvm.get_global_func("collage.onednn.why_bytes_are_inexact")())


def is_quantised(graph: Graph, node: Operation) -> bool:
    """Tell whether a primitive is a product of 8-bit integers."""
    return node.op in PRODUCTS and graph.dtypes[node.inputs[0]] in BYTES


def _name(node: Operation) -> str:
    """Return what the primitive is called in a message: "binary (add)"."""
    algorithm = (node.attrs or {}).get("strings", {}).get("algorithm")
    return f"{node.op} ({algorithm})" if algorithm else node.op


def _may_have(graph: Graph, node: Operation) -> bool:
    inputs = [graph.dtypes[tensor] for tensor in node.inputs]
    others = [graph.dtypes[post.input] for post in node.post_ops if post.input >= 0]
    result = graph.dtypes[node.output]
    if not all(each in (*_FLOATS, *BYTES) for each in others):
        return False
    # A sum is made in the memory of the result.
    sums = [graph.dtypes[post.input] for post in node.post_ops if post.kind == "sum"]
    if any(each != result for each in sums):
        return False
    if node.op in PRODUCTS:
        return _may_multiply(node, inputs, result)
    if node.op == "convert":
        rounding = node.attrs["strings"]["rounding"]
        return rounding in _CONVERSIONS.get((inputs[0], result), ())
    if node.op == "layer_norm":
        inputs = inputs[:1]
    return set(inputs) == {result} and result in _alike(node)


def _alike(node: Operation) -> tuple[str, ...]:
    algorithm = node.attrs["strings"].get("algorithm") if node.op in ("eltwise", "pool") else None
    if node.op == "eltwise":
        return (*_FLOATS, *BYTES) if algorithm in _ORDERED else _FLOATS
    if node.op == "pool":
        return (*_FLOATS, *BYTES) if algorithm == "max" else _FLOATS
    return _ALIKE[node.op]


def _may_multiply(node: Operation, inputs: list[str], result: str) -> bool:
    data, weights, *bias = inputs
    if data in BYTES:
        # The scale-free product of dense layers of bytes is matmul's.
        is_known = weights == "int8" and node.op in ("conv", "matmul")
        return is_known and result in TYPES and set(bias) <= {"float32", "int32"}
    is_result = result in (weights, "float32")
    # A product of data and weights converts data to the type of these while it lays them out.
    is_data = data in _FLOATS if node.op in CONVERTING else data == weights
    return is_data and weights in _FLOATS and is_result and set(bias) <= {"float32", weights}
