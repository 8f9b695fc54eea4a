# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SystemExit and a want of memory in Python code that TVM's C++ calls: they end what runs.

TVM's FFI knows `Exception` alone: what else a callback raises it prints, and gives None for the
callback's answer. Test: process_wide/test_interrupts.py.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from tvm._ffi import register_func

from .shared_patch import SharedPatch

# Where the function is from that ctypes calls for C++: TVM's FFI makes one for each callback.
_FFI = "tvm._ffi."


def _has_left_ffi(traceback: TracebackType | None) -> bool:
    """Return whether the FFI's function, which C++ called, is the outermost frame. Every Python
    says so by the traceback; since 3.13 ctypes no longer gives the hook that function."""
    if traceback is None:
        return False
    module = traceback.tb_frame.f_globals.get("__name__") or ""
    return module.startswith(_FFI)


class _Scope(threading.local):
    """Counts of each thread: how many `interrupts_kept` it is in, and what the FFI has lost
    there."""

    depth = 0
    lost: BaseException | None = None


_scope = _Scope()


class _Carrier(Exception):
    """Brings what is no Exception, or must come out as it was raised, through the FFI.

    When the FFI raises a callback's exception again on the other side of C++, it raises what
    ``with_traceback`` of it gives.
    """

    def __init__(self, what: BaseException) -> None:
        super().__init__(repr(what))
        self.what = what

    def with_traceback(self, _traceback: TracebackType | None) -> Any:
        return self.what


def carried(function: Callable, *, also: tuple[type[Exception], ...] = ()) -> Callable:
    """Return the function as a callback for C++: what ends everything comes out of C++ as itself.

    So do exceptions of the classes ``also``; any other gets C++'s stack frames into its traceback.
    """

    @functools.wraps(function)
    def callback(*args: Any) -> Any:
        try:
            return function(*args)
        except _Carrier:
            raise
        except Exception as error:
            if isinstance(error, also):
                raise _Carrier(error) from None
            raise
        except BaseException as interrupt:  # noqa: BLE001 - raised again beyond C++
            raise _Carrier(interrupt) from None

    return callback


def _keep(before: Callable) -> Callable:
    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        is_ours = _scope.depth > 0 and _has_left_ffi(unraisable.exc_traceback)
        if is_ours and (not isinstance(error, Exception) or isinstance(error, MemoryError)):
            _scope.lost = error
        else:
            before(unraisable)

    return hook


_hook = SharedPatch.of_attribute(sys, "unraisablehook", _keep)


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise at the end of the block, which calls TVM, an interrupt that its FFI loses in this
    thread.

    For callbacks that are not `carried`: others' functions, and the FFI's own lines around ours.
    """
    with _hook.inside():
        _scope.depth += 1
        try:
            yield
        except Exception:
            _raise_lost()
            raise
        except BaseException:
            # It ends the block itself: what was lost before it must not come out of a later one.
            _scope.lost = None
            raise
        finally:
            _scope.depth -= 1
        _raise_lost()


def _raise_lost() -> None:
    lost, _scope.lost = _scope.lost, None
    if lost is not None:
        raise lost


@register_func("tvm.relay.collage.raise_if_interrupted", override=True)
@carried
def raise_if_interrupted() -> None:
    """Raise, asked by C++ where a callback has given nothing, if it was interrupted."""
    _raise_lost()
