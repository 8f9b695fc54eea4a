# SPDX-License-Identifier: Apache-2.0
"""Makes TVM's own pass pipeline fast, and whole with LLVM 22, as a pass instrument.

- Before every FoldConstant the module's constants are folded with numpy (see `fold`); what is left
  is TVM's to fold. FoldConstant then mostly finds nothing, instead of compiling each weight's
  transformation with LLVM.
- An InferType on functions that are already typed, and unchanged, is skipped.
- Before every SimplifyExpr, x + x becomes 2 x: what TVM does to such sums takes the nets that have
  them apart (see `doubled`).
- Around each ForwardFoldScaleAxis and BackwardFoldScaleAxis, products that would scale weights at
  run time are fenced in (see `scale_axis`).
- TVM's common sub-expression pass on kernels is left out: LLVM has one of its own and rejects the
  debug information of some of the bindings that TVM's makes, and kernels whose loops are unrolled
  spend several times as long in TVM's as in all else of a build.
- Before every AlterOpLayout, convolutions along one axis become those of one row (see `one_row`),
  and squeezes of channels reshapes (see `squeezed_channels`).
- Kernels of 8-bit products are scheduled to be exact (see `exact_bytes`).
- Ansor's records may lay the weights of dense layers out anew (see `matmul_axes`); what does that
  is folded with numpy, too, for which the functions that DefuseOps returns are typed. Those that no
  record is for stay TVM's own (see `unserved_products`).
- Loops of kernels that do little run on one thread (see `small_loops`), all of them in a build that
  is for one thread.
- Halves are rounded to the even number (see `vector_math`).
- exp, tanh and their like are vector code of ours, unless option vector_math is off (see
  `vector_math`).

Otherwise which passes run, and in which order, stays TVM's decision: executors, opt levels,
disabled passes and tuning contexts all keep their meaning.

Test: compile/test_library.py
"""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relay
from tvm.ir.instrument import pass_instrument
from tvm.relay.backend import te_compiler

from ..process_wide.shared_patch import SharedPatch
from ..relay_util.changed_context import changed_context
from .doubled import double_in_place
from .exact_bytes import exact_bytes
from .fold import fold_in_place
from .matmul_axes import matmul_axes
from .one_row import lay_in_rows
from .rewriting import type_in_place
from .scale_axis import fence_products, remove_fences
from .small_loops import run_small_loops_on_one_thread
from .squeezed_channels import reshape_squeezed_channels
from .unserved_products import unserved_products
from .vector_math import VECTOR_MATH, has_vector_math, round_to_even

# Typed functions remembered; a pipeline works on the newest few.
_REMEMBERED = 256
_FOLD_SCALE_AXIS = ("ForwardFoldScaleAxis", "BackwardFoldScaleAxis")


def _before_layouts(mod: tvm.IRModule) -> bool:
    return any([lay_in_rows(mod), reshape_squeezed_channels(mod)])


# What is done before which pass to a typed module, which is typed again where that changes it.
_REWRITES = {
    "SimplifyExpr": double_in_place,
    "AlterOpLayout": _before_layouts,
    **dict.fromkeys(_FOLD_SCALE_AXIS, fence_products),
}


class _TypedFunctions:
    """Functions known to be typed in the module they belong to.

    A function's typing depends on itself and on the types of the functions it calls. Nodes are
    immutable, so a function seen to be typed stays so until some function of the module gets
    another type under the same name; then everything is forgotten.
    """

    def __init__(self) -> None:
        self._functions: OrderedDict[int, Any] = OrderedDict()  # keeps them alive: keys stay theirs
        self._types: dict[str, Any] = {}

    def covers(self, mod: tvm.IRModule) -> bool:
        """Whether each Relay function of `mod` is known to be typed."""
        return all(
            func.handle.value in self._functions
            for _, func in mod.functions_items()
            if isinstance(func, relay.Function)
        )

    def add(self, mod: tvm.IRModule) -> None:
        """Notes the functions of a module that InferType returned."""
        relay_functions = [
            (var, func) for var, func in mod.functions_items() if isinstance(func, relay.Function)
        ]
        for var, func in relay_functions:
            name, new = var.name_hint, func.checked_type
            old = self._types.get(name)
            if old is not None and not tvm.ir.structural_equal(old, new):
                self._functions.clear()
            self._types[name] = new
        for _, func in relay_functions:
            self._functions[func.handle.value] = func
        limit = max(_REMEMBERED, 4 * len(relay_functions))
        while len(self._functions) > limit:
            self._functions.popitem(last=False)

    def clear(self) -> None:
        self._functions.clear()
        self._types.clear()


@pass_instrument
class FastPasses:
    """The instrument. After `stop()` it does nothing."""

    def __init__(self, vector_math: bool = True, one_thread: bool = False) -> None:
        self._typed = _TypedFunctions()
        self._is_active = True
        self._vector_math = vector_math
        self._one_thread = one_thread

    def should_run(self, mod: tvm.IRModule, info: Any) -> bool:
        """False for an InferType that has nothing to do, and for what LLVM does."""
        if not self._is_active:
            return True
        if info.name == "InferType":
            return not self._typed.covers(mod)
        return info.name != "tir.CommonSubexprElimTIR"

    def run_before_pass(self, mod: tvm.IRModule, info: Any) -> None:
        """Changes `mod` in place: a pass before, or the caller, has made it the build's own."""
        if not self._is_active:
            return
        if info.name == "FoldConstant":
            fold_in_place(mod)
        elif info.name in _REWRITES:
            if _REWRITES[info.name](mod):
                self._typed.add(mod)
        elif info.name == "tir.LowerTVMBuiltin":
            run_small_loops_on_one_thread(mod, self._one_thread)
        if info.name == "tir.LowerIntrin":
            round_to_even(mod)
        if self._vector_math and info.name in VECTOR_MATH:
            VECTOR_MATH[info.name](mod)

    def run_after_pass(self, mod: tvm.IRModule, info: Any) -> None:
        """Notes what InferType has typed; mends kernels, again in place."""
        if not self._is_active:
            return
        name = info.name
        if name == "DefuseOps":
            type_in_place(mod)
        if name in ("InferType", "DefuseOps") or (name in _FOLD_SCALE_AXIS and remove_fences(mod)):
            self._typed.add(mod)

    def stop(self) -> None:
        """Ends the instrument's work and frees what it holds."""
        self._is_active = False
        self._typed.clear()


@contextlib.contextmanager
def fast_passes(opt_level: int | None = None, one_thread: bool = False) -> Iterator[FastPasses]:
    """Context in which TVM's passes take the shortcuts of this module.

    It is the current PassContext, with `opt_level` (None: unchanged) in place of its own. A module
    that FoldConstant or SimplifyExpr is called on directly must not be shared: it is changed in
    place.
    """
    current = tvm.transform.PassContext.current()
    instrument = FastPasses(has_vector_math(), one_thread)
    inherited = list(current.instruments or [])
    if inherited and opt_level in (None, current.opt_level):
        # Join the user's own context: leaving a nested one would end his instruments' work (TVM's
        # pass timing forgets its figures then).
        context: Any = joined(current, instrument)
    else:
        context = changed_context(opt_level=opt_level, instruments=[*inherited, instrument])
    try:
        with context, remembered_build_info(), exact_bytes(), matmul_axes(), unserved_products():
            yield instrument
    finally:
        instrument.stop()


@contextlib.contextmanager
def joined(context: tvm.transform.PassContext, instrument: Any) -> Iterator[None]:
    """`context` with one more instrument for the block, unnoticed by those that it has."""
    set_instruments = tvm.get_global_func("collage.SetInstruments")
    inherited = list(context.instruments)
    set_instruments(context, [*inherited, instrument])
    try:
        yield
    finally:
        set_instruments(context, inherited)


# TVM 0.19 asks for the whole table of how it was compiled (a hundred FFI calls) for every dimension
# of every kernel's output; the table is fixed.
_BUILD_INFO = SharedPatch.of_attribute(te_compiler, "libinfo", functools.lru_cache(maxsize=1))


def remembered_build_info() -> contextlib.AbstractContextManager[object]:
    """Context in which TVM's kernel compiler reads the table once."""
    return _BUILD_INFO.inside()
