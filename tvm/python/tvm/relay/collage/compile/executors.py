# SPDX-License-Identifier: Apache-2.0
"""TVM's executors: which of them runs a module, and what builds a module for it.

The graph and the AOT executor run one function of operators; the VM runs any module.
Test: compile/test_executors.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm import relay
from tvm.relay.ty import is_dynamic
from tvm.runtime.vm import Executable

from ..errors import ExecutorError, ModuleError
from ..relay_util.external import is_external_function
from ..relay_util.walk import children_of, post_order
from .library import build_library, build_vm
from .module_check import open_inputs, shapes_text

GRAPH, VM = "graph", "vm"

# What runs one of several ways, as its inputs say.
_WAYS = (relay.If, relay.Match)
# Functions as values are closures; one that is called where it is written is no value.
_OF_THE_VM = (*_WAYS, relay.Function, relay.Constructor, relay.RefCreate)


def executor_of(options: Mapping[str, Any], mod: tvm.IRModule) -> str:
    """Return the executor that `options` of `build_whole` name, or the one that runs `mod`."""
    given = options.get("executor")
    if given is None:
        return VM if why_vm(mod) else GRAPH
    return given if isinstance(given, str) else str(given.name)


def check_runs(mod: tvm.IRModule, executor: str) -> None:
    """Raise ModuleError for a typed module that an executor other than the VM cannot run."""
    reason = "" if executor == VM else why_vm(mod)
    if reason:
        raise ModuleError(
            f"the {executor} executor runs one function of operators with fixed shapes, but "
            f"{reason}: use relay.vm.compile"
        )


def check_calls_parts(executor: str, runtime: Any, backends: Sequence[str]) -> None:
    """Raise ExecutorError for an executor, or a runtime that was given, that cannot call parts of
    these external backends."""
    names = ", ".join(backends)
    if backends and executor not in (GRAPH, VM):
        raise ExecutorError(
            f"the {executor} executor cannot call parts of external backends ({names}): use the "
            "graph executor or the VM, or give the host target alone"
        )
    if backends and runtime is not None and runtime.name != "cpp":
        raise ExecutorError(
            f"the {runtime.name} runtime cannot call parts of external backends ({names}), which "
            "are modules of TVM's C++ runtime: use Runtime('cpp'), or give the host target alone"
        )


def why_vm(mod: tvm.IRModule) -> str:
    """Tell why only the VM runs a typed module; "" where the graph executor may, too."""
    others = [var.name_hint for var, _ in _functions(mod) if var.name_hint != "main"]
    if others:
        return f"main calls {', '.join(f'@{name}' for name in sorted(others)[:3])}"
    shapes = open_inputs(mod)
    if shapes:
        return f"inputs have open dimensions ({shapes_text(shapes)})"
    for expr in post_order(mod["main"].body, _all_children):
        if isinstance(expr, _OF_THE_VM):
            return f"main has an expression of kind {type(expr).__name__}"
        is_operator = isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
        if is_operator and is_dynamic(expr.checked_type):
            return f"a run alone tells the sizes that {expr.op.name} gives"
    return ""


def has_several_ways(mod: tvm.IRModule) -> bool:
    """Tell whether the inputs of a module decide what of it runs."""
    return any(
        isinstance(expr, _WAYS)
        for _, function in _functions(mod)
        for expr in post_order(function.body, _all_children)
    )


def build_whole(mod: tvm.IRModule, target: Any, executor: str, options: Mapping[str, Any]) -> Any:
    """Return a library of `build_library` with these options, or an executable of `build_vm`, which
    takes none of them, at the level of the current PassContext. ModuleError for the VM at level 0.
    """
    if executor == VM:
        # Its compiler fails there for every module, and ends the process for those of an If.
        if tvm.transform.PassContext.current().opt_level < 1:
            raise ModuleError("TVM compiles for the VM at opt_level 1 and above alone")
        return build_vm(mod, target, opt_level=None)
    return build_library(mod, target, opt_level=None, **options)


def exportable(library: Any) -> Any:
    """Return what of a library, or of a VM's executable, has `export_library`."""
    return library.mod if isinstance(library, Executable) else library


def _functions(mod: tvm.IRModule) -> Iterator[tuple[Any, relay.Function]]:
    """Give those of TVM that are called: what TVM inlines is part of who calls it."""
    for var, function in mod.functions_items():
        is_of_tvm = isinstance(function, relay.Function) and not is_external_function(function)
        if is_of_tvm and "Inline" not in (function.attrs or {}):
            yield var, function


def _all_children(expr: relay.Expr) -> list[Any]:
    """Return those of children_of, and what is inside of what that leaves out."""
    if isinstance(expr, relay.Function):
        return [expr.body]
    if isinstance(expr, relay.Match):
        return [expr.data, *(clause.rhs for clause in expr.clauses)]
    if isinstance(expr, relay.Call) and isinstance(expr.op, relay.Function):
        return [*expr.args, expr.op.body]
    if isinstance(expr, relay.Call) and not isinstance(expr.op, (tvm.ir.Op, relay.GlobalVar)):
        return [*expr.args, expr.op]
    return children_of(expr)
