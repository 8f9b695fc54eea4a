# SPDX-License-Identifier: Apache-2.0
"""The checks of `collage doctor`: a table of small functions of a MachineFacts.
Test: doctor/test_checks.py.

To add one: a function that answers with ok(), warning() or problem(), and a row in CHECKS.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from .machine import MachineFacts

OK, WARNING, PROBLEM = "ok", "warning", "problem"

_GIB = 2**30
# Spread of one kernel's time. At 3 % noise (spread 8 %) the guard tells plans apart that differ by
# 5 %; at 10 % (spread 26 %) every tenth choice is chance (plans/graph_search/test_decide.py).
_NOISY, _TOO_NOISY = 0.10, 0.30
# Work of all cores at once, as a share of what each does alone.
_SHARED, _TAKEN = 0.85, 0.6
# Of pauses, from which threads sharing a CPU is the kernel's way and no chance.
_SHARING = 0.5
# TVM itself imports xgboost, whose own OpenMP computes only while a tuner learns.
_OF_TUNERS = "/xgboost"
_LEAST_DISK, _LITTLE_DISK = 0.25 * _GIB, 2 * _GIB
_LITTLE_MEMORY = 2 * _GIB


class Finding(NamedTuple):
    """One line on what a check found, and what to do about it; advice is "" when all is well."""

    state: str
    found: str
    advice: str = ""


ok = functools.partial(Finding, OK)
warning = functools.partial(Finding, WARNING)
problem = functools.partial(Finding, PROBLEM)


def check_versions(m: MachineFacts) -> Finding:
    return ok(m.versions)


def check_cores(m: MachineFacts) -> Finding:
    text = f"{m.cpu}: {m.cores} cores to use"
    if m.allowed < m.cpus:
        return ok(f"{text}; the affinity mask allows {m.allowed} of {m.cpus} CPUs")
    return ok(f"{text}, {m.cpus} CPUs")


def check_quota(m: MachineFacts) -> Finding:
    if m.quota is None:
        return ok("no cgroup limit of CPU time")
    text = f"the cgroup allows {m.quota:g} CPUs' worth of time"
    if m.quota < 1:
        return problem(text, "a run is stopped amid its work: give the container a whole CPU")
    if m.quota < m.allowed:
        return warning(
            f"{text}, the affinity mask {m.allowed} CPUs",
            f"{int(m.quota)} threads are used; pin the container to as many CPUs (--cpuset-cpus)",
        )
    return ok(text)


def check_threads(m: MachineFacts) -> Finding:
    tvm, omp = (m.environment.get(name, "") for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"))
    omp = omp.split(",")[0]
    for name, value in (("TVM_NUM_THREADS", tvm), ("OMP_NUM_THREADS", omp)):
        if value and not (value.isdecimal() and int(value) > 0):
            return problem(f"{name} is {value!r}", "set it to a number of threads, 1 or more")
    if tvm and omp and tvm != omp:
        return warning(
            f"TVM_NUM_THREADS is {tvm}, OMP_NUM_THREADS {omp}",
            "TVM and the libraries share one pool: set both to the same number",
        )
    threads = int(tvm or omp or m.cores)
    if threads > m.allowed:
        return problem(
            f"{threads} threads on {m.allowed} allowed CPUs",
            f"they wait for each other: set TVM_NUM_THREADS to {m.cores}",
        )
    if threads > m.cores:
        return warning(
            f"{threads} threads on {m.cores} cores: some are hyper-threads, or over the quota",
            f"set TVM_NUM_THREADS to {m.cores}",
        )
    if threads < m.cores:
        return warning(
            f"{threads} threads on {m.cores} cores",
            "costs are those of this number: deploy with the same, or unset TVM_NUM_THREADS",
        )
    return ok(f"{threads} threads, one a core")


def check_waiting(m: MachineFacts) -> Finding:
    """Check how idle threads wait: spinning ones take the cores of whoever is measured."""
    if m.environment.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        return warning("OMP_WAIT_POLICY is ACTIVE: idle threads spin", "unset OMP_WAIT_POLICY")
    spins = m.environment.get("GOMP_SPINCOUNT", "")
    if not spins.isdecimal() or int(spins) > 100_000:
        return warning(
            f"GOMP_SPINCOUNT is {spins or 'not set'}: idle threads spin for long",
            "unset it before Python starts; Collage then sets 1000",
        )
    if m.environment.get("TVM_BIND_THREADS", "0") != "0":
        return warning(
            "TVM_BIND_THREADS binds threads to cores, of every process to the same ones",
            "unset TVM_BIND_THREADS",
        )
    return ok(f"idle threads sleep after {spins} spins")


def check_spreading(m: MachineFacts) -> Finding:
    """Check whether the kernel leaves threads of a team on one CPU after a pause."""
    if m.sharing is None:
        return ok("there is no team of threads of Collage's pool")
    text = f"after {m.sharing:.0%} of pauses threads woke on one CPU"
    wish = m.environment.get("COLLAGE_SPREAD_THREADS") or "1"
    is_bound = m.environment.get("OMP_PROC_BIND", "").lower() not in ("", "false")
    if m.sharing < _SHARING:
        return ok(text)
    if wish in ("1", "always") and not is_bound:
        return ok(f"{text}; where there are idle ones they are spread")
    return warning(
        text,
        "while others are idle that slows models that run after pauses: unset "
        "COLLAGE_SPREAD_THREADS and OMP_PROC_BIND, unless other programs need these CPUs",
    )


def check_openmp(m: MachineFacts) -> Finding:
    files = {path for path in m.openmp if _OF_TUNERS not in path}
    if len(files) < 2:
        return ok(f"one OpenMP runtime ({os.path.basename(files.pop())})" if files else "no OpenMP")
    return warning(
        f"{len(files)} OpenMP runtimes in this process: {', '.join(sorted(files))}",
        "their threads compete: do not import the other library (torch brings one) where you run "
        "models; candidates are measured in processes without it",
    )


def check_frequency(m: MachineFacts) -> Finding:
    now = f", {m.megahertz:.0f} MHz now" if m.megahertz else ""
    if not m.governors:
        return ok(f"the governor of the frequency cannot be read here{now}")
    text = f"governor {', '.join(m.governors)}{now}"
    if "powersave" in m.governors or "conservative" in m.governors:
        return warning(text, "if timings vary: cpupower frequency-set -g performance")
    return ok(text)


def check_load(m: MachineFacts) -> Finding:
    if m.load:
        return warning(
            f"others take {m.load:.0%} of the {m.allowed} CPUs that this process may use",
            "end other processes here, or measure when they have ended",
        )
    return ok(f"others leave the {m.allowed} CPUs that this process may use alone")


def check_noise(m: MachineFacts) -> Finding:
    text = f"the time of one fixed kernel spreads by {m.noise.spread:.1%}"
    advice = "plans that differ by less cannot be told apart soon: quiet the machine, or raise "
    advice += "guard_rounds and measure_seconds"
    if m.noise.spread > _TOO_NOISY:
        return problem(text, advice)
    return warning(text, advice) if m.noise.spread > _NOISY else ok(text)


def check_scaling(m: MachineFacts) -> Finding:
    count, speed_up = m.noise.threads, m.noise.speed_up
    if count < 2:
        return ok("one thread")
    text = f"{count} threads do the work of {speed_up:.2f}"
    if m.load:
        text += f"; others took {m.load:.0%} of the CPUs before or while they ran"
        advice = "that says nothing of the cores: look again when the others have ended, or on a "
        advice += "machine of your own"
    else:
        advice = "the cores are shared (neighbours, hyper-threads, a quota): "
        fewer = max(1, math.floor(speed_up + 0.1))
        if fewer >= _SHARED * speed_up:  # else so few threads do less
            advice += f"set TVM_NUM_THREADS to {fewer}, or "
        advice += "use a machine of your own"
    if speed_up < _TAKEN * count:
        return problem(text, advice)
    return warning(text, advice) if speed_up < _SHARED * count else ok(text)


def check_target(m: MachineFacts) -> Finding:
    named = re.search(r"-mcpu=(\S+)", m.target)
    advice = "compile for collage.host_target()"
    if not m.target.startswith("llvm"):
        return warning(f"host target {m.target}", f"it is not this machine's CPU: {advice}")
    if not m.system_cpu or m.system_cpu == "generic":
        return problem(
            "LLVM does not know this CPU", "name it: llvm -mcpu=<name>; see llc -mcpu=help"
        )
    if named is None:
        return problem(
            f"host target {m.target!r} names no CPU", f"it is up to 10x slower: {advice}"
        )
    if named[1] == "native":
        return problem(
            "host target has -mcpu=native", f"TVM takes it for no CPU, 5x slower: {advice}"
        )
    if named[1] != m.system_cpu:
        return warning(f"host target is for {named[1]}, this CPU is {m.system_cpu}", advice)
    return ok(f"host target {m.target}")


def check_backends(m: MachineFacts) -> Finding:
    there = [f"{row['name']} {row['version']}".strip() for row in m.backends if row["is_available"]]
    absent = [f"{row['name']} ({row['reason']})" for row in m.backends if not row["is_available"]]
    text = f"available: {', '.join(there) or 'none'}"
    if not there:
        return problem(
            f"{text}; not: {'; '.join(absent)}",
            "without a backend there is nothing to choose from: install what is named",
        )
    if absent:
        return warning(f"{text}; not: {'; '.join(absent)}", "install what is named, if you want it")
    return ok(text)


def check_store(m: MachineFacts) -> Finding:
    if m.store is None:
        return warning("no store of costs", "unset COLLAGE_STORE, so that costs are kept")
    if m.store_error:
        return problem(f"{m.store}: {m.store_error}", "see `collage store check`")
    if m.store_is_older:
        return ok(f"{m.store}: of an older layout, which the next search brings up to date")
    if m.store_costs is None:
        return ok(f"{m.store}: none yet")
    return ok(f"{m.store}: {m.store_costs} costs")


def check_compiler(m: MachineFacts) -> Finding:
    if not m.compiler:
        return problem(
            "no C++ compiler", "candidates are linked by one: install g++, or set CXX to one"
        )
    if m.compiler_fault:
        return problem(m.compiler_fault, "install a whole g++, or set CXX to a compiler that works")
    return ok(m.compiler)


def check_disk(m: MachineFacts) -> Finding:
    text = ", ".join(f"{size / _GIB:.1f} GiB in {folder}" for folder, size in m.disk.items())
    advice = "make room, or set TMPDIR (candidates are built there) and the option store"
    if min(m.disk.values()) < _LEAST_DISK:
        return problem(f"free: {text}", advice)
    if min(m.disk.values()) < _LITTLE_DISK:
        return warning(f"free: {text}", advice)
    return ok(f"free: {text}")


def check_memory(m: MachineFacts) -> Finding:
    if m.memory is None:
        return ok("available memory cannot be read here")
    text = f"{m.memory / _GIB:.1f} GiB available"
    if m.memory < _LITTLE_MEMORY:
        return warning(
            text, "a build takes up to 1 GiB beside the model: set the option workers to 1"
        )
    return ok(text)


# Name -> check, in the order of the report.
CHECKS: dict[str, Callable[[MachineFacts], Finding]] = {
    "versions": check_versions,
    "cores": check_cores,
    "cgroup quota": check_quota,
    "threads": check_threads,
    "waiting": check_waiting,
    "spreading": check_spreading,
    "OpenMP": check_openmp,
    "frequency": check_frequency,
    "load": check_load,
    "noise": check_noise,
    "scaling": check_scaling,
    "target": check_target,
    "backends": check_backends,
    "store": check_store,
    "compiler": check_compiler,
    "disk": check_disk,
    "memory": check_memory,
}


def examine(machine: MachineFacts) -> dict[str, Finding]:
    """Make all checks; return what each finds, by its name."""
    return {name: check(machine) for name, check in CHECKS.items()}
