# SPDX-License-Identifier: Apache-2.0
"""A user's predicates and attrs getters as the passes can bear them: an answer, never an error.

An interrupt or a want of memory is no error of the predicate's and ends the pass
(process_wide/interrupts.py).

Test: plans/test_greedy.py, backends/test_registry.py, inspect/test_refusal.py.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import tvm
from tvm import relay

from ..process_wide.interrupts import carried, interrupts_kept

_LOGGER = logging.getLogger(__name__)


class _Fault(str):
    """The reason of a refusal that the user's function has not given: it raised, or its answer is
    none."""

    def __new__(cls, text: str) -> _Fault:
        return super().__new__(cls, f"unsupported: its {text}")


def raised_is_reason(predicate: Callable) -> Callable:
    """Return a user's predicate with what it raises, or answers wrongly, as a refusal's text."""
    return _guarded(predicate, "predicate", _verdict)


def attrs_or_reason(getter: Callable) -> Callable:
    """Return a user's attrs getter with what it raises as the text of a refusal."""
    return _guarded(getter, "attrs getter", tvm.runtime.convert)


def _guarded(function: Callable, what: str, as_answer: Callable) -> Callable:
    @carried
    @functools.wraps(function)
    def guarded(*args: Any) -> Any:
        return _ask(function, args, what, as_answer=as_answer)

    return guarded


def _ask(function: Callable, args: tuple, what: str, as_answer: Callable) -> Any:
    """Return the answer as C++ can take it, or why there is none.

    The pass's C++ learns of a Python exception only that there was one; and where the FFI cannot
    convert an answer, it does not even learn which.
    """
    try:
        return as_answer(function(*args))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's code may raise
        return _Fault(f"{what} raised {error!r}")


def _verdict(answer: object) -> Any:
    if isinstance(answer, str):
        return tvm.runtime.convert(answer)
    # NumPy's truth is no int; and a comparison with a shape's number is an integer of TVM's.
    if isinstance(answer, Integral | np.bool_ | tvm.tir.IntImm):
        return bool(answer)
    kind = type(answer).__name__
    return _Fault(f"predicate gave {kind}: a predicate gives a bool, or a text of why not")


def ask(predicate: Callable, expr: relay.Expr) -> Any:
    """Answer C++ for a predicate that its owner gave to TVM as it was."""
    with interrupts_kept():
        return _ask(predicate, (expr,), "predicate", as_answer=_verdict)


def never_raises(name: str, predicate: Callable) -> Callable[..., bool]:
    """Return the predicate with its answer as a bool; what it raises, or answers wrongly, means no.

    A text is the reason of a refusal, hence no, unless it is empty. Reasons go to this module's
    logger, with ``name`` (a composite's or an op's). Its attribute ``with_reason`` answers as the
    user's own does, faults of it being reasons too: for our rules.
    """
    predicate = getattr(predicate, "asked", predicate)

    @functools.wraps(predicate)
    def guarded(*args: Any) -> bool:
        answer = _ask(predicate, args, "predicate", as_answer=_verdict)
        # A reason may be TVM's String too, which is a str.
        if not isinstance(answer, str):
            return answer
        if answer:
            level = logging.INFO if isinstance(answer, _Fault) else logging.DEBUG
            _LOGGER.log(level, "%s refused: %s", name, answer)
        return not answer

    found: Any = guarded
    found.asked = predicate
    found.with_reason = raised_is_reason(predicate)
    return found
