# SPDX-License-Identifier: Apache-2.0
"""`relay.ext.dnnl`: compiles a partition's function to a oneDNN runtime module.

Test: test_onednn_codegen.py.
"""

from tvm import relay

from ..partition import Graph, PartitionCodegen, flatten
from ..partition.description import to_json
from .fuse import fuse
from .lower import lower
from .types import check_types

__all__ = ["compile_partition", "constants_of", "lower_function", "to_json"]


def lower_function(function: relay.Function) -> Graph:
    """Return the partition's primitives; UnsupportedOpError names what oneDNN cannot run."""
    graph = fuse(lower(flatten(function, "dnnl")))
    graph.remove_unused()
    return check_types(graph)


_CODEGEN = PartitionCodegen("dnnl", "onednn", lower_function)
compile_partition = _CODEGEN.compile
constants_of = _CODEGEN.constants
