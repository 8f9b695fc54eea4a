# SPDX-License-Identifier: Apache-2.0
"""`relay.ext.<backend>`: from a partition's function to the runtime module that runs it.

Precondition: the function has ``global_symbol``; its types are inferred, its weights are constants
of its body. The module holds the constants, so its backend's ``constants`` names none to TVM.
Test: backends/dnnl/test_codegen.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict

import tvm
from tvm import relay

from ...relay_util.external import is_on_one_thread
from .graph import Graph, Operation

_FORMAT = 2


class PostOpDescription(TypedDict):
    """Something done to a node's result before it is stored."""

    kind: str  # an elementwise function ("relu"), a binary one ("add"), or "sum"
    alpha: NotRequired[float]
    beta: NotRequired[float]
    input: NotRequired[int]  # the other operand's tensor; -1 without one


class NodeDescription(TypedDict):
    """One operation; its attributes are in three tables by the type of their values."""

    kind: str
    inputs: list[int]
    output: int
    ints: NotRequired[dict[str, list[int]]]
    floats: NotRequired[dict[str, float]]
    strings: NotRequired[dict[str, str]]
    post_ops: NotRequired[list[PostOpDescription]]
    call: NotRequired[int]  # which of the part's operator calls gives the result, for profiles


class PartitionDescription(TypedDict):
    """A partition as its runtime module reads it (graph_desc.h, border.schema.json)."""

    format: int  # changes with the meaning of any field
    shapes: list[list[int]]  # by tensor
    dtypes: NotRequired[list[str]]  # by tensor; float32 in files of format 1
    inputs: list[int]  # tensors, as callers pass them
    outputs: list[int]
    constants: list[int]  # tensors, as their arrays come
    nodes: list[NodeDescription]  # in the order of execution
    one_thread: NotRequired[int]  # 1 where all of it runs on the calling thread


# From a partition's function to the library's primitives; UnsupportedOpError names what it lacks.
Lower = Callable[[relay.Function], Graph]


class PartitionCodegen:
    """A backend's codegen: its ``lower``, and the C++ kind of partition that runs the outcome."""

    def __init__(self, kind: str, lower: Lower) -> None:
        self.kind, self.lower = kind, lower

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        """Return the runtime module of a partition's function."""
        symbol = str(function.attrs["global_symbol"])
        graph = self.lower(function)
        graph.shapes = [shape or (1,) for shape in graph.shapes]  # libraries know no rank 0
        graph.one_thread = is_on_one_thread(function)
        create = tvm.get_global_func(f"collage.{self.kind}.create")
        return create(symbol, to_json(graph), list(graph.constants.values()))


def to_json(graph: Graph) -> str:
    """Return the description that the runtime reads (graph_desc.h), tensors numbered anew."""
    number: dict[int, int] = {}
    for tensor in [*graph.inputs, *graph.constants, *(node.output for node in graph.nodes)]:
        number.setdefault(tensor, len(number))
    description: PartitionDescription = {
        "format": _FORMAT,
        "shapes": [list(graph.shapes[tensor]) for tensor in number],
        "dtypes": [graph.dtypes[tensor] for tensor in number],
        "inputs": [number[tensor] for tensor in graph.inputs],
        "outputs": [number[tensor] for tensor in graph.outputs],
        "constants": [number[tensor] for tensor in graph.constants],
        "nodes": [
            _node_description(node, number, call)
            for node, call in zip(graph.nodes, graph.calls_of_nodes(), strict=True)
        ],
    }
    if graph.one_thread:
        description["one_thread"] = 1
    return json.dumps(description, separators=(",", ":"))


def _node_description(
    node: Operation, number: Mapping[int, int], call: int | None
) -> NodeDescription:
    description: NodeDescription = {
        "kind": node.op,
        "inputs": [number[tensor] for tensor in node.inputs],
        "output": number[node.output],
        **{key: value for key, value in node.attrs.items() if value},
    }
    if call is not None:
        description["call"] = call
    if node.post_ops:
        description["post_ops"] = [
            {
                "kind": post.kind,
                "alpha": post.alpha,
                "beta": post.beta,
                "input": number.get(post.input, -1),
            }
            for post in node.post_ops
        ]
    return description
