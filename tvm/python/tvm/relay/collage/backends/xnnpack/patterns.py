# SPDX-License-Identifier: Apache-2.0
"""Chains of calls that are one node of XNNPACK's and of which some are none by themselves.

Test: backends/xnnpack/test_backend.py.
"""

from __future__ import annotations

from tvm import relay
from tvm.relay.dataflow_pattern import wildcard

from ..partition.flatten import flatten_calls
from ..partition.spelled import function_piece, gelu
from .lower import lower


def pattern_table() -> list[tuple]:
    """Return (composite name, pattern, predicate) entries."""
    return [("xnnpack.gelu", gelu(wildcard()), _is_gelu)]


def _is_gelu(expr: relay.Expr) -> bool:
    piece = function_piece("xnnpack", expr)
    if piece is None:
        return False
    graph = lower(flatten_calls("xnnpack", expr, piece[1]))
    return [node.op for node in graph.nodes] == ["gelu"]
