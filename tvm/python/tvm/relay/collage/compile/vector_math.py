# SPDX-License-Identifier: Apache-2.0
"""Puts vector forms of exp, tanh, erf, sigmoid, logarithms and pow into TVM's kernels for CPUs.

TVM calls the C library for each number of them, and its own tanh loses half of the digits near 0.
What takes their place is `vector_functions`, given to LLVM with each kernel that needs it and
inlined there. float16 and bfloat16 are computed in float32; float64 stays the C library's.

Done to a kernel before TVM's LowerIntrin: loops are vectors then and bfloat16 is gone. Nothing of
the process changes, so other builds don't notice. Docs: docs/compile.md, docs/accuracy.md.
Test: compile/test_vector_math.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import tvm
from tvm import tir

from ..options import CollageOptions
from ..tvm_fixes.table import pass_of
from . import vector_functions
from .llvm_text import LlvmValue, function_text

# TVM takes a loop with erf in it for one that cannot be vectorised, so another name stands for it.
_ERF = "collage.erf"
tvm.ir.register_op_attr(_ERF, "TVectorizable", True)
tvm.ir.register_op_attr(_ERF, "TCallEffectKind", tir.CallEffectKind.Pure)

# By the name of TVM's operator.
_FUNCTIONS: dict[str, Callable[..., LlvmValue]] = {
    "tir.exp": vector_functions.exp,
    "tir.tanh": vector_functions.tanh,
    _ERF: vector_functions.erf,
    "tir.sigmoid": vector_functions.sigmoid,
    "tir.log": vector_functions.log,
    "tir.log2": vector_functions.log2,
    "tir.log10": vector_functions.log10,
    "tir.pow": vector_functions.power,
}
# What pow is with an exponent that is known: a fraction of the time.
_POWERS: dict[float | None, Callable[[_Functions, tir.PrimExpr], tir.PrimExpr]] = {
    1.0: lambda of, x: x,
    2.0: lambda of, x: of(vector_functions.square, x),
    3.0: lambda of, x: of(vector_functions.cube, x),
    -1.0: lambda of, x: 1 / x,
    0.5: lambda of, x: tir.sqrt(of(vector_functions.before_root, x)),
    -0.5: lambda of, x: 1 / tir.sqrt(of(vector_functions.before_root, x)),
}


def has_vector_math() -> bool:
    """Tell whether the current PassContext's option `vector_math` is on, as it is unless set."""
    return bool(CollageOptions.current().vector_math)


def make_vectorizable(mod: tvm.IRModule) -> None:
    """Rename, in place, what TVM would not vectorise in kernels."""

    def rename(call: tir.Call) -> tir.PrimExpr | None:
        is_ours = _name(call) == "tir.erf" and _is_short(call)
        return tir.Call(call.dtype, tvm.ir.Op.get(_ERF), call.args) if is_ours else None

    _rewrite(mod, lambda body: _with_calls(body, rename))


def vectorize_math(mod: tvm.IRModule) -> None:
    """Replace the functions in the kernels of `mod`, in place."""
    _rewrite(mod, lambda body: _Functions().put_into(body))


def round_to_even(mod: tvm.IRModule) -> None:
    """Have kernels, in place, round halves to the even number, as ONNX and numpy do: TVM lets LLVM
    round them away from zero."""

    def rename(call: tir.Call) -> tir.PrimExpr | None:
        return tir.nearbyint(call.args[0]) if _name(call) == "tir.round" else None

    _rewrite(mod, lambda body: _with_calls(body, rename))


# What is done before which of TVM's passes.
VECTOR_MATH = {
    pass_of("loops with erf"): make_vectorizable,
    pass_of("vector math"): vectorize_math,
}


def _rewrite(mod: tvm.IRModule, change: Callable[[tir.Stmt], tir.Stmt]) -> None:
    for var, func in mod.functions_items():
        if not isinstance(func, tir.PrimFunc) or not _is_for_llvm(func):
            continue
        body = change(func.body)
        if not body.same_as(func.body):
            mod.update_func(var, func.with_body(body))


def _is_for_llvm(func: tir.PrimFunc) -> bool:
    # A kernel gets its target late; until then it is the one that TVM lowers it for.
    target = func.attrs.get("target") if func.attrs else None
    target = target or tvm.target.Target.current(allow_none=True)
    return target is not None and target.kind.name == "llvm"


def _with_calls(body: tir.Stmt, change: Callable[[tir.Call], tir.PrimExpr | None]) -> tir.Stmt:
    return tir.stmt_functor.ir_transform(body, None, change, ["tir.Call"])


def _name(call: tir.Call) -> str:
    return call.op.name if isinstance(call.op, tvm.ir.Op) else ""


def _is_short(call: tir.Call) -> bool:
    """Tell whether a call is of a known number of lanes: those of Arm's SVE have none."""
    return call.dtype.startswith(("float32", "float16")) and "vscale" not in call.dtype


class _Functions:
    """The functions that one kernel calls, with their LLVM text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __call__(self, body: Callable[..., LlvmValue], *arguments: tir.PrimExpr) -> tir.PrimExpr:
        """Return a call of `body` on vectors of float32, and have its text in the kernel."""
        kind = arguments[0].dtype
        name = f"collage.{body.__name__}.{kind}"
        if name not in self._texts:
            self._texts[name] = _text(name, body, len(arguments), tvm.DataType(kind).lanes)
        return tir.call_pure_extern(kind, name, *arguments)

    def put_into(self, body: tir.Stmt) -> tir.Stmt:
        """Return `body` with these functions for TVM's, and with their text."""
        body = _with_calls(body, self._replaced)
        if not self._texts:
            return body
        text = tir.StringImm("".join(self._texts.values()))
        return tir.AttrStmt(tir.StringImm(""), "pragma_import_llvm", text, body)

    def _replaced(self, call: tir.Call) -> tir.PrimExpr | None:
        body = _FUNCTIONS.get(_name(call))
        if body is None or not _is_short(call):
            return None
        wide = call.dtype.replace("float16", "float32")
        arguments = [x if x.dtype == wide else tir.Cast(wide, x) for x in call.args]
        known = _POWERS.get(_constant(arguments[-1])) if body is vector_functions.power else None
        result = known(self, arguments[0]) if known else self(body, *arguments)
        return result if wide == call.dtype else tir.Cast(call.dtype, result)


def _constant(x: tir.PrimExpr) -> float | None:
    """Return the one number that all lanes of an expression are, if they are."""
    while isinstance(x, (tir.Broadcast, tir.Cast)):
        x = x.value
    return float(x.value) if isinstance(x, tir.FloatImm) else None


_text = functools.lru_cache(maxsize=256)(function_text)
