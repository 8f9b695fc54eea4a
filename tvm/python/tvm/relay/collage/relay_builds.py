# SPDX-License-Identifier: Apache-2.0
"""The builds by `relay.build`, `relay.vm.compile` and `create_executor` with the option
enable_collage.

Each gets TVM's own function first, then its arguments. Test: test_integration.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relay
from tvm.target import Target

from .backends.targets import GivenTargets, parse_targets, warn_host_alone
from .compile import build_library, build_vm
from .compile.built import Built
from .compile.executors import VM, check_calls_parts
from .compile.library import inline_external_functions
from .compile.module_check import check_fixed_shapes
from .errors import OptionError
from .messages.progress import one_step
from .optimizer import optimize
from .options import CollageOptions
from .options.named import option
from .plans.original import NONE as NO_ORIGINAL
from .plans.run_pass import options_set
from .precision.place import optimize_precision
from .result import Result
from .tuning import TuningRecords
from .tuning.from_options import logs_of


def build(
    stock: Callable[..., Any],
    ir_mod: tvm.IRModule | relay.Function,
    target: GivenTargets = None,
    target_host: str | Target | None = None,
    executor: relay.backend.Executor | None = None,
    runtime: relay.backend.Runtime | None = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: dict[str, Any] | None = None,
    mod_name: str = "default",
) -> Any:
    """`relay.build` under the option; the library carries the decision as ``.collage``."""
    targets = parse_targets(target, target_host)
    kind = executor.name if executor is not None else "graph"
    check_calls_parts(kind, runtime, targets.backends)
    _check_shapes(ir_mod, params, kind)
    options = {
        "executor": executor or relay.backend.Executor("graph"),
        "runtime": runtime,
        "workspace_memory_pools": workspace_memory_pools,
        "constant_memory_pools": constant_memory_pools,
        "mod_name": None if mod_name == "default" else mod_name,
    }
    options = {key: value for key, value in options.items() if value is not None}
    # The guard loads what it builds, which a library for another runtime than ours does not allow.
    is_loadable = runtime is None or runtime.name == "cpp"
    build_options = options if is_loadable else {"executor": relay.backend.Executor("graph")}
    result = _decided(ir_mod, params, targets.all, build_options)
    library = result.library if is_loadable else None
    if library is None:
        with result.records.in_force(), _told(result):
            library = build_library(result.mod, result.host, opt_level=None, **options)
    built = Built.of_library(library, result.mod)
    library.collage = result.built_by((lambda: built) if is_loadable else None)
    return library


def compile_vm(
    stock: Callable[..., Any],
    mod: tvm.IRModule | relay.Function,
    target: GivenTargets = None,
    target_host: str | Target | None = None,
    params: dict[str, Any] | None = None,
) -> Any:
    """`relay.vm.compile` under the option; the executable carries the decision as ``.collage``."""
    targets = parse_targets(target, target_host)
    result = _decided(mod, params, targets.all, {"executor": VM})
    executable = result.library
    if executable is None:
        with result.records.in_force(), _told(result):
            executable = build_vm(result.mod, result.host, opt_level=None)
    built = Built.of_library(executable, result.mod)
    executable.collage = result.built_by(lambda: built)
    return executable


def _decided(
    mod: tvm.IRModule | relay.Function,
    params: dict[str, Any] | None,
    targets: GivenTargets,
    build_options: dict[str, Any],
) -> Result:
    """Return what ships of a module. Where samples are to choose precisions, that is of the ONNX
    file that it was imported from: the module itself, which may be another by now, is not read."""
    options = CollageOptions.current()
    if not options.calibration:
        return optimize(_as_module(mod), params, targets, build_options=build_options)
    if not options.original or options.original == NO_ORIGINAL:
        raise OptionError(
            option("calibration")
            + " chooses precisions of a model's ONNX file: name that by "
            + option("original")
        )
    inputs = {p.name_hint: p.type_annotation for p in _as_module(mod)["main"].params}
    shapes = {n: t.concrete_shape for n, t in inputs.items() if n not in (params or {})}
    return optimize_precision(
        options.original, targets, options, shapes=shapes, build_options=build_options
    )


def _told(result: Result) -> contextlib.AbstractContextManager[None]:
    """Shows that what ships is built."""
    return one_step("building", result.plan, CollageOptions.current().progress)


def create_executor(
    stock: Callable[..., Any],
    kind: str = "debug",
    mod: tvm.IRModule | relay.Function = None,
    device: tvm.runtime.Device | None = None,
    target: GivenTargets = "llvm",
    params: dict[str, Any] | None = None,
) -> Any:
    """`create_executor` under the option: decides at once, since TVM's executors build later,
    perhaps outside the PassContext."""
    targets = parse_targets(target)
    options = CollageOptions.current()
    tuned = options.tuning
    is_tuned = tuned.tries() or tuned.shipped or logs_of(tuned)
    if not (targets.external or is_tuned or options.placement):
        warn_host_alone(targets.host, options.accuracy_budget)
        return stock(kind, mod, device, target, params)
    check_calls_parts(kind, None, targets.backends)
    runs_by: dict[str, Any] = {"executor": VM} if kind == "vm" else {}
    if kind in ("graph", "aot"):
        _check_shapes(mod, params, kind)
        runs_by["executor"] = relay.backend.Executor(kind)
    result = optimize(_as_module(mod), params, targets.all, build_options=runs_by)
    executor = stock(kind, inline_external_functions(result.mod), device, result.host)
    executor.collage = result
    executor._make_executor = functools.partial(
        _make_decided, executor._make_executor, result.records
    )
    return executor


def _make_decided(make: Callable[..., Any], records: TuningRecords, expr: relay.Expr = None) -> Any:
    """Make what TVM's executor builds when it is first evaluated, as it was decided for: with the
    tuning records, and not decided once more where the option is still on."""
    with options_set({"enable_collage": False}), records.in_force():
        return make(expr)


def _as_module(mod: tvm.IRModule | relay.Function) -> Any:
    return tvm.IRModule.from_expr(mod) if isinstance(mod, tvm.relay.Function) else mod


def _check_shapes(
    mod: tvm.IRModule | relay.Function, params: dict[str, Any] | None, kind: str
) -> None:
    """Refuse inputs whose memory the graph and the AOT executor cannot plan."""
    check_fixed_shapes(
        mod,
        params,
        f"the {kind} executor",
        how=lambda fixed: (
            f"use relay.vm.compile, or import the model with its shapes, e.g. shape={fixed}"
        ),
    )
