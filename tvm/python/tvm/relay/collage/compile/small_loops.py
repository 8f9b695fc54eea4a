# SPDX-License-Identifier: Apache-2.0
"""Runs parallel loops of TVM's kernels on one thread where that takes less than waking others.

TVM's schedules mark the outermost loop parallel however little it does: adding 64 numbers wakes all
threads. How long a loop takes on one thread is estimated from what it reads, writes and computes;
one that cannot be estimated (unknown extents, calls of other code) stays parallel.

Done to a kernel before TVM's LowerTVMBuiltin: loops are vectors then, and temporary arrays are no
calls yet.
Docs: docs/compile.md. Test: compile/test_small_loops.py
"""

from __future__ import annotations

import math

import tvm
from tvm import tir

from ..ops.onnx_node import on_one_thread

# Loops that are expected to take less run on one thread. A thread that sleeps takes some 30 us to
# wake on a virtual machine. Parts of libraries have the same limit (runtime, IsSmallWork).
SMALL_NANOSECONDS = 10000.0
_BYTES_PER_NANOSECOND = 20.0
_NANOSECONDS_OF_AN_OPERATION = 0.3  # on one vector or number
_NANOSECONDS_OF_A_FUNCTION = 8.0  # exp and its like
_VECTOR_BITS = 512
_UNKNOWN = math.inf

# Operators that are an instruction or two; other pure ones count as functions.
_SIMPLE = {
    f"tir.{name}"
    for name in (
        *("if_then_else", "likely", "reinterpret", "fma", "call_llvm_pure_intrin"),
        *("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
        *("fabs", "sqrt", "floor", "ceil", "trunc", "round", "nearbyint"),
    )
}
_PURE = (0, 1)  # CallEffectKind: kExprAnnotation, kPure
# Kernels that divide their work among the threads themselves, and wait for each other.
_BY_HAND = "pragma_parallel"


def run_small_loops_on_one_thread(mod: tvm.IRModule, are_all: bool = False) -> None:
    """Make small parallel loops serial in the kernels of `mod`, in place; with `are_all` all of
    them, and have nodes of ONNX models run on one thread too."""
    limit = math.inf if are_all else SMALL_NANOSECONDS
    for var, func in mod.functions_items():
        if isinstance(func, tir.PrimFunc):
            body = _with_small_loops_serial(func.body, limit)
            if are_all:
                body = tir.stmt_functor.ir_transform(body, None, on_one_thread, ["tir.Call"])
            if not body.same_as(func.body):
                mod.update_func(var, func.with_body(body))


def nanoseconds(stmt: tir.Stmt) -> float:
    """Estimate what a statement takes on one thread; infinity where that is not known."""
    estimate = _STATEMENTS.get(type(stmt))
    return estimate(stmt) if estimate else _UNKNOWN


def _with_small_loops_serial(body: tir.Stmt, limit: float) -> tir.Stmt:
    is_by_hand = False

    def look(node: object) -> None:
        nonlocal is_by_hand
        is_by_hand |= isinstance(node, tir.AttrStmt) and node.attr_key.startswith(_BY_HAND)

    def change(loop: tir.For) -> tir.Stmt | None:
        if loop.kind != tir.ForKind.PARALLEL or nanoseconds(loop) > limit:
            return None
        serial = tir.ForKind.SERIAL
        return tir.For(loop.loop_var, loop.min, loop.extent, serial, loop.body)

    changed = tir.stmt_functor.ir_transform(body, change, None, ["tir.For"])
    if not changed.same_as(body):
        tir.stmt_functor.post_order_visit(body, look)
    return body if is_by_hand else changed


def _of_loop(loop: tir.For) -> float:
    if not isinstance(loop.extent, tir.IntImm):
        return _UNKNOWN
    return float(loop.extent.value) * nanoseconds(loop.body)


def _of_choice(choice: tir.IfThenElse) -> float:
    """Estimate a choice as if both were done."""
    others = nanoseconds(choice.else_case) if choice.else_case else 0.0
    return _of_expression(choice.condition) + nanoseconds(choice.then_case) + others


def _of_store(store: tir.BufferStore) -> float:
    return _of_transfer(store.value.dtype) + sum(map(_of_expression, (store.value, *store.indices)))


def _of_expression(expression: tir.PrimExpr) -> float:
    spent = 0.0

    def add(node: object) -> None:
        nonlocal spent
        if isinstance(node, tir.BufferLoad):
            spent += _of_transfer(node.dtype)
        elif isinstance(node, tir.Call):
            spent += _of_call(node)
        elif not isinstance(node, _FREE):
            spent += _NANOSECONDS_OF_AN_OPERATION

    tir.stmt_functor.post_order_visit(expression, add)
    return spent


def _of_call(call: tir.Call) -> float:
    name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
    if name in _SIMPLE:
        return _NANOSECONDS_OF_AN_OPERATION
    effect = call.op.get_attr("TCallEffectKind") if name else None
    if effect is None or int(effect) not in _PURE:
        return _UNKNOWN
    return _NANOSECONDS_OF_A_FUNCTION * max(1.0, 8.0 * _bytes(call.dtype) / _VECTOR_BITS)


def _of_transfer(dtype: str) -> float:
    return max(_NANOSECONDS_OF_AN_OPERATION, _bytes(dtype) / _BYTES_PER_NANOSECOND)


def _bytes(dtype: str) -> float:
    kind = tvm.DataType(dtype)
    return kind.bits * kind.lanes / 8


_FREE = (tir.IntImm, tir.FloatImm, tir.StringImm, tir.Var, tir.SizeVar, tir.Ramp, tir.Broadcast)
_STATEMENTS = {
    tir.For: _of_loop,
    tir.IfThenElse: _of_choice,
    tir.BufferStore: _of_store,
    tir.SeqStmt: lambda both: sum(map(nanoseconds, both)),
    tir.LetStmt: lambda let: _of_expression(let.value) + nanoseconds(let.body),
    tir.Evaluate: lambda evaluated: _of_expression(evaluated.value),
    **dict.fromkeys(
        (tir.AttrStmt, tir.Allocate, tir.AllocateConst, tir.DeclBuffer, tir.AssertStmt),
        lambda stmt: nanoseconds(stmt.body),
    ),
}
