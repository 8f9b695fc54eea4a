# SPDX-License-Identifier: Apache-2.0
"""`relay.ext.dnnl`: compiles a partition's function to a oneDNN runtime module.

Test: backends/dnnl/test_codegen.py.
"""

import functools
from typing import Any

from tvm import relay

from ..interface import kept_calls
from ..partition import Graph, PartitionCodegen, flatten
from ..partition.description import to_json
from .bfloat16 import in_bfloat16, keep_products
from .fuse import fuse
from .kernels import set_kernels
from .lower import lower
from .transposed import replace_transposed
from .types import check_types

__all__ = ["WINOGRAD_CHOICES", "codegen", "lower_function", "to_json"]

WINOGRAD_CHOICES = ("auto", "always", "never")


def lower_function(
    function: relay.Function,
    winograd: str = "auto",
    *,
    backend: str = "dnnl",
    is_short: bool = False,
) -> Graph:
    """Return the partition's primitives; UnsupportedOpError names what oneDNN cannot run.

    ``winograd``: whether convolutions that can run by our kernel do so where that is expected to be
    faster, always, or never (one of WINOGRAD_CHOICES). ``is_short``: whether float32 is computed in
    bfloat16, but for the calls that the function says are kept. ``backend``: whom errors name.
    """
    graph = lower(flatten(function, backend))
    if is_short:
        graph = keep_products(graph, kept_calls(function))
    graph = replace_transposed(fuse(graph))
    graph.remove_unused()
    if is_short:
        graph = in_bfloat16(graph)
    if winograd != "auto":
        for node in graph.nodes:
            if node.op == "conv":
                node.attrs["strings"]["winograd"] = winograd
    set_kernels(graph, function)
    return check_types(graph)


def codegen(winograd: str = "auto", **options: Any) -> PartitionCodegen:
    """Return what compiles partitions, with lower_function's options."""
    lowered = functools.partial(lower_function, winograd=winograd, **options)
    return PartitionCodegen("onednn", lowered)
