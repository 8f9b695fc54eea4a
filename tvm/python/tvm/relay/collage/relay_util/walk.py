# SPDX-License-Identifier: Apache-2.0
"""Steps of a walk over Relay expressions and their types, and an evaluation bottom up.
Test: compile/test_fold.py, backends/onnx_model/test_export.py, backends/dnnl/test_codegen.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm import relay

# Attributes of functions that no pass looks into.
_CLOSED = ("Primitive", "Compiler", "SkipOptimization")


def key_of(expr: relay.Expr) -> int:
    """Return what tells an expression from others that live; TVM's own hash is a call of C++."""
    return expr.handle.value


def operands_of(expr: relay.Expr) -> list[Any]:
    """Return the operands of a call, tuple or projection; nothing for other expressions."""
    if isinstance(expr, relay.Call):
        return list(expr.args)
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    return []


def children_of(expr: relay.Expr) -> list[Any]:
    """Return the operands, and what a let or an if is made of; not the inside of a function."""
    if isinstance(expr, relay.Let):
        return [expr.value, expr.body]
    if isinstance(expr, relay.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    return operands_of(expr)


def post_order(
    root: relay.Expr, children: Callable[[relay.Expr], list[relay.Expr]] = children_of
) -> Iterator[Any]:
    """Yield each expression below `root`, its children first. A loop: a network is deeper than
    Python's stack."""
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        expr, is_ready = stack.pop()
        if is_ready:
            yield expr
        elif key_of(expr) not in seen:
            seen.add(key_of(expr))
            stack.append((expr, True))
            stack.extend((child, False) for child in children(expr))


def nodes_of(where: relay.Expr | tvm.IRModule, *kinds: type) -> list[Any]:
    """Return the nodes of these kinds, or all, below an expression or in each Relay function of a
    module: children first, functions and what is inside them included."""
    roots = where.functions.values() if isinstance(where, tvm.IRModule) else [where]
    found: list[Any] = []
    for root in roots:
        if not isinstance(root, tvm.tir.PrimFunc):
            relay.analysis.post_order_visit(root, found.append)
    return [node for node in found if isinstance(node, kinds)] if kinds else found


def operator_calls(where: relay.Expr | tvm.IRModule) -> list[Any]:
    """Return those of nodes_of that are calls of operators."""
    return [call for call in nodes_of(where, relay.Call) if isinstance(call.op, tvm.ir.Op)]


def rebuild(expr: relay.Expr, old: Sequence[relay.Expr], new: Sequence[relay.Expr]) -> Any:
    """Return the node itself where none of its sub-expressions is another than before, else a copy
    on the new ones that keeps its type, span and virtual device."""
    if all(a.same_as(b) for a, b in zip(old, new, strict=True)):
        return expr
    if isinstance(expr, relay.Call):
        return relay.expr.CallWithFields(expr, None, new)
    if isinstance(expr, relay.Tuple):
        return relay.expr.TupleWithFields(expr, new)
    if isinstance(expr, relay.TupleGetItem):
        return relay.expr.TupleGetItemWithFields(expr, new[0])
    if isinstance(expr, relay.Let):
        return relay.expr.LetWithFields(expr, None, new[0], new[1])
    return relay.expr.IfWithFields(expr, new[0], new[1], new[2])


def tensors_of(kind: relay.Type) -> list[Any]:
    """Return the tensor types that a type is made of, those of a tuple's fields in their order."""
    if isinstance(kind, tvm.ir.TensorType):
        return [kind]
    fields = kind.fields if isinstance(kind, tvm.ir.TupleType) else ()
    return [tensor for field in fields for tensor in tensors_of(field)]


def static_shape(tensor: relay.TensorType) -> tuple[int, ...] | None:
    """Return the shape of a tensor type as integers; None where an extent is not known."""
    try:
        return tuple(int(extent) for extent in tensor.shape)
    except (TypeError, ValueError):
        return None


def is_open_function(function: object) -> bool:
    """Tell whether rewrites and constant folding may look into a function of a module."""
    if not isinstance(function, relay.Function):
        return False
    attrs = function.attrs or {}
    return not any(attr in attrs and attrs[attr] != 0 for attr in _CLOSED)


def elements_of(tensor: relay.TensorType) -> int | None:
    """Elements of a tensor type; None where its shape is not known."""
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in tensor.shape):
        return None
    return math.prod(map(int, tensor.shape))


def size_of(array: tvm.nd.NDArray) -> int:
    """Return the size in bytes; nothing of it is copied."""
    bits = tvm.DataType(array.dtype).bits
    return math.prod(array.shape) * math.ceil(bits / 8)


def evaluate(body: relay.Expr, scope: dict, visit: Callable) -> Any:
    """Return what `visit` gives for body; without recursion, since partitions can be deep.

    `visit(expr, values)` is called once for each expression, with the values of its operands;
    composites (calls of a function written there) and tuples are seen through. `scope` holds the
    values of the parameters by `key_of`, and is filled with all others. Precondition: no control
    flow, no functions but those called on the spot.
    """
    stack: list[tuple[Any, list[Any] | None]] = [(body, None)]
    while stack:
        expr, children = stack.pop()
        if key_of(expr) in scope:
            continue
        if children is None:
            children = operands_of(expr)
            missing = [child for child in children if key_of(child) not in scope]
            if missing:
                stack.append((expr, children))
                stack.extend((child, None) for child in reversed(missing))
                continue
        values = [scope[key_of(child)] for child in children]
        scope[key_of(expr)] = _value(expr, values, visit)
    return scope[key_of(body)]


def _value(expr: relay.Expr, values: list[Any], visit: Callable[..., Any]) -> Any:
    if isinstance(expr, relay.Tuple):
        return tuple(values)
    if isinstance(expr, relay.TupleGetItem):
        return values[0][expr.index]
    if isinstance(expr, relay.Call) and isinstance(expr.op, relay.Function):
        inner = dict(zip((key_of(param) for param in expr.op.params), values))
        return evaluate(expr.op.body, inner, visit)
    return visit(expr, values)
