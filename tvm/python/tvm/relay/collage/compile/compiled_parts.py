# SPDX-License-Identifier: Apache-2.0
"""Builds of many plans of one module, in which each kernel and each part is compiled once.

TVM compiles all kernels of a module at once and asks a backend for each of its parts at every
build. Here both are made by themselves and kept: TVM is given functions of a compiler of ours in
their place, which answers with what is kept. So a plan costs what is new in it.

Key: the structural hash of a kernel's Relay function after TVM's fusion, or of a part's function
with its weights, without its name. It misses for a function that no plan before had, and for one
that was dropped for room (the log says which at level debug). Hashes know neither target, tuning
records nor options of the PassContext: one CompiledParts, or one folder of kernels, serves builds
that have all of these in common. Kernels are files, so that forks and processes share a folder.

Such a library is for measuring, from a file: TVM cannot run linked kernels before they are in one.
Its kernels have the machine code of `build_library`'s. Docs: docs/choosing.md.
Test: compile/test_compiled_parts.py
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import logging
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.ir.instrument import pass_instrument
from tvm.relay.backend import te_compiler

from ..exec.forks import run_side_by_side
from ..process_wide.interrupts import carried
from ..relay_util.external import is_external_function
from ..relay_util.walk import children_of, key_of, post_order, rebuild, size_of, tensors_of
from .fast_passes import joined
from .library import build_library

_LOG = logging.getLogger(__name__)

# Who compiles what stands for kept kernels and parts, in the eyes of TVM.
_COMPILER = "collage_compiled"
_KERNEL, _PART = "kernel", "part"
# Of kernels these are the bytes of object files, of parts those of their weights, which most parts
# share with the module that is searched.
_LIMITS = {_KERNEL: 256 << 20, _PART: 2 << 30}
# What the compiler of ours answers by symbol in the build that this thread runs.
_ANSWERS: contextvars.ContextVar[dict[str, Callable[[], tvm.runtime.Module]]] = (
    contextvars.ContextVar("collage_compiled_parts")
)
# TVM's compiler of kernels, of which there is one.
_LOWERING = threading.Lock()


@dataclasses.dataclass
class Counts:
    """Numbers of kernels, or of parts, in the builds of one CompiledParts."""

    compiled: int = 0
    reused: int = 0  # which were there already


class CompiledParts:
    """Kernels and parts by their hashes, the least recently used dropped for room.

    folder: where the kernels are, one of its own without; others may use it at the same time.
    at_once: so many forks compile the kernels of a plan. counts: by "kernel" and "part".
    """

    def __init__(
        self,
        target: tvm.target.Target | str,
        limits: dict[str, int] | None = None,
        *,
        folder: str = "",
        at_once: int = 1,
    ) -> None:
        self.counts = {_KERNEL: Counts(), _PART: Counts()}
        self._own_folder = None if folder else tempfile.TemporaryDirectory()
        self._folder = folder or str(self._own_folder and self._own_folder.name)
        self._at_once = at_once
        self._fresh: set[str] = set()  # kernels that forks have compiled and no build has had yet
        self._target = tvm.target.Target(target)
        self._limits = limits or _LIMITS
        self._kept: dict[str, OrderedDict[str, tuple[tvm.runtime.Module, int]]] = {
            _KERNEL: OrderedDict(),
            _PART: OrderedDict(),
        }

    @staticmethod
    def can_build(options: Mapping[str, Any]) -> bool:
        """Tell whether `build` takes these options of `build_library`: those of a graph executor
        whose constants are its own."""
        executor = options.get("executor")
        is_graph = executor is None or executor.name == "graph" and not executor["link-params"]
        return is_graph and set(options) <= {"executor", "mod_name", "opt_level"}

    def build(self, mod: tvm.IRModule, **options: Any) -> Any:
        """Build a plan's typed module as `build_library` does, with these options of a graph
        executor."""
        token = _ANSWERS.set({})
        try:
            with joined(tvm.transform.PassContext.current(), _AfterFusion(self)):
                return build_library(self._without_parts(mod), self._target, **options)
        finally:
            _ANSWERS.reset(token)

    def _without_parts(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return `mod` with functions of our compiler, without a body that TVM's passes would go
        through, for the parts whose backends keep their weights themselves."""
        result = mod.clone()
        for var, function in mod.functions_items():
            if is_external_function(function) and _keeps_its_weights(function):
                part = function.without_attr("global_symbol")
                symbol = self._stand_in(_PART, part, functools.partial(self._made_part, part))
                result.update_func(var, _as_ours(_hollow(part), symbol))
        return relay.transform.InferType()(result)

    def _stand_in(
        self, kind: str, function: relay.Function, make: Callable[[str], tuple[Any, int]]
    ) -> str:
        """Return the symbol of a function that our compiler will be asked for; `make(symbol)`
        compiles it."""
        symbol = f"collage_{kind}_{tvm.ir.structural_hash(function) & (1 << 64) - 1:016x}"
        _ANSWERS.get()[symbol] = lambda: self._get(kind, symbol, make)
        return symbol

    def _stand_in_of_kernel(self, kernel: relay.Function) -> str:
        return self._stand_in(_KERNEL, kernel, lambda symbol: self._made_kernel(kernel, symbol))

    def _get(self, kind: str, symbol: str, make: Callable[[str], tuple[Any, int]]) -> Any:
        kept = self._kept[kind]
        if symbol in kept:
            self.counts[kind].reused += 1
        else:
            kept[symbol] = make(symbol)
        kept.move_to_end(symbol)
        found = kept[symbol][0]
        while len(kept) > 1 and sum(size for _, size in kept.values()) > self._limits[kind]:
            oldest, _ = kept.popitem(last=False)
            _LOG.debug("%s is dropped for room", oldest)
            if kind == _KERNEL:
                Path(self._file_of(oldest)).unlink(missing_ok=True)
        return found

    def _compile_kernels(self, kernels: Mapping[str, relay.Function]) -> None:
        """Compile those of a plan's kernels that are nowhere, in forks side by side. What fails
        there is left to be compiled, and to fail, when TVM asks for it."""
        new = [each for each in kernels.items() if not os.path.exists(self._file_of(each[0]))]
        hands = min(len(new), self._at_once)
        if hands < 2:
            return

        def compile(hand: int) -> None:
            for symbol, kernel in new[hand::hands]:  # neighbours are alike
                self._write_kernel(kernel, symbol)

        tasks = {str(hand): functools.partial(compile, hand) for hand in range(hands)}
        run_side_by_side(tasks, hands)
        self._fresh.update(symbol for symbol, _ in new)

    def _made_kernel(self, kernel: relay.Function, symbol: str) -> tuple[tvm.runtime.Module, int]:
        """Return the object file of a kernel as a module, and its bytes."""
        is_there = os.path.exists(self._file_of(symbol))
        if is_there and symbol not in self._fresh:
            self.counts[_KERNEL].reused += 1
        else:
            self.counts[_KERNEL].compiled += 1
        self._fresh.discard(symbol)
        if not is_there:
            self._write_kernel(kernel, symbol)
        file = self._file_of(symbol)
        return tvm.runtime.load_static_library(file, [symbol]), os.path.getsize(file)

    def _write_kernel(self, kernel: relay.Function, symbol: str) -> None:
        """Compile as TVM's build would, to a file that is whole as soon as it is there."""
        _LOG.debug("%s is compiled: no plan before had it, or it was dropped", symbol)
        with _LOWERING:
            compiler = te_compiler.get()
            # It knows no tuning records, and may have compiled the kernel with others.
            compiler.clear()
            lowered = compiler.lower(kernel, self._target)
        functions = {var.name_hint: function for var, function in lowered.funcs.functions_items()}
        main = functions.pop(lowered.prim_fn_var.name_hint).with_attr("global_symbol", symbol)
        module = tvm.IRModule({symbol: main, **functions})
        built = tvm.get_global_func("driver.tir_to_runtime")({self._target: module}, self._target)
        # TVM tells the format by the name's end.
        unfinished = f"{self._file_of(symbol)}.{os.getpid()}.o"
        built.save(unfinished)
        os.replace(unfinished, self._file_of(symbol))

    def _file_of(self, symbol: str) -> str:
        return os.path.join(self._folder, f"{symbol}.o")

    def _made_part(self, part: relay.Function, symbol: str) -> tuple[tvm.runtime.Module, int]:
        """Compile a part as TVM's build would; return its module, and the bytes of its weights."""
        self.counts[_PART].compiled += 1
        compile = tvm.get_global_func(f"relay.ext.{part.attrs['Compiler']}")
        found = compile(part.with_attr("global_symbol", symbol))
        return found, sum(map(size_of, constants_of(found) or ()))


@pass_instrument
class _AfterFusion:
    """An instrument that puts functions of our compiler into the place of what TVM has fused."""

    def __init__(self, compiled: CompiledParts) -> None:
        self._compiled = compiled

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> None:
        if info.name == "FuseOps":
            kernels: dict[str, relay.Function] = {}
            main = self._of_ours(mod["main"], kernels)
            self._compiled._compile_kernels(kernels)
            mod.update_func(mod.get_global_var("main"), main)

    def _of_ours(self, main: relay.Function, kernels: dict[str, relay.Function]) -> relay.Function:
        """Return main with functions of our compiler; note the kernels that these stand for."""
        new: dict[int, Any] = {}
        for expr in post_order(main.body):
            old = children_of(expr)
            children = [new[key_of(child)] for child in old]
            if isinstance(expr, relay.Call) and _is_kernel(expr.op):
                symbol = self._compiled._stand_in_of_kernel(expr.op)
                kernels[symbol] = expr.op
                kernel = _as_ours(expr.op, symbol)
                new[key_of(expr)] = relay.expr.CallWithFields(expr, kernel, children)
            else:
                new[key_of(expr)] = rebuild(expr, old, children)
        return relay.function.FunctionWithFields(main, None, new[key_of(main.body)])


def _is_kernel(op: relay.Expr) -> bool:
    """Tell whether TVM would compile the function that is called to a kernel: one that only gives
    its input another shape becomes none."""
    attrs = (op.attrs or {}) if isinstance(op, relay.Function) else {}
    return "Primitive" in attrs and "Compiler" not in attrs and "relay.reshape_only" not in attrs


def _as_ours(function: relay.Function, symbol: str) -> relay.Function:
    one = tvm.tir.IntImm("int32", 1)
    marks = {"Primitive": one, "Inline": one, "Compiler": _COMPILER, "global_symbol": symbol}
    return function.with_attr(marks)


def _hollow(part: relay.Function) -> relay.Function:
    """Return a function of the part's type that computes nothing."""
    kind = part.checked_type.ret_type
    zeros = [relay.zeros(each.shape, each.dtype) for each in tensors_of(kind)]
    is_tuple = isinstance(kind, tvm.ir.TupleType)
    params = [relay.Var(param.name_hint, param.checked_type) for param in part.params]
    return relay.Function(params, relay.Tuple(zeros) if is_tuple else zeros[0], kind)


def _keeps_its_weights(part: relay.Function) -> bool:
    """Tell whether the runtime module of a part has its weights by itself, so that it can be
    shared: then its backend names no constants to TVM."""
    name = f"relay.ext.{part.attrs['Compiler']}.constant_updater"
    names_of = tvm.get_global_func(name, allow_missing=True)
    return names_of is not None and not names_of(part, "part")


def constants_of(part: tvm.runtime.Module) -> list[tvm.nd.NDArray] | None:
    """Return the weights that a part's module keeps; None for a module that does not tell."""
    try:
        return list(part.get_function("get_constants")())
    except AttributeError:
        return None


@tvm.register_func(f"relay.ext.{_COMPILER}", override=True)
@carried
def _compile(function: relay.Function) -> tvm.runtime.Module:
    return _ANSWERS.get()[str(function.attrs["global_symbol"])]()


@tvm.register_func(f"relay.ext.{_COMPILER}.constant_updater", override=True)
def _constants(function: relay.Function, symbol: str) -> dict[str, Any]:
    """Name none: parts keep theirs, and kernels get them from TVM's executor."""
    return {}
