# SPDX-License-Identifier: Apache-2.0
"""TVM's DispatchContexts of AutoTVM and Ansor, entered for one thread's builds alone.

Test: process_wide/test_shared_patch.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import autotvm
from tvm.autotvm.task.dispatcher import FallbackContext

from .apply import ScopedFix

# What of a PassContext has TVM look records of Ansor and MetaSchedule up.
_RECORDS = ("relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule")


class _Entered(threading.local):
    """The contexts that a thread has entered, innermost last."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []


class _OfThreads:
    """A stand-in, in TVM's class, for the contexts of several threads."""

    def here(self) -> Any:
        """Return this thread's own context, or what was in force before."""
        raise NotImplementedError


def of_this_thread(context: Any) -> Any:
    """Return the context that this thread's builds ask where TVM has `context` in force."""
    return context.here() if isinstance(context, _OfThreads) else context


def looks_up_records() -> bool:
    """Tell whether this thread's builds use records of a tuner."""
    config = tvm.transform.PassContext.current().config
    context = of_this_thread(autotvm.task.DispatchContext.current)
    return any(config.get(name) for name in _RECORDS) or not isinstance(context, FallbackContext)


class ThreadContexts:
    """The contexts of one of TVM's two classes ``DispatchContext``, which a row is about."""

    def __init__(self, row: str, base: Any) -> None:
        self._base = base
        entered = self._entered = _Entered()

        class Dispatcher(_OfThreads, base):
            """A context that asks the thread's own, or what was in force before."""

            def here(self) -> Any:
                return entered.contexts[-1] if entered.contexts else self._old_ctx

            def query(self, *args: Any) -> Any:
                return self.here().query(*args)

            def update(self, *args: Any) -> None:
                self.here().update(*args)

        # A context takes what is in force for the one around it when it is made.
        self._fix = ScopedFix(row, lambda _: Dispatcher())

    @contextlib.contextmanager
    def entered(self, context: Any) -> Iterator[Any]:
        """Have this thread's builds find ``context`` first in the block; give it."""
        with self._fix.inside() as [dispatcher]:
            context._old_ctx = dispatcher.here()
            self._entered.contexts.append(context)
            try:
                yield context
            finally:
                self._entered.contexts.remove(context)

    def in_force(self) -> Iterator[Any]:
        """Give those that a build in this thread would ask, innermost first."""
        context = self._base.current
        while context is not None:
            if isinstance(context, _OfThreads):
                context = context.here()
            else:
                yield context
                context = context._old_ctx
