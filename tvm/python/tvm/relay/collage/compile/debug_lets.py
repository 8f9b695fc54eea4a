# SPDX-License-Identifier: Apache-2.0
"""Takes back the hoisted expressions whose debug information LLVM 22 rejects.

TVM describes each let-bound variable to the debugger, and LLVM 22 accepts such a description only
for pointers and scalar integers. TVM's common sub-expression pass also binds floats and vectors;
those bindings, which are pure, are put back in place here. LLVM shares them again by itself.

Test: compile/test_debug_lets.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

_HOISTED_PREFIX = "cse_var_"


def inline_undescribable_lets(mod: tvm.IRModule) -> bool:
    """Rewrites the kernels of `mod` in place; returns whether any needed it."""
    changed = False
    for var, func in mod.functions_items():
        if not isinstance(func, tir.PrimFunc):
            continue
        body = tir.stmt_functor.ir_transform(
            func.body, None, _inline_statement, ["tir.LetStmt", "tir.Let"]
        )
        if not body.same_as(func.body):
            mod.update_func(var, func.with_body(body))
            changed = True
    return changed


def _inline_statement(let: Any) -> Any | None:
    if not is_hoisted(let.var) or is_describable(let.var.dtype):
        return None
    if isinstance(let, tir.Let):
        # An expression: substitution is defined on statements.
        wrapped = tir.stmt_functor.substitute(tir.Evaluate(let.body), {let.var: let.value})
        return wrapped.value
    return tir.stmt_functor.substitute(let.body, {let.var: let.value})


def is_hoisted(var: tir.Var) -> bool:
    """Whether TVM's common sub-expression pass made this variable."""
    return var.name.startswith(_HOISTED_PREFIX)


def is_describable(dtype: str) -> bool:
    """Whether LLVM accepts debug information of a variable of this type."""
    is_scalar = "x" not in dtype
    return dtype == "handle" or (is_scalar and dtype.startswith(("int", "uint", "bool")))
