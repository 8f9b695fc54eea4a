# SPDX-License-Identifier: Apache-2.0
"""Rewrites functions in place, by a pattern: `doubled`, `scale_axis`, `one_row`, `prelu`, `einsum`.

Test: compile/test_doubled.py, compile/test_scale_axis.py, compile/test_einsum.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, rewrite

from .fold import is_open_function


def rewrite_in_place(
    mod: tvm.IRModule, is_meant: Callable[[Any], bool], make: Callable[[], DFPatternCallback]
) -> bool:
    """Rewrites the open functions of `mod`, a typed module, which is typed again; returns whether
    anything changed.

    `is_meant` tells of a node whether what `make` makes rewrites it. Only functions that hold such
    nodes are gone through, and most hold none.
    """
    changed = False
    for var, function in mod.functions_items():
        if is_open_function(function) and _holds(function, is_meant):
            mod.update_func(var, rewrite(make(), function, mod))
            changed = True
    if changed:
        # Without instruments: whoever asks may be one.
        with tvm.transform.PassContext():
            mod.update(relay.transform.InferType()(mod))
    return changed


def is_call(node: Any, *names: str) -> bool:
    """Whether a node is a call of an operator of one of these names."""
    is_op_call = isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op)
    return is_op_call and node.op.name in names


def _holds(function: relay.Function, is_meant: Callable[[Any], bool]) -> bool:
    found: list[Any] = []
    relay.analysis.post_order_visit(
        function, lambda node: found.append(node) if is_meant(node) else None
    )
    return bool(found)
