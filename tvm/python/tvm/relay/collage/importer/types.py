# SPDX-License-Identifier: Apache-2.0
"""Types of expressions that an importer is still building, each worked out once.

TVM's importer asks for the type of a node's inputs, and TVM then infers the types of all that they
are made of, from the inputs of the net on. Expressions never change, and the type of a call depends
on its operator, its attributes and the types of its arguments alone, so a type once known holds.

Types are kept here and not in the expressions: TVM's constant folding treats an expression that
knows its type otherwise (`shape_of`), and the module would not be the stock importer's.

Test: importer/test_onnx.py
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import tvm
from tvm import relay

from ..relay_util.walk import children_of, key_of


@dataclasses.dataclass(frozen=True)
class Typed:
    """The answer of `infer_type`: an importer reads nothing but the type."""

    checked_type: Any


# Types of elements that TVM, numpy and onnxruntime know, by ONNX's numbers of them.
DTYPES = {
    number: name.lower()
    for name, number in onnx.TensorProto.DataType.items()
    if re.fullmatch(r"BOOL|B?FLOAT16|U?INT(8|16|32|64)", name)
} | {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.DOUBLE: "float64"}
NUMBERS = {name: number for number, name in DTYPES.items()}


def relay_type(kind: onnx.TypeProto, shape: Sequence[int] | None = None) -> relay.TensorType | None:
    """Return Relay's type of a tensor, None for one of elements that TVM does not know; shape: in
    place of its own."""
    tensor = kind.tensor_type
    own = [dim.dim_value if dim.dim_value > 0 else tvm.tir.Any() for dim in tensor.shape.dim]
    dtype = DTYPES.get(tensor.elem_type)
    return None if dtype is None else relay.TensorType(own if shape is None else list(shape), dtype)


def agrees(found: relay.Type, expected: relay.TensorType | None) -> bool:
    """Tell whether a type is as expected, where None is one that TVM has not; a dimension that
    either leaves open is as any."""
    return (
        expected is not None
        and isinstance(found, relay.TensorType)
        and found.dtype == expected.dtype
        and len(found.shape) == len(expected.shape)
        and all(
            int(a) == int(b)
            for a, b in zip(found.shape, expected.shape, strict=True)
            if isinstance(a, tvm.tir.IntImm) and isinstance(b, tvm.tir.IntImm)
        )
    )


def _parts(expr: relay.Expr) -> Any:
    """Return the sub-expressions that have types by themselves: what a `let` binds is known inside
    it only."""
    return () if isinstance(expr, relay.Let) else children_of(expr)


class Types:
    """Types by expression; `stock` is TVM's `infer_type`, asked about control flow and faults.

    Cache of calls: key is the operator, the types of the arguments and the attributes; a call is a
    miss when one of them differs in structure.
    """

    def __init__(self, stock: Callable[..., Any]) -> None:
        self._stock = stock
        # Address of an expression -> the expression, which keeps the address its own, and its type.
        self._known: dict[int, tuple[Any, Any]] = {}
        self._calls: dict[Any, list[tuple[Any, Any]]] = {}
        self._canonical: dict[int, list[Any]] = {}  # structural hash -> one of each type

    def infer_type(self, node: relay.Expr, mod: tvm.IRModule = None) -> Any:
        """`common.infer_type`, whose result has the type only. Errors are TVM's."""
        if mod is not None or isinstance(node, relay.Function):
            return self._stock(node, mod)
        return Typed(self.type_of(node))

    def type_of(self, expr: relay.Expr) -> Any:
        """Return the type of an expression; raises what TVM raises for an ill-typed one."""
        stack = [expr]
        while stack:
            top = stack[-1]
            unknown = [item for item in _parts(top) if self._look_up(item) is None]
            if unknown and self._look_up(top) is None:
                stack.extend(unknown)
                continue
            stack.pop()
            if self._look_up(top) is None:
                self._known[key_of(top)] = top, self._infer(top)
        return self._look_up(expr)

    def copied(self, old: relay.Expr, new: relay.Expr) -> None:
        """Say that `new` is a copy of `old`, and so has its type, if that is known."""
        if key_of(old) in self._known:
            self._known[key_of(new)] = new, self._known[key_of(old)][1]

    def _look_up(self, expr: relay.Expr) -> Any:
        if isinstance(expr, relay.Constant):
            return relay.TensorType(expr.data.shape, expr.data.dtype)
        found = self._known.get(key_of(expr))
        return None if found is None else found[1]

    def _infer(self, expr: relay.Expr) -> Any:
        if isinstance(expr, relay.Var) and isinstance(expr.type_annotation, relay.TensorType):
            return expr.type_annotation
        if isinstance(expr, relay.Tuple):
            return relay.TupleType([self._look_up(field) for field in expr.fields])
        if isinstance(expr, relay.TupleGetItem):
            tuple_type = self._look_up(expr.tuple_value)
            if isinstance(tuple_type, relay.TupleType) and expr.index < len(tuple_type.fields):
                return tuple_type.fields[expr.index]
        if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op):
            return self._infer_call(expr)
        return self._stock(self._cut(expr)).checked_type

    def _infer_call(self, call: relay.Call) -> Any:
        types = [self._one_of(self._look_up(arg)) for arg in call.args]
        attrs = call.attrs
        has_attrs = attrs is not None
        key = call.op.name, *map(id, types), tvm.ir.structural_hash(attrs) if has_attrs else None
        alike = self._calls.setdefault(key, [])
        for other, answer in alike:
            if not has_attrs or tvm.ir.structural_equal(other, attrs):
                return answer
        typed_args = [relay.Var(f"arg{index}", item) for index, item in enumerate(types)]
        alone = relay.Call(call.op, typed_args, attrs)
        try:
            answer = relay.transform.InferTypeLocal(alone)
        except tvm.TVMError:
            return self._stock(call).checked_type  # says what is wrong, with the names of the net
        alike.append((attrs, answer))
        return answer

    def _one_of(self, item: relay.Type) -> Any:
        """Return the same object for types of the same structure."""
        alike = self._canonical.setdefault(tvm.ir.structural_hash(item), [])
        for other in alike:
            if tvm.ir.structural_equal(other, item):
                return other
        alike.append(item)
        return item

    def _cut(self, expr: relay.Expr) -> Any:
        """`expr` with variables for those of its parts that have known types."""
        known = self._known

        class Cut(relay.ExprMutator):
            def visit(self, item: relay.Expr) -> Any:
                found = known.get(key_of(item))
                if found is None or isinstance(item, relay.Var):
                    return super().visit(item)
                return relay.Var("known", found[1])

        try:
            return Cut().visit(expr)
        except RecursionError:
            return expr
