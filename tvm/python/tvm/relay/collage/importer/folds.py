# SPDX-License-Identifier: Apache-2.0
"""Constant folding for an importer: of what was not folded before, with numpy where it is exact.

TVM's importer folds each node from the inputs of the net on, and has LLVM compile every bit of
shape arithmetic. What was folded once is left as it is by folding it again, so only expressions
that are new are looked at. The rules are those of TVM's ConstantFolder, which is asked itself about
all that numpy cannot do and about control flow.

Test: importer/test_onnx.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from ..compile.computed import computed
from ..compile.fold import array_of, evaluate
from ..relay_util.walk import children_of, key_of, rebuild
from .types import Types

# TVM folds them only where their argument is a constant to begin with.
_SHAPE_OPS = ("shape_of", "vm.shape_of", "ndarray_size")


class Folds:
    """Expressions that are folded; `stock` is TVM's `fold_constant`.

    Cache of what TVM computed: key is the structural hash of a call on constants, with their
    values; a miss when the structures differ.
    """

    def __init__(self, stock: Callable[..., Any], types: Types) -> None:
        self._stock = stock
        self._types = types
        self._done: dict[int, Any] = {}  # address -> an expression that is folded, kept alive
        self._constants: dict[int, list[tuple[Any, Any]]] = {}

    def fold_constant(self, node: relay.Expr, mod: tvm.IRModule = None) -> Any:
        """`common.fold_constant`."""
        if mod is not None:
            return self._stock(node, mod)
        own = self._own(node)
        if own is None:
            folded = self._stock(node)
        else:
            # As TVM, one that is folded again becomes another expression again.
            new: dict[int, Any] = {}
            for expr in own:
                new[key_of(expr)] = self._fold(expr, new)
                if new[key_of(expr)] is None:
                    return self._stock(node)
            folded = new.get(key_of(node), node)
            self._done.update((key_of(expr), expr) for expr in new.values())
        self._done[key_of(folded)] = folded
        return folded

    def copied(self, old: relay.Expr, new: relay.Expr) -> None:
        """Say that `new` is a copy of `old` and so as folded."""
        if key_of(old) in self._done:
            self._done[key_of(new)] = new

    def _own(self, node: relay.Expr) -> list[Any] | None:
        """Return the expressions not folded yet, arguments first; None if there is control flow
        among them."""
        found: list[Any] = []
        seen: set[int] = set()
        stack: list[tuple[Any, bool]] = [(node, False)]
        while stack:
            expr, is_ready = stack.pop()
            if is_ready:
                found.append(expr)
            elif key_of(expr) not in seen and not self._is_done(expr):
                if not _is_plain(expr):
                    return None
                seen.add(key_of(expr))
                stack.append((expr, True))
                stack.extend((item, False) for item in children_of(expr))
        return found

    def _is_done(self, expr: relay.Expr) -> bool:
        return isinstance(expr, (relay.Var, relay.Constant)) or key_of(expr) in self._done

    def _fold(self, expr: relay.Expr, folded: dict[int, relay.Expr]) -> Any:
        """Fold an expression on its folded arguments; None if TVM would do more the next time."""
        old = children_of(expr)
        new = [folded.get(key_of(item), item) for item in old]
        is_call = isinstance(expr, relay.Call)
        if isinstance(expr, relay.TupleGetItem) and isinstance(new[0], relay.Tuple):
            return new[0].fields[expr.index]
        if is_call and expr.op.name in _SHAPE_OPS:
            if isinstance(old[0], relay.Constant):
                return self._stock(expr)
            if isinstance(new[0], relay.Constant):
                return None
        post = rebuild(expr, old, new)
        return self._constant(post) if is_call and new and all(map(_is_constant, new)) else post

    def _constant(self, call: relay.Call) -> Any:
        value = evaluate(call, [array_of(arg) for arg in call.args], self._types.type_of(call))
        if value is not None:
            return _expression(value)
        alike = self._constants.setdefault(tvm.ir.structural_hash(call), [])
        for other, answer in alike:
            if tvm.ir.structural_equal(other, call):
                return _copy(answer)
        alike.append((call, self._computed(call)))
        return alike[-1][1]

    def _computed(self, call: relay.Call) -> Any:
        """Compute the call by TVM's folding, or by a build of ours: LLVM rejects some kernels
        without its mends."""
        try:
            return self._stock(call)
        except tvm.TVMError:
            if not all(isinstance(arg, relay.Constant) for arg in call.args):
                raise
            types = [self._types.type_of(arg) for arg in call.args]
            outputs = computed(call, [arg.data for arg in call.args], types)
            is_tuple = isinstance(self._types.type_of(call), relay.TupleType)
            return _expression(tuple(outputs) if is_tuple else outputs[0])


def _is_plain(expr: relay.Expr) -> bool:
    is_call = isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
    return is_call or isinstance(expr, (relay.Tuple, relay.TupleGetItem))


def _is_constant(expr: relay.Expr) -> bool:
    if isinstance(expr, relay.Tuple):
        return all(map(_is_constant, expr.fields))
    return isinstance(expr, relay.Constant)


def _copy(answer: relay.Expr) -> Any:
    """Copy tuples, of which TVM makes one for each call; constants may be shared."""
    return (
        relay.Tuple(list(map(_copy, answer.fields))) if isinstance(answer, relay.Tuple) else answer
    )


def _expression(value: relay.Expr) -> Any:
    if isinstance(value, tuple):
        return relay.Tuple(list(map(_expression, value)))
    return relay.Constant(tvm.nd.array(np.ascontiguousarray(value).reshape(value.shape)))
