# SPDX-License-Identifier: Apache-2.0
"""The memory that a process holds, and that there is for it (Linux).

Test: machine/test_memory.py.

Limits of the address space are no use here: runtimes reserve far more of it than they touch.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

# What a worker may hold unless told otherwise; the rest is the user's process and the system's.
_SHARE = 0.8
# Where a process's own limit stands, by the cgroup controller in /proc/self/cgroup ("" is v2).
_CGROUP_FILES = {
    "": "sys/fs/cgroup{path}/memory.max",
    "memory": "sys/fs/cgroup/memory{path}/memory.limit_in_bytes",
}


def resident_bytes(pid: int) -> int:
    """Return the memory that the process holds; 0 when that cannot be told (it has ended; no
    Linux)."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """Have peak_bytes count from now on; where the system cannot, it counts from this process's
    start."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the most memory that this process has held; 0 when that cannot be told (no Linux)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    kilobytes = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return 1024 * next(kilobytes, 0)


@functools.cache
def default_limit() -> int:
    """Return four fifths of the memory of this machine, or of the container that we are in."""
    return int(_SHARE * available_bytes())


def available_bytes(root: str = "/") -> int:
    """Return the machine's memory, or the least limit of the cgroups above this process."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        pattern = _CGROUP_FILES.get(controllers)
        if pattern is None:
            continue
        for folder in (path, *map(str, Path(path).parents)):
            try:
                text = Path(root, pattern.format(path=folder.rstrip("/"))).read_text().strip()
            except OSError:
                continue  # a container may not see the folders that its path names
            if text.isdecimal():  # else "max"
                limits.append(int(text))
    return min(limits)


def be_first_to_go() -> None:
    """Have the kernel end this process, and what it forks, before others when memory is out."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # no Linux, or not allowed
