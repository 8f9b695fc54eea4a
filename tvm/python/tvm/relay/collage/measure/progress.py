# SPDX-License-Identifier: Apache-2.0
"""The counts of a measurement under way, as progress shows them.
Test: messages/test_progress.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from ..costs.cost import Cost
from ..messages.progress import Phase, ProgressView, make_view


class Progress:
    """Counts of one measuring session, told to a view after each change.

    total: distinct candidates to measure, as far as they were asked for; cached: candidates
    answered from memory; stored: distinct candidates answered by the store; built, done (measured
    or failed), failed. The time between two calls of estimate(), in which the search looks for what
    to ask for next, counts within searching() alone.
    """

    def __init__(
        self, view: ProgressView | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._phase = Phase("measuring", view or ProgressView(), clock, is_open=True)
        self.total = self.cached = self.stored = self.built = self.done = self.failed = 0
        self._changed()  # The phase counts its steps from here, and its time from begin().
        self._phase.pause()
        self._is_searching = False
        self._hiding = 0  # blocks that hide it

    @contextlib.contextmanager
    def searching(self) -> Iterator[None]:
        """Show a search at work for the block, between its questions too."""
        self._is_searching = True
        self._phase.resume()
        self._changed()
        try:
            yield
        finally:
            self._is_searching = False
            self._phase.pause()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Show nothing for the block, in which other work is shown, nor for those inside it."""
        self._hiding += 1
        if self._is_searching and self._hiding == 1:
            self._phase.pause()
        try:
            yield
        finally:
            self._hiding -= 1
            if self._is_searching and not self._hiding:
                self._phase.resume()
                self._changed()

    def begin(self, total: int, cached: int, stored: int = 0) -> None:
        """Begin a call of estimate(): add what it asks to the counts."""
        if not self._is_searching:
            self._phase.resume()
        self.total += total
        self.cached += cached
        self.stored += stored
        self._changed()

    def on_built(self) -> None:
        """Count a candidate that was built."""
        self.built += 1
        self._changed()

    def on_cost(self, cost: Cost) -> None:
        """Count a candidate whose cost is known: measured, or failed on the way."""
        self.done += 1
        self.failed += cost.is_failure
        self._changed()

    def on_wait(self, text: str) -> None:
        """Others have the CPUs, and nothing can be done meanwhile."""
        self._changed(text, is_waiting=True)

    def end(self) -> None:
        """End the call, by an exception too."""
        if not self._is_searching:
            self._phase.pause()

    def close(self) -> None:
        """End the session, by an exception too."""
        self._phase.end()

    def _changed(self, what: str = "", is_waiting: bool = False) -> None:
        names = ("total", "cached", "stored", "built", "done", "failed")
        known = {"from memory": self.cached, "from the store": self.stored, "failed": self.failed}
        told = [f"{count} {where}" for where, count in known.items() if count]
        text = ", ".join(filter(None, [f"{self.done}/{self.total} candidates so far", *told, what]))
        # A build and a measurement count as half a candidate each.
        self._phase.update(
            self.built + self.done,
            2 * self.total,
            text,
            {name: getattr(self, name) for name in names},
            is_waiting,
        )


def make_progress(kind: str = "auto") -> Progress:
    """Progress on standard error, of one of progress.KINDS."""
    return Progress(make_view(kind))
