# SPDX-License-Identifier: Apache-2.0
"""From Relay ops to matrix products: one node each, with a bias and a relu where they follow.

What it refuses is an UnsupportedOpError that names op, attribute and value. The patterns'
predicates run it too, so pattern table and codegen cannot disagree.
Test: backends/blas/test_lower.py, backends/blas/test_errors.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relay

from ...errors import UnsupportedOpError
from ..partition import Graph, Node, flatten

_MAX_SIZE = 2**31 - 1
_DTYPES = ("float32", "float64")


def lower_function(function: relay.Function, backend: str) -> Graph:
    """Return the partition's products."""
    return lower(flatten(function, backend))


def lower(graph: Graph) -> Graph:
    """Return the graph in products; consumes the given one."""
    users = graph.users()
    products: dict[int, Node] = {}  # by their result so far
    for node in graph.nodes:
        _check_tensors(graph, node)
        if node.op in _PRODUCTS:
            product = _PRODUCTS[node.op](graph, node)
        else:
            product = _with_epilogue(graph, node, products, users)
        products[product.output] = product
    graph.nodes = list(products.values())
    return graph


def _check(graph: Graph, node: Node, condition: object, attribute: str, value: object) -> None:
    if not condition:
        raise UnsupportedOpError(graph.backend, node.op, f"{attribute}={value} is not supported")


def _check_tensors(graph: Graph, node: Node) -> None:
    dtype = graph.dtypes[node.output]
    _check(graph, node, dtype in _DTYPES, "dtype", dtype)
    for tensor in [*node.inputs, node.output]:
        shape = graph.shapes[tensor]
        _check(graph, node, graph.dtypes[tensor] == dtype, "dtype", graph.dtypes[tensor])
        _check(graph, node, all(0 < extent <= _MAX_SIZE for extent in shape), "shape", shape)


def _product(graph: Graph, node: Node, transpose_a: Any, transpose_b: Any) -> Node:
    out_dtype = str(node.attrs.out_dtype)
    same = out_dtype in ("", graph.dtypes[node.output])
    _check(graph, node, same, "out_dtype", out_dtype)
    rows = math.prod(graph.shapes[node.output][:-1])
    _check(graph, node, rows <= _MAX_SIZE, "number of rows", rows)
    ints = {"transpose_a": [int(transpose_a)], "transpose_b": [int(transpose_b)], "relu": [0]}
    return Node("matmul", list(node.inputs), node.output, {"ints": ints})


def _dense(graph: Graph, node: Node) -> Node:
    rank = len(graph.shapes[node.inputs[0]])
    _check(graph, node, rank >= 2, "number of axes", rank)
    return _product(graph, node, False, True)


def _matmul(graph: Graph, node: Node) -> Node:
    shapes = [graph.shapes[tensor] for tensor in node.inputs]
    ranks = [len(shape) for shape in shapes]
    _check(graph, node, ranks in ([2, 2], [3, 3]), "numbers of axes", ranks)
    return _product(graph, node, node.attrs.transpose_a, node.attrs.transpose_b)


_PRODUCTS = {"nn.dense": _dense, "nn.matmul": _matmul, "nn.batch_matmul": _matmul}


def _with_epilogue(
    graph: Graph, node: Node, products: dict[int, Node], users: dict[int, list[Node]]
) -> Node:
    """Return the product that this node's work moves into; it is taken out of ``products``."""
    source, bias = _source_and_bias(graph, node, products)
    product = products.get(source)
    if product is None or len(users[source]) != 1 or source in graph.outputs:
        raise UnsupportedOpError(graph.backend, node.op, "it does not end a matrix product")
    ints = product.attrs["ints"]
    if bias is not None:
        _check(graph, node, len(product.inputs) == 2, "biases", 2)
        _check(graph, node, not ints["relu"][0], "bias after", "relu")
        product.inputs.append(bias)
    else:
        ints["relu"] = [1]
    del products[source]
    product.output = node.output
    return product


def _source_and_bias(graph: Graph, node: Node, products: dict[int, Node]) -> tuple[int, int | None]:
    """Return the product's result that a node reads, and its bias; None for a relu."""
    if node.op == "nn.relu":
        return node.inputs[0], None
    if node.op not in ("add", "nn.bias_add"):
        raise UnsupportedOpError(graph.backend, node.op, "the op is not in its table")
    shape = graph.shapes[node.output]
    if node.op == "nn.bias_add":
        axis = int(node.attrs.axis) % len(shape)
        _check(graph, node, axis == len(shape) - 1, "axis", node.attrs.axis)
        return node.inputs[0], node.inputs[1]
    first, second = node.inputs
    if not (first in products and _is_row(graph.shapes[second], shape)):
        first, second = second, first
    is_bias = first in products and graph.shapes[first] == shape
    is_bias = is_bias and _is_row(graph.shapes[second], shape)
    _check(graph, node, is_bias, "shapes", [graph.shapes[tensor] for tensor in node.inputs])
    return first, second


def _is_row(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Tell whether a tensor holds one number for each element of the result's last axis."""
    return math.prod(shape) == result[-1] == (shape[-1] if shape else 1)
