# SPDX-License-Identifier: Apache-2.0
"""`relay.build`, `relay.vm.compile` and `create_executor` with `relay.collage.enable_collage`.

The wrappers stand in TVM's modules before anybody has imported the originals, and hand over to them
unchanged, argument for argument, when the option is off. Test: test_integration.py.
"""

import dataclasses
import functools

import tvm

OPTION = "relay.collage.enable_collage"


def is_enabled():
    """Tell whether the innermost PassContext asks for Collage."""
    value = tvm.transform.PassContext.current().config.get(OPTION, False)
    return bool(getattr(value, "value", value))


def install():
    """Put the wrappers in place, once; the originals stay reachable for ``build.stock``."""
    from tvm.relay import build_module
    from tvm.relay.backend import vm

    from .rpc import functions

    _wrap(build_module, "build", "_collage_stock_build", _build)
    _wrap(build_module, "create_executor", "_collage_stock_create_executor", _create_executor)
    _wrap(vm, "compile", "_collage_stock_compile", _compile_vm)
    functions.install()
    for function in (_read_placement, _reading_ops, _kept_constants, _seconds_waited):
        name = f"tvm.relay.collage.{function.__name__.lstrip('_')}"
        tvm.register_func(name, function, override=True)


def _wrap(module, name, kept_as, ours):
    if hasattr(module, kept_as):
        return
    stock = getattr(module, name)

    @functools.wraps(stock)
    def wrapper(*args, **kwargs):
        if not is_enabled():
            return stock(*args, **kwargs)
        from .interrupts import interrupts_kept

        with interrupts_kept():
            return ours(stock, *args, **kwargs)

    setattr(module, kept_as, stock)
    setattr(module, name, wrapper)


def _build(
    stock,
    ir_mod,
    target=None,
    target_host=None,
    executor=None,
    runtime=None,
    workspace_memory_pools=None,
    constant_memory_pools=None,
    params=None,
    mod_name="default",
):
    """`relay.build` under the option; the library carries the decision as ``.collage``."""
    from .build import build_library
    from .built import Built
    from .module_check import check_fixed_shapes
    from .optimizer import optimize
    from .targets import parse_targets

    targets = parse_targets(target, target_host)
    kind = executor.name if executor is not None else "graph"
    _check_executor(kind, targets)
    check_fixed_shapes(ir_mod, params, kind)
    options = {
        "executor": executor,
        "runtime": runtime,
        "workspace_memory_pools": workspace_memory_pools,
        "constant_memory_pools": constant_memory_pools,
        "mod_name": None if mod_name == "default" else mod_name,
    }
    options = {key: value for key, value in options.items() if value is not None}
    # The guard loads what it builds, which a library for another runtime than ours does not allow.
    is_loadable = runtime is None or runtime.name == "cpp"
    build_options = options if is_loadable else {}
    result = optimize(_as_module(ir_mod), params, targets.all, build_options=build_options)
    library = result.library if is_loadable else None
    if library is None:
        level = tvm.transform.PassContext.current().opt_level
        with result.records.in_force():
            library = build_library(result.mod, result.host, opt_level=level, **options)
    built = Built.of_library(library, result.mod)
    library.collage = dataclasses.replace(
        result, make_built=(lambda: built) if is_loadable else None
    )
    return library


def _compile_vm(stock, mod, target=None, target_host=None, params=None):
    """`relay.vm.compile` under the option; the executable carries the decision as ``.collage``."""
    from .build import build_vm
    from .built import Built
    from .optimizer import optimize
    from .targets import parse_targets

    result = optimize(_as_module(mod), params, parse_targets(target, target_host).all)
    level = tvm.transform.PassContext.current().opt_level
    with result.records.in_force():
        executable = build_vm(result.mod, result.host, opt_level=level)
    built = Built(executable.mod, result.mod)
    executable.collage = dataclasses.replace(result, make_built=lambda: built)
    return executable


def _create_executor(stock, kind="debug", mod=None, device=None, target="llvm", params=None):
    """`create_executor` under the option: decides at once, since TVM's executors build later,
    perhaps outside the PassContext."""
    from .build.library import inline_external_functions
    from .module_check import check_fixed_shapes
    from .optimizer import optimize
    from .options import CollageOptions
    from .targets import parse_targets, warn_host_alone
    from .tuning.standing_logs import logs_of

    targets = parse_targets(target)
    options = CollageOptions.current()
    is_tuned = options.tune or logs_of(options)
    if not (targets.external or is_tuned or options.placement):
        warn_host_alone(targets.host, options)
        return stock(kind, mod, device, target, params)
    _check_executor(kind, targets)
    if kind in ("graph", "aot"):
        check_fixed_shapes(mod, params, kind)
    result = optimize(_as_module(mod), params, targets.all)
    executor = stock(kind, inline_external_functions(result.mod), device, result.host)
    executor.collage = result
    if result.records:
        executor._make_executor = functools.partial(
            _make_tuned, executor._make_executor, result.records
        )
    return executor


def _make_tuned(make, records, expr=None):
    """What TVM's executor builds when it is first evaluated, with the tuning records."""
    with records.in_force():
        return make(expr)


def _read_placement(path, mod, config):
    """The pass's, under the option relay.collage.placement: rows of parts by function, checked."""
    from .placement.replay import read_placement

    return read_placement(str(path), mod, config)


def _reading_ops():
    """For the pass: operators to which some numbers are places, shapes or structure."""
    from .measure.reads import READS

    return list(READS)


def _kept_constants(nodes):
    """For the pass: constants that decide how long calls take which read places, whatever their
    size; of these calls and the lets of their function."""
    from .measure.flows import leaves_read_by

    return list(leaves_read_by(nodes).constants)


def _seconds_waited():
    """For the pass: how long this thread has waited for the CPUs that others measure on."""
    from .measure.cpu_lock import seconds_waited

    return seconds_waited()


def _as_module(mod):
    return tvm.IRModule.from_expr(mod) if isinstance(mod, tvm.relay.Function) else mod


def _check_executor(kind, targets):
    """Refuse executors that cannot call an external backend's part."""
    from .errors import ExecutorError

    if targets.external and kind not in ("graph", "vm"):
        names = ", ".join(item.kind.name for item in targets.external)
        raise ExecutorError(
            f"the {kind} executor cannot call parts of external backends ({names}): use the graph "
            "executor or the VM, or give the host target alone"
        )
