# SPDX-License-Identifier: Apache-2.0
"""Telling apart what is a backend's and what is TVM's: targets, functions, names in reports and
costs.

Test: compile/test_library.py, backends/test_target_kind.py.
"""

from __future__ import annotations

import tvm
from tvm import relay
from tvm._ffi import get_global_func
from tvm.target import Target

from .walk import nodes_of

# The backend, in candidates, costs and reports, of what TVM compiles itself.
TVM_BACKEND = "tvm"
# Not TVM_BACKEND: a layout transform alone is all border.
TRANSITION = "transition"
# Stands for a backend in the costs of whole plans.
WHOLE_PLAN = "plan"
# On the function of a part: nothing else computes in its module, so that nobody is disturbed by
# threads of its library that wait for the next call.
COMPUTES_ALONE = "collage.computes_alone"
# On all functions of a plan: it runs on the calling thread alone, which small nets may do faster.
ONE_THREAD = "collage.one_thread"


def is_external(target: Target) -> bool:
    """Tell whether a backend with its own compiler serves the target, rather than TVM."""
    return bool(get_global_func("collage.IsExternalKind")(target.kind))


def backend_of(target: Target) -> str:
    """Return the backend that a target is, as costs name it."""
    return target.kind.name if is_external(target) else TVM_BACKEND


def is_external_function(function: tvm.ir.BaseFunc) -> bool:
    """Return whether a module's function is compiled by a backend rather than by TVM."""
    return isinstance(function, relay.Function) and "Compiler" in (function.attrs or {})


def on_one_thread(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod`, to be built so that all of it runs on the calling thread."""
    result = mod.clone()
    for var, function in mod.functions_items():
        if isinstance(function, relay.Function):
            result.update_func(var, function.with_attr(ONE_THREAD, tvm.tir.IntImm("int32", 1)))
    return result


def is_on_one_thread(function: tvm.ir.BaseFunc) -> bool:
    """Return whether a plan's main function, or that of a part, is to run on the calling thread
    alone."""
    return ONE_THREAD in (function.attrs or {})


def mark_lone_part(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod`, which is a plan's and no candidate's, with COMPUTES_ALONE on the part that its main
    function calls, if that is all that it calls."""
    calls = nodes_of(mod["main"].body, relay.Call)
    if len(calls) != 1 or not isinstance(calls[0].op, relay.GlobalVar):
        return mod
    var = calls[0].op
    if not is_external_function(mod[var]):
        return mod
    result = mod.clone()
    result.update_func(var, mod[var].with_attr(COMPUTES_ALONE, tvm.tir.IntImm("int32", 1)))
    return result
