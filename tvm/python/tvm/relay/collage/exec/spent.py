# SPDX-License-Identifier: Apache-2.0
"""The ledger of a search's time: wall and CPU seconds by phase, here and inside the workers.

Nothing is recorded outside `recording()`, which bench/measuring.py and each worker's request use.
Phases never overlap: what an inner phase takes is not part of the outer one, and an inner phase's
name begins with the outer one's: "build/store". Test: exec/test_spent.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Iterator, Sequence

# What no phase names.
OTHER = "other"


class Spent:
    """[wall seconds, CPU seconds of the process] by phase.

    phases: of this process; all together they are the time since the recording began. workers: of
    worker processes, as they told with their replies; several workers' add up.
    """

    def __init__(self) -> None:
        self.phases: dict[str, list[float]] = {}
        self.workers: dict[str, list[float]] = {}
        self._open = [OTHER]
        self._mark = _now()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's time as phase `name`, but for inner phases'."""
        self.stop()
        is_inner = len(self._open) > 1
        self._open.append(f"{self._open[-1]}/{name}" if is_inner else name)
        try:
            yield
        finally:
            self.stop()
            self._open.pop()

    def stop(self) -> None:
        """Charge what has passed to the phase at hand."""
        now = _now()
        _add(self.phases, self._open[-1], [now[k] - self._mark[k] for k in (0, 1)])
        self._mark = now

    def add_workers(self, phases: object) -> None:
        """Add what a worker's reply says that it spent; nonsense, which a candidate may have
        written, is left out."""
        for name, seconds in phases.items() if isinstance(phases, dict) else ():
            if isinstance(seconds, list) and [type(value) for value in seconds] == [float] * 2:
                _add(self.workers, name, seconds)


_active: contextvars.ContextVar[Spent | None] = contextvars.ContextVar(
    "collage_spent", default=None
)


@contextlib.contextmanager
def recording() -> Iterator[Spent]:
    """Record phases for the block, in this thread; a recording inside another is its own."""
    spent = Spent()
    token = _active.set(spent)
    try:
        yield spent
    finally:
        _active.reset(token)
        spent.stop()


def phase(name: str) -> contextlib.AbstractContextManager[None]:
    """Spent.phase of the recording at hand; nothing when there is none."""
    spent = _active.get()
    return contextlib.nullcontext() if spent is None else spent.phase(name)


def add_workers(phases: object) -> None:
    """Spent.add_workers of the recording at hand; nothing when there is none."""
    spent = _active.get()
    if spent is not None:
        spent.add_workers(phases)


def _add(sums: dict[str, list[float]], name: str, seconds: Sequence[float]) -> None:
    total = sums.setdefault(name, [0.0, 0.0])
    for k in (0, 1):
        total[k] += seconds[k]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
