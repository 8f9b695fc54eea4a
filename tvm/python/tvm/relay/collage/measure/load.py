# SPDX-License-Identifier: Apache-2.0
"""Whether other work disturbs what is measured on this machine. Test: test_measure_load.py.

A cost's interval cannot show it: while another process holds a core, each start of a parallel loop
may wait for it, every time alike.
"""

from __future__ import annotations

import logging
import os
import time

_logger = logging.getLogger(__name__)

# Runnable processes a core from which no core is free.
BUSY = 1.0
# How others' processes of this moment are counted.
_READINGS, _SECONDS_APART = 10, 0.01


def load_per_core() -> float:
    """Runnable processes by the CPUs that this process may use, this one left out.

    The last minute's average; where that leaves no core free, the present if it is less, since a
    search that has just ended raised the average by its own workers.
    """
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0] / cores
    return min(load, _running_now() / cores) if is_busy(load) else load


def _running_now(path: str = "/proc/stat") -> float:
    """Runnable processes but this one, the mean of a tenth of a second; infinite if none tells."""
    counts = []
    for _ in range(_READINGS):
        time.sleep(_SECONDS_APART)
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file]
        except OSError:
            return float("inf")
        counts += [int(row[1]) - 1 for row in rows if row[:1] == ["procs_running"]]
    return sum(counts) / len(counts) if counts else float("inf")


def is_busy(load: float) -> bool:
    """Whether a load (by core) leaves no core free."""
    return load > BUSY


def warn_if_busy(load: float, measured: int) -> bool:
    """Say so when costs were measured from a load (by core) on that leaves no core free."""
    if not measured or not is_busy(load):
        return False
    _logger.warning(
        "the machine was busy with %.1f processes a core when measuring began: %d costs may be "
        "many times too high, and their intervals do not show it. The store marks them; the next "
        "search that finds the machine quiet measures them again. `collage doctor` shows the "
        "machine's noise",
        load,
        measured,
    )
    return True
