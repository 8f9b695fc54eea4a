# SPDX-License-Identifier: Apache-2.0
"""A graph of primitives in float32, computed in bfloat16 where nobody keeps it from that.

Products take operands in bfloat16, and sum in float32 as oneDNN does; convolutions and dense layers
convert what they read while they lay it out. Other work is done in the type of what it reads. What
a product gives is stored in bfloat16 unless those that read it want float32, which costs nothing.
Inputs and outputs of the part stay as they are, and so do biases and products of bytes.
Precondition: all fusing is done. Test: backends/dnnl/test_bfloat16.py.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import tvm

from ..partition.graph import Graph, Operation
from .qnn import conversion
from .types import CONVERTING, PRODUCTS

_LONG, _SHORT = "float32", "bfloat16"
_LARGEST = np.float32(3.3895314e38)  # of bfloat16
# What oneDNN does in the type of what it reads, whichever float that is; it computes inside in
# float32.
_FOLLOW = frozenset(
    ("binary", "concat", "eltwise", "layer_norm", "log_softmax", "pool", "reduce", "resample")
    + ("reshape", "slice", "softmax", "transpose")
)


def keep_products(graph: Graph, calls: Collection[int]) -> Graph:
    """Return the graph, lowered and not fused yet, whose products that are some of the function's
    operator calls, named by their places, stay in float32."""
    if calls:
        for node, call in zip(graph.nodes, graph.calls_of_nodes(), strict=True):
            node.is_kept = node.op in PRODUCTS and call in calls
    return graph


def in_bfloat16(graph: Graph) -> Graph:
    """Return the graph in bfloat16; consumes the given one."""
    shortened, stored = _shortened(graph)
    readers = graph.users()
    rewriter = _Rewriter(graph)
    for node in graph.nodes:
        if id(node) in shortened:
            others = readers.get(node.output, ())
            is_wanted = any(id(reader) in shortened for reader in others)
            is_long = node.output not in stored or (node.op in PRODUCTS and not is_wanted)
            rewriter.shorten(node, _LONG if is_long else _SHORT)
        else:
            rewriter.keep(node)
    graph.nodes = rewriter.nodes
    graph.remove_unused()
    return graph


def _shortened(graph: Graph) -> tuple[set[int], set[int]]:
    """Return the nodes, by id, that compute in bfloat16, and those of their results that can be
    stored in it."""
    found: set[int] = set()
    short: set[int] = set()
    for node in graph.nodes:
        data = node.inputs[:2] if node.op in PRODUCTS else node.inputs
        is_float = {graph.dtypes[tensor] for tensor in (*data, node.output)} == {_LONG}
        if node.op in PRODUCTS:
            is_short = is_float and not node.is_kept
        else:
            read = [tensor for tensor in data if tensor not in graph.constants]
            is_inside = node.op in _FOLLOW and node.output not in graph.outputs
            is_short = is_float and is_inside and bool(read) and short.issuperset(read)
            is_short = is_short and not any(_is_huge(graph, t) for t in node.operands())
        if is_short:
            found.add(id(node))
            if not _must_be_long(graph, node):
                short.add(node.output)
    return found, short


class _Rewriter:
    """Gives each node operands of the type that it computes in."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Operation] = []
        self._graph = graph
        self._short: set[int] = set()  # tensors that are in bfloat16 now, unlike those of the model
        self._other: dict[int, int] = {}  # by tensor: the same in the other float

    def shorten(self, node: Operation, result: str) -> None:
        """Add a node that computes in bfloat16 and gives its result in that type."""
        self._graph.dtypes[node.output] = result
        if result == _SHORT:
            self._short.add(node.output)
        self._add(node, _SHORT)

    def keep(self, node: Operation) -> None:
        """Add a node that computes in what it is in."""
        self._add(node, _LONG)

    def _add(self, node: Operation, wanted: str) -> None:
        typed, dtypes = _typed(node), self._graph.dtypes
        node.inputs = [self._as(t, wanted) if t in typed else t for t in node.inputs]
        for post in node.post_ops:
            if post.kind == "prelu":  # whose slopes oneDNN reads in float32
                post.input = self._as(post.input, _LONG)
            # A sum is made in the memory of the result.
            if post.kind == "sum" and dtypes[post.input] != dtypes[node.output]:
                post.kind = "add"
        self.nodes.append(node)

    def _as(self, tensor: int, wanted: str) -> int:
        """Return a tensor that is in float32, or was before, in the type that is wanted, converted
        once; others as they are."""
        graph = self._graph
        is_other = tensor in self._short if wanted == _LONG else graph.dtypes[tensor] == _LONG
        if not is_other:
            return tensor
        if tensor not in self._other:
            if tensor in graph.constants:
                self._other[tensor] = graph.new_constant(_shortest(graph.constants[tensor]))
            else:
                other = graph.new_tensor(graph.shapes[tensor], wanted)
                given = Operation("convert", [tensor], other, attrs=conversion("nearest"))
                self.nodes.append(given)
                self._other[tensor] = other
        return self._other[tensor]


def _must_be_long(graph: Graph, node: Operation) -> bool:
    """Return whether a node's result stays in float32 whoever reads it."""
    is_beyond = any(_is_huge(graph, post.input) for post in node.post_ops)
    return node.output in graph.outputs or is_beyond


def _is_huge(graph: Graph, tensor: int) -> bool:
    """Return whether a constant has finite numbers that bfloat16 has not, as masks of attention do:
    what is added to them would be infinite."""
    array = graph.constants.get(tensor)
    if array is None or graph.dtypes[tensor] != _LONG:
        return False
    values = np.abs(array.numpy())
    return bool((values[np.isfinite(values)] > _LARGEST).any())


def _typed(node: Operation) -> list[int]:
    """Return the operands that have to be of the type that a node computes in."""
    if node.op in CONVERTING:
        return node.inputs[1:2]
    return node.inputs[: 2 if node.op in PRODUCTS else 1 if node.op == "layer_norm" else None]


def _shortest(array: tvm.nd.NDArray) -> tvm.nd.NDArray:
    """Return the nearest numbers of bfloat16."""
    from ml_dtypes import bfloat16  # which the first numpy array of such takes

    values = array.numpy()
    values = np.where(np.isfinite(values), np.clip(values, -_LARGEST, _LARGEST), values)
    bits = np.ascontiguousarray(values.astype(bfloat16)).view("uint16")
    return tvm.nd.empty(array.shape, _SHORT).copyfrom(bits)
