# SPDX-License-Identifier: Apache-2.0
"""Layout transforms at the borders of a TVM candidate, timed apart.
Test: measure/profiler/test_profile.py.

A TVM part measured alone turns its inputs to a blocked layout and its outputs back; in a network
those transforms vanish between two TVM parts, so they are no part of its cost (they are charged as
a transition where the neighbour is not TVM). Transforms fused with other work cannot be told apart
and stay in the cost.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from typing import Any

import tvm

from ...exec.arrays import set_inputs

_LONE_TRANSFORM = re.compile(r".*fused_layout_transform(_\d+)?$")
_NODE_REPEATS = 7
_NODE_SECONDS = 5e-4


def border_nodes(graph: dict[str, Any], inputs: set[str]) -> list[int]:
    """Return the indices of the kernels that are a lone layout transform of an input or into an
    output.

    `graph` is the graph executor's JSON, `inputs` the names of its inputs without parameters.
    Empty when nothing else runs: then the transforms are the candidate's own work.
    """
    nodes = graph["nodes"]
    kernels = [i for i, node in enumerate(nodes) if is_kernel(node)]
    heads = {head[0] for head in graph["heads"]}
    found = []
    for i in kernels:
        if not _LONE_TRANSFORM.match(nodes[i]["attrs"]["func_name"]):
            continue
        sources = [nodes[entry[0]] for entry in nodes[i]["inputs"]]
        from_input = all(s["op"] == "null" and s["name"] in inputs for s in sources)
        if from_input or i in heads:
            found.append(i)
    return [] if len(found) == len(kernels) else found


def is_kernel(node: dict[str, Any]) -> bool:
    return node["op"] == "tvm_op" and node["attrs"]["func_name"] != "__nop"


def border_share(
    library: tvm.runtime.Module, device: tvm.runtime.Device, values: dict[str, Any]
) -> float:
    """Return the share, in [0, 1), of the run time that border transforms take.

    Each kernel is timed alone and the whole is split in their proportion, so that compute and
    borders always add up to what was measured, whatever the launch costs.
    """
    graph = json.loads(library["get_graph_json"]())
    borders = border_nodes(graph, set(values))
    if not borders:
        return 0.0
    executor = library["debug_create"]("default", device)
    set_inputs(executor, values)
    executor["run"]()  # a kernel timed alone must find its inputs computed
    time_node = executor["run_individual_node"]
    seconds = {
        i: _node_seconds(time_node, i) for i, node in enumerate(graph["nodes"]) if is_kernel(node)
    }
    total = sum(seconds.values())
    return sum(seconds[i] for i in borders) / total if total > 0 else 0.0


def _node_seconds(time_node: Callable[..., bytes], index: int) -> float:
    """Return the median seconds of one kernel; the executor answers with packed doubles."""

    def run(number: int, repeat: int) -> list[float]:
        data = bytes(time_node(index, number, repeat, 0, 100, 0, 1))
        return sorted(struct.unpack(f"@{repeat}d", data))

    number = max(1, min(1000, int(_NODE_SECONDS / max(run(1, 3)[1], 1e-7))))
    return run(number, _NODE_REPEATS)[_NODE_REPEATS // 2]
