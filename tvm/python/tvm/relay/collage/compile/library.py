# SPDX-License-Identifier: Apache-2.0
"""One way from a module, partitioned or not, to a library: for measuring and for deployment.

TVM's own build does the work, under `fast_passes`. External functions are marked as the executor
needs them, and constants are kept once. A file is linked without the C++ library where that is
possible: half of the linker's work is for it, and TVM's own kernels call C, mathematics and the
compiler's conversions of half floats at most. The code is the same either way.

Test: compile/test_library.py, compile/test_link.py
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import tvm

from ..relay_util.external import is_external_function, is_on_one_thread
from ..tvm_fixes.apply import ScopedFix, stock
from .constants import mend_constants
from .fast_passes import fast_passes

# Of the linker, for libraries of TVM's kernels alone: not C++ sources, nor a backend's archives.
_WITHOUT_CPP = ("-nostdlib", "-lgcc", "-lm", "-lc")
# Context in which TVM does not say, once a process, that kernels of its own were not tuned.
without_advice_to_tune = ScopedFix("advice to tune", lambda _level: logging.ERROR).inside


def stock_build() -> Callable[..., Any]:
    """Return TVM's `relay.build`, whether or not Collage has wrapped it."""
    return stock("builds", "build")


def stock_vm_compile() -> Callable[..., Any]:
    """Return TVM's `relay.vm.compile`."""
    return stock("builds", "compile")


def build_library(
    mod: tvm.IRModule,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    executor: Any = None,
    runtime: Any = None,
    mod_name: str = "default",
    opt_level: int | None = 3,
    builder: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Build `mod` for the graph (default) or AOT executor; return TVM's executor factory.

    The current PassContext holds, except that `opt_level` replaces its level (None: keep it), and
    so do tuning contexts. One that is `on_one_thread` is built so. `options` are further arguments
    of `relay.build`; `builder` stands in for it in tests. Errors are those of `relay.build`.
    """
    build = builder or stock_build()
    options["mod_name"] = mod_name
    if executor is not None:
        options["executor"] = executor
    if runtime is not None:
        options["runtime"] = runtime
    mod = inline_external_functions(mod)
    return _build_fast(
        mod, lambda: build(mod.clone(), target=target, params=params, **options), opt_level
    )


def build_vm(
    mod: tvm.IRModule,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    opt_level: int | None = 3,
    builder: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Build `mod` for the Relay VM; return its executable. Otherwise like `build_library`."""
    build = builder or stock_vm_compile()
    return _build_fast(
        mod, lambda: build(mod.clone(), target=target, params=params, **options), opt_level
    )


def inline_external_functions(mod: tvm.IRModule) -> tvm.IRModule:
    """Return `mod` with Inline=1 on its external functions.

    The row "external functions" of tvm_fixes/table.py says why.
    """
    result = mod
    for var, func in mod.functions_items():
        if is_external_function(func) and "Inline" not in func.attrs:
            if result is mod:
                result = mod.clone()
            result.update_func(var, func.with_attr("Inline", tvm.tir.IntImm("int32", 1)))
    return result


def _build_fast(mod: tvm.IRModule, build: Callable[[], Any], opt_level: int | None) -> Any:
    is_serial = is_on_one_thread(mod["main"])
    with fast_passes(opt_level, is_serial), without_advice_to_tune():
        return mend_constants(build())


def export(factory: Any, library: str, **keywords: Any) -> None:
    """Do factory.export_library(library, **keywords), faster where the library allows it."""
    if can_leave_cpp_out(factory):
        try:
            factory.export_library(library, options=list(_WITHOUT_CPP), **keywords)
            return
        except RuntimeError:  # a compiler without these options or libraries
            pass
    factory.export_library(library, **keywords)


def can_leave_cpp_out(factory: Any) -> bool:
    """Tell whether all objects of the library come from TVM's own LLVM."""
    module = getattr(factory, "module", None)
    if sys.platform != "linux" or module is None:
        return False
    return all(part.type_key == "llvm" for part in module._collect_dso_modules())
