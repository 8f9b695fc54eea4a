# SPDX-License-Identifier: Apache-2.0
"""How far the memory of this process rises above what it holds. Test: bench/test_search.py."""

import ctypes
import gc
import resource
from pathlib import Path


class PeakMemory:
    """MB by which resident memory has been above what it was here.

    What was freed before goes back to the system first, where glibc can do that, so that it cannot
    hide what comes. Without Linux's /proc the peak counts from the process's highest mark so far.
    """

    def __init__(self) -> None:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status_kilobytes("VmRSS")
        except OSError:
            self._before = None
            self._highest_before = _highest_kilobytes()

    def megabytes(self) -> float:
        """The peak so far."""
        if self._before is None:
            return (_highest_kilobytes() - self._highest_before) / 1024
        return (_status_kilobytes("VmHWM") - self._before) / 1024


def _status_kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(field + ":")]
    return int(line.split()[1])


def _highest_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
