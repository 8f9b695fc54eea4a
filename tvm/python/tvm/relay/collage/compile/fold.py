# SPDX-License-Identifier: Apache-2.0
"""Folds constant sub-graphs of Relay functions with numpy, where TVM would compile each with LLVM.

Functions must be typed (InferType). What `fold_ops` cannot evaluate stays as it is, for TVM's own
FoldConstant, whose rules hold here too: calls without arguments are kept, and functions marked
Primitive, Compiler or SkipOptimization are not entered. Shared sub-graphs stay shared, and equal
calls on the same constants become one constant: a weight that each step of a recurrence transposes
by itself is then held, packed and cached once.

Test: compile/test_fold.py
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from ..exec.arrays import PLAIN_DTYPES
from ..relay_util.walk import (
    children_of,
    is_open_function,
    key_of,
    post_order,
    rebuild,
    static_shape,
)
from .fold_ops import EVALUATORS, Value

_LOG = logging.getLogger(__name__)
# An array, a Constant not yet looked into, or a tuple of these.
_Lazy = Any
# A call, its operands (None for one that numpy cannot hold), the type of its result -> the result.
Evaluator = Callable[[relay.Call, Sequence[Value | None], Any], Value | None]


def fold_in_place(mod: tvm.IRModule, evaluator: Evaluator | None = None) -> bool:
    """Fold every open function of `mod`, a typed module; tell whether anything changed.

    `evaluator` is asked about every call on constants; without one numpy about those it can do.
    """
    changed = False
    for var, func in mod.functions_items():
        if is_open_function(func):
            folded = _Folder(evaluator).run(func)
            if not folded.same_as(func):
                mod.update_func(var, folded)
                changed = True
    return changed


def fold_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed copy of `mod` whose weights' transformations are folded."""
    mod = relay.transform.InferType()(mod.clone())
    if fold_in_place(mod):
        mod = relay.transform.InferType()(mod)
    return mod


def _materialise(value: _Lazy, made: dict[int, relay.Constant]) -> Any:
    """Return the constant of an array, the same one for the same array; or a tuple of such."""
    if isinstance(value, relay.Constant):
        return value
    if isinstance(value, tuple):
        return relay.Tuple([_materialise(item, made) for item in value])
    if id(value) not in made:
        made[id(value)] = relay.Constant(
            tvm.nd.array(np.ascontiguousarray(value).reshape(value.shape))
        )
    return made[id(value)]


def _identity(value: _Lazy) -> Any:
    """Return what tells a value from others that live: each look finds expressions anew."""
    if isinstance(value, tuple):
        return tuple(_identity(item) for item in value)
    return ("expr", key_of(value)) if isinstance(value, relay.Constant) else id(value)


def fits(value: Value, expected: relay.Type) -> bool:
    """Tell whether a result has the type that Relay inferred: a wrong evaluator's may not."""
    if isinstance(value, tuple):
        return (
            isinstance(expected, relay.TupleType)
            and len(value) == len(expected.fields)
            and all(fits(item, field) for item, field in zip(value, expected.fields, strict=True))
        )
    return (
        isinstance(expected, relay.TensorType)
        and value.shape == static_shape(expected)
        and value.dtype.name == str(expected.dtype)
    )


def array_of(expr: relay.Expr) -> Value | None:
    """Return a Constant's array, or a Tuple's tuple of them; None if numpy cannot hold its type."""
    if isinstance(expr, relay.Tuple):
        items = [array_of(field) for field in expr.fields]
        return None if any(item is None for item in items) else tuple(items)
    return expr.data.numpy() if expr.data.dtype in PLAIN_DTYPES else None


def evaluate(
    call: relay.Call, arrays: Sequence[Value | None], expected: relay.Type
) -> Value | None:
    """Return a call's result, of the type `expected`; None where it is TVM's to say."""
    evaluator = EVALUATORS.get(call.op.name)
    if evaluator is None or any(array is None for array in arrays):
        return None
    try:
        with np.errstate(all="ignore"):
            value = evaluator(call.attrs, arrays, expected)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        _LOG.debug("%s is left to TVM's FoldConstant: %s", call.op.name, error)
        return None
    return value if value is not None and fits(value, expected) else None


class _Folder:
    """One walk over a function."""

    def __init__(self, evaluator: Evaluator | None = None) -> None:
        self._evaluator = evaluator
        # Equal calls on the same operands -> their value, kept alive so that ids stay theirs.
        self._results: dict[Any, list[tuple[relay.Call, list[_Lazy], Value | None]]] = {}
        self._made: dict[int, relay.Constant] = {}  # id of a folded array -> its constant
        self._new: dict[int, Any] = {}  # node -> its replacement; folded ones are built on demand
        self._values: dict[int, _Lazy | None] = {}  # node -> its value, None if not constant
        self._arrays: dict[int, Value | None] = {}  # constant -> its array, once asked for

    def run(self, func: relay.Function) -> relay.Function:
        """Return the folded function, or `func` itself."""
        for expr in post_order(func.body):
            self._visit(expr)
        body = self._replacement(func.body)
        if body.same_as(func.body):
            return func
        return relay.function.FunctionWithFields(func, None, body)

    def _visit(self, expr: relay.Expr) -> None:
        value = self._evaluate(expr)
        self._values[key_of(expr)] = value
        if value is not None and not isinstance(expr, relay.Tuple):
            return  # becomes a constant only if something that stays uses it
        old = children_of(expr)
        new = [self._replacement(child) for child in old]
        if isinstance(expr, relay.TupleGetItem) and isinstance(new[0], relay.Tuple):
            self._new[key_of(expr)] = new[0].fields[expr.index]
        else:
            self._new[key_of(expr)] = rebuild(expr, old, new)

    def _replacement(self, expr: relay.Expr) -> Any:
        key = key_of(expr)
        if key not in self._new:
            self._new[key] = _materialise(self._values[key], self._made)
        return self._new[key]

    def _evaluate(self, expr: relay.Expr) -> _Lazy | None:
        if isinstance(expr, relay.Constant):
            return expr
        if isinstance(expr, relay.Tuple):
            values = [self._values[key_of(field)] for field in expr.fields]
            return None if any(value is None for value in values) else tuple(values)
        if isinstance(expr, relay.TupleGetItem):
            value = self._values[key_of(expr.tuple_value)]
            return value[expr.index] if isinstance(value, tuple) else None
        if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op):
            return self._evaluate_call(expr)
        return None

    def _evaluate_call(self, call: relay.Call) -> Value | None:
        expected = getattr(call, "_checked_type_", None)
        is_known = self._evaluator is not None or call.op.name in EVALUATORS
        if not is_known or expected is None or len(call.args) == 0:
            return None
        args = [self._values[key_of(arg)] for arg in call.args]
        if any(arg is None for arg in args):
            return None
        alike = self._results.setdefault((call.op.name, *map(_identity, args)), [])
        for other, _, value in alike:
            if tvm.ir.structural_equal(other.attrs, call.attrs):
                return value
        arrays = [self._array(arg) for arg in args]
        alike.append((call, args, (self._evaluator or evaluate)(call, arrays, expected)))
        return alike[-1][2]

    def _array(self, value: Any) -> Value | None:
        """Return the numpy form of a value, None if numpy cannot hold its type."""
        if isinstance(value, tuple):
            items = [self._array(item) for item in value]
            return None if any(item is None for item in items) else tuple(items)
        if not isinstance(value, relay.Constant):
            return value
        key = key_of(value)
        if key not in self._arrays:
            self._arrays[key] = array_of(value)
        return self._arrays[key]
