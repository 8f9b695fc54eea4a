# SPDX-License-Identifier: Apache-2.0
"""Disturbance by other work of what is measured on this machine. Test: machine/test_load.py.

A cost's interval cannot show it: while another process holds a core, each start of a parallel loop
may wait for it, every time alike. So it is looked how much of the CPUs that this process may use
others took, from the kernel's counters of each CPU (/proc/stat): what a busy host does elsewhere is
no harm, what its other guests take from these CPUs (steal) is.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tvm_collage.threads import cores_of

_logger = logging.getLogger(__name__)

# CPUs' worth of time over the cores that our threads leave free, from which others disturb: less is
# what a system does by itself, and what the counters' grain of 10 ms may be wrong by.
_DISTURBING = 0.25
# What a look takes, and the least time that counters are compared over.
_LOOK_SECONDS, _LEAST_SECONDS = 0.1, 0.2
# Runnable processes a core from which no core is free, where there are no counters.
_BUSY = 1.0


class Usage(NamedTuple):
    """Seconds of the CPUs."""

    clock: float  # that have passed
    worked: float  # that the allowed CPUs have worked for anybody
    own: float  # of these, those for our own processes


class LoadMeter:
    """A meter of what others take of the CPUs that this process may use, while it measures.

    `workers()` gives the ids of the processes that work for this one.
    """

    def __init__(
        self,
        workers: Callable[[], Iterable[int]] = lambda: (),
        read: Callable[[Iterable[int]], Usage | None] | None = None,
    ) -> None:
        self._workers, self._read = workers, read or read_usage
        self._before: Usage | None = None
        self._last = 0.0

    def look(self) -> float:
        """Return the load of the next tenth of a second, in which nothing of ours should run."""
        before = self._read(self._workers())
        if before is not None:
            time.sleep(_LOOK_SECONDS)
        self._before = self._read(self._workers())
        if before is None or self._before is None or self._before.worked < before.worked:
            self._before, self._last = None, load_by_average()
        else:
            self._last = load_between(before, self._before)
        return self._last

    def begin(self) -> None:
        """Begin the time that load() tells of next, in which our own work may run."""
        self._before = self._read(self._workers())
        self._last = load_by_average() if self._before is None else 0.0

    def load(self) -> float:
        """Return the load since this was last asked, or of a fifth of a second at least; 0 for one
        that leaves the cores that we use alone, else the share of all allowed CPUs."""
        if self._before is not None:
            now = self._read(self._workers())
            if now is not None and now.clock - self._before.clock >= _LEAST_SECONDS:
                self._last = load_between(self._before, now)
                self._before = now
        return self._last


def load_between(before: Usage, after: Usage) -> float:
    """Return the share of the allowed CPUs that others took; 0 where they left our threads
    alone."""
    seconds = after.clock - before.clock
    others = (after.worked - before.worked) - (after.own - before.own)
    cpus = os.sched_getaffinity(0)
    free = max(0, len(cores_of(cpus)) - _threads(len(cpus)))
    if seconds <= 0 or others / seconds < free + _DISTURBING:
        return 0.0
    return min(1.0, others / seconds / len(cpus))


def read_usage(workers: Iterable[int], root: str = "/") -> Usage | None:
    """Return the counters of now; None where the kernel does not tell of each allowed CPU."""
    try:
        lines = Path(root, "proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    rows = [line.split() for line in lines if line.startswith("cpu")]
    wanted = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    found = [list(map(int, row[1:9])) for row in rows if row[0] in wanted]
    if len(found) < len(wanted) or not any(map(sum, found)):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal
    worked = sum(sum(row[:3]) + sum(row[5:]) for row in found) / ticks()
    own = sum(os.times()[:4]) + sum(_seconds_of(pid, root) for pid in workers)
    return Usage(time.monotonic(), worked, own)


def _seconds_of(pid: int, root: str) -> float:
    """Return CPU seconds of a process and of those that it started and that have ended; 0 once it
    is reaped, since they are then this process's."""
    try:
        text = Path(root, f"proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / ticks()


def ticks() -> int:
    """Return how many of the kernel's ticks are a second."""
    return os.sysconf("SC_CLK_TCK")


def load_by_average() -> float:
    """Return the load where there are no counters: the last minute's runnable processes by the
    allowed CPUs, where that leaves no core free, as a share of 1 at most; else 0."""
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return min(1.0, load) if load > _BUSY else 0.0


def warn_if_busy(loads: list[float], measured: int) -> bool:
    """Say so when costs were measured while others took the CPUs; `loads` are theirs."""
    if not loads:
        return False
    _logger.warning(
        "the machine was busy: while %d of %d costs were measured others took up to %.0f %% of the "
        "CPUs; search again when `collage doctor` finds it quiet",
        len(loads),
        measured,
        100 * max(loads),
    )
    return True


def _threads(cpus: int) -> int:
    text = os.environ.get("TVM_NUM_THREADS", "").strip()
    return int(text) if text.isdecimal() else cpus
