# SPDX-License-Identifier: Apache-2.0
"""The machine that the checks look at, read once, in plain values, so that tests make up their own.

Test: doctor/test_machine.py.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
import tvm_collage
from tvm_collage.prepare import openmp_runtimes
from tvm_collage.threads import cgroup_quota, default_threads

from ..backends import list_backends
from ..backends.interface import describe_backend
from ..compile import host_target
from ..machine.compiler import find_compiler, why_it_does_not_link
from ..machine.environment import cpu_model
from ..machine.load import LoadMeter
from ..process_wide.denormals import thread_pool
from ..store import (
    CostStore,
    StoreError,
    StoreFolderError,
    StoreOlderError,
    missing_folder,
    store_path,
)
from .noise import Noise, measure_noise, measure_sharing

_CPU = "sys/devices/system/cpu"


@dataclasses.dataclass(frozen=True)
class MachineFacts:
    """This machine and this process."""

    cpu: str  # its model
    cpus: int  # logical ones of the machine
    allowed: int  # those of the affinity mask
    cores: int  # physical ones among these that the cgroup's quota allows
    quota: float | None  # CPUs' worth of time, None for none
    governors: tuple[str, ...]  # of the allowed CPUs, empty where unreadable
    megahertz: float | None
    # the share of the allowed CPUs that others take before or while noise is measured, 0 where they
    # leave a core for each of our threads
    load: float
    noise: Noise
    # the share of pauses after which threads of a team woke on one CPU, None without a pool of
    # several threads
    sharing: float | None
    environment: Mapping[str, str]  # variables of threads
    openmp: tuple[str, ...]  # runtimes in this process
    system_cpu: str  # LLVM's name
    target: str  # the host target to compile for
    backends: tuple[Mapping[str, Any], ...]  # rows of describe_backend
    store: str | None  # its file, None for none
    store_costs: int | None  # its rows, None for no file yet
    store_error: str  # what is wrong with it
    store_is_older: bool  # of a layout that the next search brings up to date
    compiler: str  # path of the C++ compiler, "" for none
    compiler_fault: str  # why it cannot link
    disk: Mapping[str, int]  # free bytes by folder
    memory: int | None  # available bytes, None where unreadable
    versions: str


_VARIABLES = (
    "TVM_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TVM_BIND_THREADS",
    "GOMP_SPINCOUNT",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "COLLAGE_SPREAD_THREADS",
)


def read_machine(target: str = "", store: str = "", root: str = "/") -> MachineFacts:
    """Look at everything; `target` is a host target, this machine's own by default, and `store` the
    option of that name. Takes a second or two: noise is measured, backends are looked up."""
    allowed = os.sched_getaffinity(0)
    cores = default_threads(root)
    meter = LoadMeter()
    load, noise = meter.look(), measure_noise(cores)
    path, costs, error, is_older = read_store(store)
    return MachineFacts(
        cpu=cpu_model(os.path.join(root, "proc/cpuinfo")),
        cpus=os.cpu_count() or len(allowed),
        allowed=len(allowed),
        cores=cores,
        quota=cgroup_quota(root),
        governors=read_governors(root, allowed),
        megahertz=read_megahertz(root),
        load=max(load, meter.load()),
        noise=noise,
        sharing=measure_sharing(thread_pool()),
        environment={name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        openmp=tuple(openmp_runtimes()),
        system_cpu=str(tvm.target.codegen.llvm_get_system_cpu()),
        target=target or str(host_target()),
        backends=tuple(describe_backend(backend) for backend in list_backends()),
        store=path,
        store_costs=costs,
        store_error=error,
        store_is_older=is_older,
        compiler=find_compiler(),
        compiler_fault=why_it_does_not_link(),
        disk=free_bytes(tempfile.gettempdir(), path),
        memory=read_memory(root),
        versions=_versions(),
    )


def read_governors(root: str, cpus: set[int]) -> tuple[str, ...]:
    found = (_read(root, f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus)
    return tuple(sorted({name for name in found if name}))


def read_megahertz(root: str) -> float | None:
    """Return the MHz of the first CPU that /proc/cpuinfo tells it of."""
    value = _field(root, "proc/cpuinfo", "cpu MHz")
    return float(value) if value else None


def read_memory(root: str) -> int | None:
    value = _field(root, "proc/meminfo", "MemAvailable")
    return 1024 * int(value.split()[0]) if value else None


def _field(root: str, path: str, name: str) -> str:
    """Return the first value of this name in a file of lines "name: value"; "" where none is."""
    pairs = (line.partition(":") for line in _read(root, path).splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def read_store(option: str) -> tuple[str | None, int | None, str, bool]:
    """Return the store's file, its rows, what is wrong with it, whether its layout is older."""
    path, _ = store_path(option)
    if path is None:
        return None, None, "", False
    if not path.exists():
        missing = missing_folder(path)
        fault = StoreFolderError(path, f"there is no folder {missing}") if missing else ""
        return str(path), None, str(fault), False
    try:
        with CostStore(path, create=False, write=False) as store:
            return str(path), len(store.rows()), "; ".join(store.problems()), False
    except StoreOlderError:
        return str(path), None, "", True
    except StoreError as error:
        return str(path), None, str(error), False


def free_bytes(temporary: str, store: str | None) -> dict[str, int]:
    """Return free bytes where candidates are built and where the store lies, or will."""
    folders = [Path(temporary)]
    if store is not None:
        folders.append(next(each for each in Path(store).absolute().parents if each.exists()))
    return {str(folder): shutil.disk_usage(folder).free for folder in folders}


def _versions() -> str:
    llvm = tvm.support.libinfo()["LLVM_VERSION"]
    return f"tvm-collage {tvm_collage.__version__}, TVM {tvm.__version__}, LLVM {llvm}"


def _read(root: str, path: str) -> str:
    try:
        return Path(root, path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
