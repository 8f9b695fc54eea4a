# SPDX-License-Identifier: Apache-2.0
"""`relay.ext.dnnl`: compiles a partition's function to a oneDNN runtime module.

Precondition: the function has ``global_symbol``; its types are inferred, its weights are constants
of its body. Both entry points walk the function alike, so names and values of constants agree.
Test: test_onednn_codegen.py.
"""

import json

import tvm
from tvm import relay

from .flatten import flatten
from .fuse import fuse
from .graph import Graph
from .lower import lower

_FORMAT = 1


def lower_function(function: relay.Function) -> Graph:
    """Return the partition's primitives; UnsupportedOpError names what oneDNN cannot run."""
    graph = fuse(lower(flatten(function)))
    graph.remove_unused()
    return graph


def compile_partition(function: relay.Function) -> tvm.runtime.Module:
    """Return the runtime module of a partition's function."""
    symbol = str(function.attrs["global_symbol"])
    graph = lower_function(function)
    create = tvm.get_global_func("collage.onednn.create")
    return create(symbol, to_json(graph), list(_named_constants(graph, symbol)))


def constants_of(function: relay.Function, symbol: str) -> dict[str, tvm.nd.NDArray]:
    """Return the constants that the partition's module will ask for, by name."""
    return _named_constants(lower_function(function), str(symbol))


def _named_constants(graph, symbol):
    # TVM wants the names to begin with the backend's.
    return {f"dnnl_{symbol}_{i}": array for i, array in enumerate(graph.constants.values())}


def to_json(graph: Graph) -> str:
    """Return the description that the runtime reads (graph_desc.h), tensors numbered anew."""
    number: dict[int, int] = {}
    for tensor in [*graph.inputs, *graph.constants, *(node.output for node in graph.nodes)]:
        number.setdefault(tensor, len(number))
    return json.dumps(
        {
            "format": _FORMAT,
            "shapes": [list(graph.shapes[tensor]) or [1] for tensor in number],
            "inputs": [number[tensor] for tensor in graph.inputs],
            "outputs": [number[tensor] for tensor in graph.outputs],
            "constants": [number[tensor] for tensor in graph.constants],
            "nodes": [_node_json(node, number) for node in graph.nodes],
        },
        separators=(",", ":"),
    )


def _node_json(node, number):
    description = {
        "kind": node.op,
        "inputs": [number[tensor] for tensor in node.inputs],
        "output": number[node.output],
        **{key: value for key, value in node.attrs.items() if value},
    }
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
