# SPDX-License-Identifier: Apache-2.0
"""Rewrites functions in place, by patterns: `doubled`, `scale_axis`, `one_row`, and the rules that
`prepare` applies at once, `prelu`, `einsum`, `implied` and `taken`.

Test: compile/test_doubled.py, compile/test_scale_axis.py, compile/test_einsum.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, rewrite

from ..relay_util.walk import nodes_of
from .fold import is_open_function


class Rewrite(NamedTuple):
    """One rule: `is_meant` tells of a node whether what `make` makes may rewrite it."""

    is_meant: Callable[[Any], bool]
    make: Callable[[], DFPatternCallback]


def rewrite_in_place(mod: tvm.IRModule, *rules: Rewrite) -> bool:
    """Rewrites the open functions of `mod`, a typed module, which is typed again; returns whether
    anything changed.

    One walk finds the rules whose nodes a function holds, and only these match their patterns:
    most functions hold none.
    """
    changed = False
    for var, function in mod.functions_items():
        if is_open_function(function) and (needed := _needed(function, rules)):
            mod.update_func(var, rewrite([rule.make() for rule in needed], function, mod))
            changed = True
    if changed:
        type_in_place(mod)
    return changed


def type_in_place(mod: tvm.IRModule) -> None:
    """Types what a pass has returned, without instruments: whoever asks may be one."""
    with tvm.transform.PassContext():
        mod.update(relay.transform.InferType()(mod))


def is_call(node: Any, *names: str) -> bool:
    """Whether a node is a call of an operator of one of these names."""
    is_op_call = isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op)
    return is_op_call and node.op.name in names


def _needed(function: relay.Function, rules: Sequence[Rewrite]) -> list[Rewrite]:
    """The rules whose nodes the function holds, in their order."""
    nodes = nodes_of(function)
    return [rule for rule in rules if any(map(rule.is_meant, nodes))]
