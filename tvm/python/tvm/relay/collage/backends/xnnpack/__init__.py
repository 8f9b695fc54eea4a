# SPDX-License-Identifier: Apache-2.0
"""The backend ``xnnpack``: XNNPACK's subgraphs, images with their channels last.

Test: backends/xnnpack/test_backend.py.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import wildcard

from ..interface import GRAPH_LEVEL, Backend
from ..partition import PartitionCodegen
from ..partition.flatten import flatten_calls
from ..partition.spelled import elu, function_piece, gelu
from .lower import SUPPORTED_OPS, lower, lower_function, takes

_codegen = PartitionCodegen("xnnpack", lower_function)
# Raised when the same description becomes other nodes: costs of before are measured again.
_PLANS = "plans 1"


class XnnpackBackend(Backend):
    """XNNPACK through our own runtime module; float32 and static shapes."""

    name = "xnnpack"
    library = "XNNPACK"
    colour = "#999933"
    kind = GRAPH_LEVEL
    local_predicates = True
    restrictions = (
        "types other than float32",
        "dynamic shapes",
        "images of one or three axes",
        "the AOT executor",
    )

    def __init__(self) -> None:
        self.op_predicates = dict.fromkeys(SUPPORTED_OPS, takes)

    def version(self) -> str:
        """Return the digest of the library's file: it tells no version of its own."""
        return f"file {_digest(str(tvm.get_global_func('collage.xnnpack.file')()))}, {_PLANS}"

    def available(self) -> str | None:
        probe = tvm.get_global_func("collage.xnnpack.why_unavailable", allow_missing=True)
        if probe is None:
            return "libtvm_collage_runtime.so is not loaded"
        return str(probe()) or None

    def patterns(self) -> list[tuple]:
        # One of their calls, erf or exp, is no node by itself.
        spelled = {"elu": elu, "gelu": gelu}
        return [
            (f"xnnpack.{kind}", pattern(wildcard()), functools.partial(_is_one_node, kind))
            for kind, pattern in spelled.items()
        ]

    def compile(self, function: relay.Function) -> tvm.runtime.Module:
        return _codegen.compile(function)

    def constants(self, function: relay.Function, symbol: str) -> dict:
        """Return no constants: the module holds them."""
        return {}


def _is_one_node(kind: str, expr: relay.Expr) -> bool:
    """Tell whether the function that ends at a call is one node of that kind."""
    piece = function_piece("xnnpack", expr)
    if piece is None:
        return False
    graph = lower(flatten_calls("xnnpack", expr, piece[1]))
    return [node.op for node in graph.nodes] == [kind]


@functools.cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]
