# SPDX-License-Identifier: Apache-2.0
"""Whether other work disturbs what is measured on this machine. Test: test_measure_load.py.

A cost's interval cannot show it: while another process holds a core, each start of a parallel loop
may wait for it, every time alike.
"""

from __future__ import annotations

import logging
import os

_logger = logging.getLogger(__name__)

# Runnable processes a core, as the system averages them over a minute.
_BUSY = 1.0


def load_per_core() -> float:
    """The machine's load of the last minute by the CPUs that this process may use."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def warn_if_busy(load: float, measured: int) -> bool:
    """Say so when costs were measured from a load (by core) on that leaves no core free."""
    if not measured or load <= _BUSY:
        return False
    _logger.warning(
        "the machine was busy with %.1f processes a core when measuring began: %d costs may be "
        "many times too high, their intervals do not show it, and they are kept; `collage doctor` "
        "shows the machine's noise, `collage store prune --older-than 0` forgets them",
        load,
        measured,
    )
    return True
