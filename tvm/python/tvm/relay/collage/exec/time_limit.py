# SPDX-License-Identifier: Apache-2.0
"""The time limit of a compile, and how much of it each of its phases has.

A phase may use what those before it have left. Time in which other searches had the CPUs is not
counted. Test: exec/test_time_limit.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..errors import CollageError
from ..machine.cpu_lock import seconds_waited

# By which part of the whole time a phase ends. The first answer is there before anything is
# searched, so whatever ends early ships that. Layout transforms come before all other costs of the
# search, of which there must be some. It asks for no further costs from ASKED on, but for those
# that a plan needs; what still runs at SEARCHED is killed, and what a plan lacks then is guessed.
PREPARED, FIRST_ANSWER, KERNELS, TRANSITIONS = 0.1, 0.25, 0.3, 0.33
ASKED, SEARCHED, WHOLE_PLANS, BUILT = 0.45, 0.55, 0.65, 0.85


class TimeIsUpError(CollageError, RuntimeError):
    """The end of the time for what was being done: the compile goes on with what is known."""


class TimeLimit:
    """A limit in seconds from now on, of the thread that makes it; 0 for none."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_set = seconds > 0
        self._seconds, self._clock = seconds or math.inf, clock
        self._began = clock() - seconds_waited()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds until that share of the limit is over: none or less once it is,
        infinitely many without a limit."""
        return share * self._seconds - (self._clock() - seconds_waited() - self._began)

    def check(self, share: float) -> None:
        """TimeIsUpError when that share of the limit is over."""
        if self.left(share) <= 0:
            raise TimeIsUpError(f"the time limit of {self._seconds:g} s leaves no more time for it")


NO_LIMIT = TimeLimit(0)
