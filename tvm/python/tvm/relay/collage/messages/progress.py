# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: a rich bar, lines of text, lines of JSON, or nothing.

All goes to standard error. Docs: docs/tools.md. Test: messages/test_progress.py.

What takes under a second shows nothing; a log gets a line of text now and then, since a bar needs a
terminal.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TextIO

from tvm_collage.supervisor import note
from tvm_collage.words import PROGRESS

_QUIET_SECONDS = 1.0
# Between two times that the same is told, so that people see that work goes on.
_TOLD_SECONDS = 1.0
# Between two lines of JSON.
_JSON_SECONDS = 1.0
# Between two lines of text, and before the first.
_LINE_SECONDS = 10.0


class State(NamedTuple):
    """The state of a phase."""

    phase: str
    done: int  # steps
    total: int  # steps
    text: str  # for people
    counts: Mapping[str, Any]  # for JSON
    seconds: float  # since the phase began
    # to its end, None while nothing is known: in a phase whose steps are counted as it goes, before
    # a first step was done, and while others have the CPUs
    eta_seconds: float | None


class _Best(NamedTuple):
    plan: str
    seconds: float
    text: str


# What ships if the work of this context ends early; None while nobody knows.
_best: contextvars.ContextVar[_Best | None] = contextvars.ContextVar("collage_best", default=None)


@contextlib.contextmanager
def best_so_far(plan: str, seconds: float, text: str) -> Iterator[None]:
    """Have each phase that begins in the block tell which plan is the best so far, and what a run
    of it takes; `text` says both for people."""
    token = _best.set(_Best(plan, seconds, text))
    try:
        yield
    finally:
        _best.reset(token)


class ProgressView:
    """Shows states; this class shows nothing."""

    def show(self, state: State) -> None:
        """Show the state, if it is time to."""

    def hide(self) -> None:
        """Leave the terminal as it was: the phase pauses, or ends."""

    def end(self) -> None:
        """Tell what was kept back: the phase has ended, by an exception too."""


class JsonLines(ProgressView):
    """One JSON object a second, and one of a phase's last state; docs/progress.schema.json."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._next = 0.0
        self._kept: State | None = None  # came too soon after the last line

    def show(self, state: State) -> None:
        if state.seconds < self._next:
            self._kept = state
        else:
            self._print(state)

    def end(self) -> None:
        if self._kept is not None:
            self._print(self._kept)

    def _print(self, state: State) -> None:
        self._kept = None
        self._next = state.seconds + _JSON_SECONDS
        eta = state.eta_seconds
        line = {
            "phase": state.phase,
            **state.counts,
            "seconds": round(state.seconds, 3),
            "eta_seconds": None if eta is None else round(eta, 3),
        }
        print(json.dumps(line), file=self._stream, flush=True)


class TextLines(ProgressView):
    """A line of text every ten seconds of a phase, or since the last line of another."""

    # Of all phases of the process: when the last line was printed, and when the last phase ended.
    _told_at = _ended_at = -math.inf

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._next = _LINE_SECONDS
        begun = clock()
        # One phase after another is one piece of work to those who wait.
        follows = begun - TextLines._ended_at < _LINE_SECONDS
        self._since = TextLines._told_at if follows else begun

    def show(self, state: State) -> None:
        now = self._clock()
        if state.seconds < self._next and now - self._since < _LINE_SECONDS:
            return
        self._next, self._since = state.seconds + _LINE_SECONDS, now
        TextLines._told_at = now
        print(f"collage: {state.phase}: {_text(state)}", file=self._stream, flush=True)

    def end(self) -> None:
        TextLines._ended_at = self._clock()
        TextLines._told_at = max(TextLines._told_at, self._since)


class RichBar(ProgressView):
    """A bar on a terminal. ImportError at once when rich is not installed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        import rich.console

        self._console = rich.console.Console(file=stream or sys.stderr)
        self._bar: Any = None

    def show(self, state: State) -> None:
        if self._bar is None:
            self._bar = self._make_bar()
            self._bar.start()
            self._console.show_cursor()  # whoever ends the process at once leaves it so
            self._task = self._bar.add_task(state.phase, total=state.total, text="")
        self._bar.update(self._task, completed=state.done, total=state.total, text=_text(state))

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _make_bar(self) -> Any:
        from rich import progress

        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[text]}"),
            console=self._console,
            transient=True,
        )


def _text(state: State) -> str:
    left = round(state.eta_seconds or 0)
    return f"{state.text}, {state.seconds:.0f} s" + (f", about {left} s to go" if left else "")


def make_view(kind: str = "auto", stream: TextIO | None = None) -> ProgressView:
    """Make a view on `stream`, by default standard error, of one of words.PROGRESS.

    auto is a bar where the stream is a terminal and rich is installed, else lines of text.
    """
    if kind not in PROGRESS:
        raise ValueError(f"progress is one of {', '.join(PROGRESS)}, not {kind!r}")
    stream = stream or sys.stderr
    if stream is None:  # standard error is closed; print() would take standard output instead
        return ProgressView()
    if kind == "rich" or (kind == "auto" and stream.isatty()):
        try:
            return RichBar(stream)
        except ImportError:
            if kind == "rich":
                raise
    return {"json": JsonLines, "quiet": lambda _: ProgressView()}.get(kind, TextLines)(stream)


class Phase:
    """One piece of work on a clock: tells a view how far it is, once a second has passed, and again
    every so many seconds while nothing changes, from a thread of its own.

    It may pause: then the view is hidden and the clock stands still until it resumes, and nothing
    is told until the next update. The time left is told by what the steps done took, without the
    time in which others had the CPUs. Steps that the first update tells as done already took none
    of it, and steps of another kind, which count from the beginning again, tell nothing of each
    other. is_open: more steps may come than are known, so that nobody can tell the time left.
    """

    def __init__(
        self,
        name: str,
        view: ProgressView,
        clock: Callable[[], float] = time.monotonic,
        is_open: bool = False,
        every: float = _TOLD_SECONDS,
    ) -> None:
        self._name, self._view, self._clock, self._every = name, view, clock, every
        self._best = _best.get()
        self._is_open = is_open
        self._before = 0.0  # seconds up to the last pause
        self._began: float | None = clock()  # None in a pause
        self._is_shown = False
        self._last: _Update | None = None
        self._first = 0  # done when steps of this kind began
        self._not_worked = 0.0  # seconds of waiting, and before steps of this kind began
        self._worked = 0.0  # seconds without those, when a step was done last
        self._waited_at: float | None = None  # when it was told last, if nothing was done since
        self._lock = threading.RLock()  # the worker's thread and the teller's both show
        self._teller: tuple[threading.Thread, threading.Event] | None = None

    def update(
        self, done: int, total: int, text: str, counts: Mapping[str, Any], is_waiting: bool = False
    ) -> None:
        """Tell that so many steps of all are done; `text` and `counts` say it for people and in
        JSON. is_waiting: others have the CPUs, which is told again and again until they let go."""
        note(f"{self._name} ({text})")
        with self._lock:
            seconds = self._seconds()
            if is_waiting and self._waited_at is not None:
                self._not_worked += seconds - self._waited_at
            self._waited_at = seconds if is_waiting else None
            was_done = self._last and self._last.done
            if self._last is None or done < self._last.done or done == self._first:
                self._first, self._not_worked = done, seconds
            if done != was_done:
                self._worked = seconds - self._not_worked
            self._last = _Update(done, total, text, counts=counts, is_waiting=is_waiting)
            self._show()
            if self._teller is None and self._began is not None:
                is_over = threading.Event()
                thread = threading.Thread(target=self._tell_until, args=(is_over,), daemon=True)
                self._teller = thread, is_over
                thread.start()

    def pause(self) -> None:
        try:
            if self._teller is not None:
                thread, is_over = self._teller
                is_over.set()
                thread.join()
                self._teller = None
        finally:
            self._hide()

    def _hide(self) -> None:
        with self._lock:
            self._before, self._began = self._seconds(), None
            if self._is_shown:
                self._view.hide()
            self._is_shown = False

    def resume(self) -> None:
        with self._lock:
            self._began = self._clock()

    def end(self) -> None:
        note("")
        self.pause()
        self._view.end()

    def _seconds(self) -> float:
        return self._before + (0.0 if self._began is None else self._clock() - self._began)

    def _show(self) -> None:
        """Show the last update, as of now."""
        if self._last is None or self._began is None:
            return
        seconds, (done, total, text, counts, is_waiting) = self._seconds(), self._last
        worked = done - self._first
        eta = None
        if worked > 0 and not is_waiting and not self._is_open:
            since = seconds - self._not_worked - self._worked
            left = self._worked * (total - done) / worked - since
            eta = left if left >= 0 else None  # a step that takes longer than those before it
        if self._best is not None:
            text += f"; best so far: {self._best.text}"
            counts = {**counts, "best": {"plan": self._best.plan, "seconds": self._best.seconds}}
        if self._is_shown or seconds >= _QUIET_SECONDS:
            self._is_shown = True
            self._view.show(
                State(
                    self._name,
                    done,
                    total,
                    text=text,
                    counts=counts,
                    seconds=seconds,
                    eta_seconds=eta,
                )
            )

    def _tell_until(self, is_over: threading.Event) -> None:
        # Nobody can be told where standard error is closed.
        with contextlib.suppress(OSError, ValueError):
            while not is_over.wait(self._every):
                with self._lock:
                    self._show()


class _Update(NamedTuple):
    done: int
    total: int
    text: str
    counts: Mapping[str, Any]
    is_waiting: bool


@contextlib.contextmanager
def phase(
    name: str,
    view: ProgressView,
    clock: Callable[[], float] = time.monotonic,
    is_open: bool = False,
    every: float = _TOLD_SECONDS,
) -> Iterator[Phase]:
    """Open a Phase that ends with the block."""
    running = Phase(name, view, clock, is_open=is_open, every=every)
    try:
        yield running
    finally:
        running.end()


class OnStep(Protocol):
    """Called with what is done next, steps done and steps in all. is_waiting: see Phase.update."""

    def __call__(self, step: str, done: int, total: int, is_waiting: bool = False) -> None: ...


def untold(step: str, done: int, total: int, is_waiting: bool = False) -> None:
    """Show nothing, as an OnStep."""


def waiting(on_step: OnStep, done: int, total: int) -> Callable[[str], None]:
    """Tells that the next step waits for the CPUs, as those who wait for them call it."""
    return lambda text: on_step(text, done, total, is_waiting=True)


@contextlib.contextmanager
def steps(
    name: str,
    kind: str = "auto",
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
    is_open: bool = False,
) -> Iterator[OnStep]:
    """Yield an OnStep that shows the steps of a phase, by a kind of PROGRESS; see Phase."""
    with phase(name, make_view(kind, stream), clock, is_open=is_open) as running:

        def on_step(step: str, done: int, total: int, is_waiting: bool = False) -> None:
            counts = {"step": step, "done": done, "total": total}
            text = step if total == 1 else f"{step}, {done}/{total}"
            running.update(done, total, text, counts, is_waiting)

        yield on_step


@contextlib.contextmanager
def one_step(
    name: str, step: str, kind: str = "auto", stream: TextIO | None = None
) -> Iterator[None]:
    """Show a phase that is the block, a single step which tells nothing meanwhile."""
    with steps(name, kind, stream) as on_step:
        on_step(step, 0, 1)
        yield


def steps_untold() -> contextlib.AbstractContextManager[OnStep]:
    """Return the same for work that nobody watches."""
    return contextlib.nullcontext(untold)
