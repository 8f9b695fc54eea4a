# SPDX-License-Identifier: Apache-2.0
"""Seconds that several tasks share: what the next one may take, and what is left after it.

A task that hangs must not use up what others are due, and waiting for the CPUs, which another
search may have, is nobody's time. Test: tuner/test_budget.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ..machine.cpu_lock import OnWait, cpus_for_building, cpus_for_measuring

# One task may take so many times its equal share of the time left, and always so many seconds.
_SHARES, _LEAST_SECONDS = 2.0, 30.0


class Budget:
    """`left`: seconds, which may be below 0 where the last task took longer than it was given.
    is_timed_here: whether tasks time kernels on these CPUs, beside which nothing else may run."""

    def __init__(self, seconds: float, is_timed_here: bool = True) -> None:
        self.left = seconds
        self._is_timed_here = is_timed_here

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def limit(self, tasks_left: int) -> float:
        """Seconds for the next of so many tasks."""
        fair = _SHARES * self.left / tasks_left
        return max(0.0, min(self.left, max(fair, _LEAST_SECONDS)))

    @contextlib.contextmanager
    def spending(self, on_wait: OnWait | None = None) -> Iterator[None]:
        """The CPUs for the block, whose seconds are taken off; `on_wait` is told of waiting."""
        cpus = cpus_for_measuring if self._is_timed_here else cpus_for_building
        with cpus(on_wait):
            start = time.monotonic()
            try:
                yield
            finally:
                self.left -= time.monotonic() - start
