# SPDX-License-Identifier: Apache-2.0
"""Threads that this process should use, physical cores it may run on, and what these are.

Reads only the affinity mask, /sys (siblings of a core, caches, memory nodes) and /proc,
/sys/fs/cgroup (CPU quota, of version 1 and 2). Every function takes the file system's root, so that
tests can fake a machine. Test: tvm_collage/test_hook.py.
"""

import os
from typing import NamedTuple

_CPU = "sys/devices/system/cpu/cpu{}"


def default_threads(root: str = "/", cpus: set[int] | None = None) -> int:
    """Return the number of physical cores allowed by affinity mask and cgroup quota, at least 1.

    ``cpus`` are the logical CPUs of the mask; by default the calling thread's mask.
    """
    allowed = os.sched_getaffinity(0) if cpus is None else cpus
    cores = cores_of(allowed, root)
    quota = cgroup_quota(root)
    # Rounded down: one spinning thread more than the quota is throttled together with the rest.
    limit = len(cores) if quota is None else min(len(cores), int(quota))
    return max(1, limit)


class CpuSet(NamedTuple):
    """The facts about a set of CPUs that decide how fast threads are on it; numbers, not which they
    are."""

    cpus: int  # logical ones
    cores: int  # physical ones
    nodes: int  # memory nodes that they belong to; 0 where that cannot be read
    caches: int  # of the last level (L3), that they belong to; 0 where that cannot be read
    # CPUs' worth of time that the cgroup allows, None where that is no less than the CPUs
    quota: float | None


def cpu_set(root: str = "/", cpus: set[int] | None = None) -> CpuSet:
    """Describe the CPUs that the calling thread may use, or ``cpus``."""
    allowed = os.sched_getaffinity(0) if cpus is None else cpus
    quota = cgroup_quota(root)
    return CpuSet(
        len(allowed),
        len(cores_of(allowed, root)),
        len({_node_of(root, cpu) for cpu in allowed} - {""}),
        caches=len({_cache_of(root, cpu) for cpu in allowed} - {""}),
        quota=None if quota is None or quota >= len(allowed) else round(quota, 2),
    )


def cores_of(cpus: set[int], root: str = "/") -> dict[str, list[int]]:
    """Return the logical CPUs by the physical core that they are of, which is named by its first
    logical CPU, whether that is among them or not."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = _read(root, f"{_CPU.format(cpu)}/topology/thread_siblings_list")
        # "0,64" or "0-1"; unknown means a core of its own.
        first = siblings.replace("-", ",").split(",")[0] or str(cpu)
        cores.setdefault(first, []).append(cpu)
    return cores


def cgroup_quota(root: str = "/") -> float | None:
    """Return the CPUs' worth of time that this process' cgroup may use, None when unlimited."""
    quotas = []
    for line in _read(root, "proc/self/cgroup").splitlines():
        controllers, group = line.split(":", 2)[1:]
        if controllers == "":
            quotas += [_quota_v2(root, path) for path in _with_parents("sys/fs/cgroup", group)]
        elif "cpu" in controllers.split(","):
            for mount in (f"sys/fs/cgroup/{controllers}", "sys/fs/cgroup/cpu"):
                quotas += [_quota_v1(root, path) for path in _with_parents(mount, group)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _cache_of(root: str, cpu: int) -> str:
    return _read(root, f"{_CPU.format(cpu)}/cache/index3/shared_cpu_list")


def _node_of(root: str, cpu: int) -> str:
    try:
        entries = os.listdir(os.path.join(root, _CPU.format(cpu)))
    except OSError:
        return ""
    return next((name for name in entries if name.startswith("node")), "")


def _with_parents(mount: str, group: str) -> list[str]:
    """Return the folders of a group and of its ancestors: each of them may set a limit."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    return ["/".join([mount, *parts[:count]]) for count in range(len(parts) + 1)]


def _quota_v2(root: str, group: str) -> float | None:
    fields = _read(root, f"{group}/cpu.max").split()
    return _ratio(fields[0], fields[1]) if len(fields) == 2 else None


def _quota_v1(root: str, group: str) -> float | None:
    quota = _read(root, f"{group}/cpu.cfs_quota_us")
    return _ratio(quota, _read(root, f"{group}/cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """Return quota / period; "max", -1 and unreadable values mean no limit."""
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return None
    return int(quota) / int(period)


def _read(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
