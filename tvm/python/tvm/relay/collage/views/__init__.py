# SPDX-License-Identifier: Apache-2.0
"""The partitioner's data types in Python (RFC 0062, reference section), to look at, not to change.

Handles on the C++ objects that the pass itself works with; nothing is computed twice.

    graph = collage.dataflow_graph(mod["main"])
    part = graph.sub_graph([5, 6], composites={"dnnl.conv2d_relu": [5, 6]})
    part.exits, part.is_valid(SubGraphConfig(max_exits=1))
    for candidate in collage.candidates(mod, [collage.host_target(), "dnnl"]): print(candidate)
"""

from .graph import DataflowGraph, NestedSubGraph, Node, SubGraph, SubGraphConfig
from .handle import IndexSet, OpKind, TensorType
from .partition import CandidatePartition, PartitionSpec

__all__ = [
    "CandidatePartition",
    "DataflowGraph",
    "IndexSet",
    "NestedSubGraph",
    "Node",
    "OpKind",
    "PartitionSpec",
    "SubGraph",
    "SubGraphConfig",
    "TensorType",
]
