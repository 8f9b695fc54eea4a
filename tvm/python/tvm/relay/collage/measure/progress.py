# SPDX-License-Identifier: Apache-2.0
"""How measuring reports its progress: a rich bar, JSON lines, or nothing.

Test: test_measure_progress.py.

Whatever takes under a second is not shown.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from .cost import Cost

_QUIET_SECONDS = 1.0


class Progress:
    """Counts of one estimate() call; this class itself shows nothing.

    total: distinct candidates to measure; cached: candidates answered from memory; stored: distinct
    candidates answered by the store. Subclasses show the
    counts in show(), which comes after each change once a second has passed, and in hide().
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._is_shown = False
        self.total = self.cached = self.stored = self.built = self.done = self.failed = 0

    def begin(self, total: int, cached: int, stored: int = 0) -> None:
        self._began = self._clock()
        self._is_shown = False
        self.total, self.cached, self.stored = total, cached, stored
        self.built = self.done = self.failed = 0

    def on_built(self) -> None:
        """A candidate was built."""
        self.built += 1
        self._changed()

    def on_cost(self, cost: Cost) -> None:
        """A candidate's cost is known: measured, or failed on the way."""
        self.done += 1
        self.failed += cost.is_failure
        self._changed()

    def end(self) -> None:
        """The call ends, by an exception too."""
        if self._is_shown:
            self.show()
            self.hide()
        self._is_shown = False

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def eta_seconds(self) -> float | None:
        """Seconds to go, a build and a measurement counted as half a candidate each."""
        steps = self.built + self.done
        left = 2 * self.total - steps
        return self.seconds * left / steps if steps else None

    def show(self) -> None:
        """Show the counts."""

    def hide(self) -> None:
        """Leave the terminal as it was, but for a last line."""

    def _changed(self) -> None:
        if self._is_shown or self.seconds >= _QUIET_SECONDS:
            self._is_shown = True
            self.show()


class JsonLinesProgress(Progress):
    """One JSON object a line: the counts, seconds, eta_seconds."""

    def __init__(self, stream: TextIO | None = None, clock=time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream

    def show(self) -> None:
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("total", "cached", "stored", "built", "done", "failed")
        }
        fields["seconds"] = round(self.seconds, 3)
        eta = self.eta_seconds
        fields["eta_seconds"] = None if eta is None else round(eta, 3)
        print(json.dumps(fields), file=self._stream or sys.stderr, flush=True)


class RichProgress(Progress):
    """A bar on the terminal. ImportError at once when rich is not installed."""

    def __init__(self, console: Any = None, clock=time.monotonic) -> None:
        super().__init__(clock)
        import rich.console

        self._console = console or rich.console.Console(stderr=True)
        self._bar: Any = None

    def show(self) -> None:
        if self._bar is None:
            self._bar = self._make_bar()
            self._bar.start()
            self._task = self._bar.add_task("measuring", total=2 * self.total, counts="")
        text = f"{self.done}/{self.total} candidates, {self.cached} in memory, "
        text += f"{self.stored} stored, {self.failed} failed"
        self._bar.update(self._task, completed=self.built + self.done, counts=text)

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _make_bar(self) -> Any:
        from rich import progress

        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[counts]}"),
            progress.TimeRemainingColumn(),
            progress.TimeElapsedColumn(),
            console=self._console,
        )


def make_progress(kind: str = "auto") -> Progress:
    """ "quiet", "rich", "json", or "auto": rich on a terminal that has it, else quiet."""
    if kind == "json":
        return JsonLinesProgress()
    if kind == "rich" or (kind == "auto" and sys.stderr.isatty()):
        try:
            return RichProgress()
        except ImportError:
            if kind == "rich":
                raise
    elif kind not in ("quiet", "auto"):
        raise ValueError(f"progress is one of auto, quiet, rich, json, not {kind!r}")
    return Progress()
