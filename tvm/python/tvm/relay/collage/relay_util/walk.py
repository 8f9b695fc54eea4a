# SPDX-License-Identifier: Apache-2.0
"""Steps of a walk over Relay expressions.
Test: compile/test_fold.py, backends/onnx_model/test_export.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relay


def key_of(expr: Any) -> int:
    """What tells an expression from others that live; TVM's own hash is a call of C++."""
    return expr.handle.value


def operands_of(expr: Any) -> list[Any]:
    """The operands of a call, tuple or projection; nothing for other expressions."""
    if isinstance(expr, relay.Call):
        return list(expr.args)
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    return []


def children_of(expr: Any) -> list[Any]:
    """The operands, and what a let or an if is made of; not the inside of a function."""
    if isinstance(expr, relay.Let):
        return [expr.value, expr.body]
    if isinstance(expr, relay.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    return operands_of(expr)


def rebuild(expr: Any, new: Sequence[Any]) -> Any:
    """A copy of a node on new sub-expressions that keeps its type, span and virtual device."""
    if isinstance(expr, relay.Call):
        return relay.expr.CallWithFields(expr, None, new)
    if isinstance(expr, relay.Tuple):
        return relay.expr.TupleWithFields(expr, new)
    if isinstance(expr, relay.TupleGetItem):
        return relay.expr.TupleGetItemWithFields(expr, new[0])
    if isinstance(expr, relay.Let):
        return relay.expr.LetWithFields(expr, None, new[0], new[1])
    return relay.expr.IfWithFields(expr, new[0], new[1], new[2])
