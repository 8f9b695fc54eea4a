# SPDX-License-Identifier: Apache-2.0
"""TVM's DispatchContexts of AutoTVM and Ansor, entered for one thread's builds alone.

TVM keeps the innermost one in a class: a context that two threads leave in another order than they
entered it would serve all later builds. Test: process_wide/test_shared_patch.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ..process_wide.shared_patch import SharedPatch


class _Entered(threading.local):
    """The contexts that a thread has entered, innermost last."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []


class _OfThreads:
    """What stands in TVM's class for the contexts of several threads."""

    def here(self) -> Any:
        """This thread's own context, or what was in force before."""
        raise NotImplementedError


def of_this_thread(context: Any) -> Any:
    """The context that this thread's builds ask where `context` is what TVM has in force."""
    return context.here() if isinstance(context, _OfThreads) else context


class ThreadContexts:
    """The contexts of one of TVM's two classes ``DispatchContext``."""

    def __init__(self, base: Any) -> None:
        self._base = base
        entered = self._entered = _Entered()

        class Dispatcher(_OfThreads, base):
            """Hands over to the thread's own context, or to what was in force before."""

            def here(self) -> Any:
                return entered.contexts[-1] if entered.contexts else self._old_ctx

            def query(self, *args: Any) -> Any:
                return self.here().query(*args)

            def update(self, *args: Any) -> None:
                self.here().update(*args)

        # A context takes what is in force for the one around it when it is made.
        self._patch = SharedPatch.of_attribute(base, "current", lambda _: Dispatcher())

    @contextlib.contextmanager
    def entered(self, context: Any) -> Iterator[Any]:
        """Context in which this thread's builds find ``context`` first; gives it."""
        with self._patch.inside() as dispatcher:
            context._old_ctx = dispatcher.here()
            self._entered.contexts.append(context)
            try:
                yield context
            finally:
                self._entered.contexts.remove(context)

    def in_force(self) -> Iterator[Any]:
        """Those that a build in this thread would ask, innermost first."""
        context = self._base.current
        while context is not None:
            if isinstance(context, _OfThreads):
                context = context.here()
            else:
                yield context
                context = context._old_ctx
