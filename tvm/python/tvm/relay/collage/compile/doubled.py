# SPDX-License-Identifier: Apache-2.0
"""Writes x + x as 2 x, before TVM's SimplifyExpr does the same at a price.

TVM types the product by itself, on a copy of all that it is computed from, so that what x shares
with the rest of the net is shared no longer: the net doubles with each such sum. NASNet-A has 12 of
them in a row, and relay.build did not end within 10 minutes.

Test: compile/test_doubled.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .rewriting import Rewrite, is_call, rewrite_in_place


def double_in_place(mod: tvm.IRModule) -> bool:
    """Rewrites the open functions of `mod`, a typed module, which is typed again; returns whether
    anything changed."""
    return rewrite_in_place(mod, Rewrite(_is_sum, _Doubled))


class _Doubled(DFPatternCallback):
    """x + x, where both are one node."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("add")(wildcard(), wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if not _is_sum(post):
            return post
        return relay.multiply(post.args[0], relay.const(2, pre.checked_type.dtype))


def _is_sum(node: Any) -> bool:
    return is_call(node, "add") and node.args[0].same_as(node.args[1])
