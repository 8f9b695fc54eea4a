# SPDX-License-Identifier: Apache-2.0
"""TVM's own pass pipeline, made fast, and whole with LLVM 22, by a pass instrument.

Around TVM's passes it does what two tables say: rewrites/table.py has the rules by which Relay is
rewritten before or after a pass, tvm_fixes/table.py has the passes and functions of TVM that are
left out, done otherwise or replaced while something is built.

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

from .. import rewrites
from ..relay_util.changed_context import changed_context
from ..rewrites.engine import type_in_place
from ..tvm_fixes.ansor import ansors_products
from ..tvm_fixes.apply import ScopedFix
from ..tvm_fixes.exact_bytes import exact_bytes
from ..tvm_fixes.table import pass_of
from .fold import fold_in_place
from .small_loops import run_small_loops_on_one_thread
from .vector_math import VECTOR_MATH, has_vector_math, round_to_even

# Typed functions remembered; a pipeline works on the newest few.
_REMEMBERED = 256
_TYPES, _CONSTANTS = pass_of("types"), pass_of("constants")
_LAID_OUT, _LEFT_TO_LLVM = pass_of("types of laid out weights"), pass_of("common sub-expressions")
# The passes of the sequence FoldScaleAxis, which runs where its passes do not, too.
_FOLDING_SCALES = ("ForwardFoldScaleAxis", "BackwardFoldScaleAxis")
_LOOPS, _ROUNDING = pass_of("small loops"), pass_of("rounding")
# Context in which TVM's kernel compiler reads the table of how TVM was compiled once.
remembered_build_info = ScopedFix("build info", functools.lru_cache(maxsize=1)).inside


class TypedFunctions:
    """Functions known to be typed in the module they belong to.

    A function's typing depends on itself and on the types of the functions it calls. Nodes are
    immutable, so a function seen to be typed stays so until some function of the module gets
    another type under the same name; then everything is forgotten.
    """

    def __init__(self) -> None:
        self._functions: OrderedDict[int, Any] = OrderedDict()  # keeps them alive: keys stay theirs
        self._types: dict[str, Any] = {}

    def covers(self, mod: tvm.IRModule) -> bool:
        """Tell whether each Relay function of `mod` is known to be typed, and remember those for
        longer: typing another function of theirs makes new ones of all."""
        functions = [f for _, f in mod.functions_items() if isinstance(f, relay.Function)]
        known = [f.handle.value for f in functions if f.handle.value in self._functions]
        for key in known:
            self._functions.move_to_end(key)
        return len(known) == len(functions)

    def add(self, mod: tvm.IRModule) -> None:
        """Note the functions of a module that InferType returned."""
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
    """The instrument, which does nothing after `stop()`. Each of its functions reads a pass's name
    once: that takes TVM tens of microseconds, and a build has hundreds of passes."""

    def __init__(self, vector_math: bool = True, one_thread: bool = False) -> None:
        self._typed = TypedFunctions()
        self._is_active = True
        self._vector_math = vector_math
        self._one_thread = one_thread

    def should_run(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> bool:
        """Return False for an InferType that has nothing to do, and for what LLVM does."""
        if not self._is_active:
            return True
        name = str(info.name)
        if name == _TYPES:
            return not self._typed.covers(mod)
        return name != _LEFT_TO_LLVM

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> None:
        """Change `mod` in place: a pass before, or the caller, has made it the build's own."""
        if not self._is_active:
            return
        name = str(info.name)
        if name == _CONSTANTS:
            fold_in_place(mod)
        elif rewrites.apply(mod, f"before {_step_of(name)}"):
            self._typed.add(mod)
        elif name == _LOOPS:
            run_small_loops_on_one_thread(mod, self._one_thread)
        if name == _ROUNDING:
            round_to_even(mod)
        if self._vector_math and name in VECTOR_MATH:
            VECTOR_MATH[name](mod)

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> None:
        """Note what InferType has typed; mend what a pass returns, again in place."""
        if not self._is_active:
            return
        name = str(info.name)
        if name == _LAID_OUT:
            type_in_place(mod)
        is_typed = name in (_TYPES, _LAID_OUT)
        if is_typed or rewrites.apply(mod, f"after {_step_of(name)}"):
            self._typed.add(mod)

    def stop(self) -> None:
        """End the instrument's work and free what it holds."""
        self._is_active = False
        self._typed.clear()


def _step_of(name: str) -> str:
    """Return a pass's name as rewrites/table.py has it."""
    return "FoldScales" if name in _FOLDING_SCALES else name


@contextlib.contextmanager
def fast_passes(opt_level: int | None = None, one_thread: bool = False) -> Iterator[FastPasses]:
    """Have TVM's passes take the shortcuts of this module in the block; give the instrument.

    The block has the current PassContext, with `opt_level` (None: unchanged) in place of its own,
    and its parallel loops on one thread with `one_thread`. A module
    that FoldConstant or SimplifyExpr is called on directly must not be shared: it is changed in
    place.
    """
    current = tvm.transform.PassContext.current()
    instrument = FastPasses(has_vector_math(), one_thread)
    inherited = list(current.instruments or [])
    if inherited and opt_level in (None, current.opt_level):
        # TVM's pass timing would forget its figures in a nested context.
        context: Any = joined(current, instrument)
    else:
        context = changed_context(opt_level=opt_level, instruments=[*inherited, instrument])
    try:
        with context, remembered_build_info(), exact_bytes(), ansors_products():
            yield instrument
    finally:
        instrument.stop()


@contextlib.contextmanager
def joined(context: tvm.transform.PassContext, instrument: Any) -> Iterator[None]:
    """Have one more instrument in `context` for the block, unnoticed by those that it has.

    The row "instruments" of tvm_fixes/table.py.
    """
    set_instruments = tvm.get_global_func("collage.SetInstruments")
    inherited = list(context.instruments)
    set_instruments(context, [*inherited, instrument])
    try:
        yield
    finally:
        set_instruments(context, inherited)
