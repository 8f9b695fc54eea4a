# SPDX-License-Identifier: Apache-2.0
"""The facts about the machine and this installation that decide about speed. Test:
store/test_key.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
from collections.abc import Iterable

import tvm
from tvm_collage.threads import cpu_set

# Variables of the thread pools, with what they are unless somebody sets them.
_USUAL_THREADING = {
    "TVM_BIND_THREADS": "0",
    "GOMP_SPINCOUNT": "1000",
    "OMP_WAIT_POLICY": "",
    "OMP_PROC_BIND": "",
    "OMP_PLACES": "",
    "COLLAGE_FLUSH_DENORMALS": "0",
    "COLLAGE_SPREAD_THREADS": "1",
}
# Fields of /proc/cpuinfo, of x86 and of Arm.
_CPU_FIELDS = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part")


@dataclasses.dataclass(frozen=True)
class MachineTraits:
    """The facts that decide about speed on the machine."""

    cpu: str = dataclasses.field(metadata={"meaning": "the CPU's name, family and model"})
    features: tuple[str, ...] = dataclasses.field(
        metadata={"meaning": "its vector instructions that compilers use, sorted"}
    )
    threads: int = dataclasses.field(metadata={"meaning": "threads of TVM's runtime", "minimum": 1})


def cpu_model(path: str = "/proc/cpuinfo") -> str:
    """e.g. "AMD EPYC, cpu family 25, model 17, stepping 1": cloud machines share the mere name."""
    fields = _first_cpu(path)
    first = fields.pop("model name", platform.machine())
    rest = [f"{name} {fields[name]}" for name in _CPU_FIELDS if name in fields]
    return ", ".join([first, *rest])


def read_cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Return feature flags that Linux reports for an x86 CPU; empty elsewhere."""
    return frozenset(_first_cpu(path).get("flags", "").split())


def _first_cpu(path: str) -> dict[str, str]:
    """Return the fields of the first CPU in the file; none where there is no Linux."""
    fields: dict[str, str] = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    return fields


def vector_bits(flags: Iterable[str] | None = None) -> int:
    """Return the bits of this CPU's widest vectors of floats."""
    found = read_cpu_flags() if flags is None else frozenset(flags)
    return 512 if "avx512f" in found else 256 if "avx2" in found else 128


def thread_text() -> str:
    """TVM's threads, as workers inherit them, then what is not usual.

    Of the CPUs: that there are more or fewer of them, or of physical cores (hyper-threads), than
    threads, several memory nodes or last caches, a quota of the cgroup. Of settings: OpenMP's own
    number, how threads wait and where they are put. Which CPUs they are is not said: others of the
    same kind are as fast.
    """
    here = cpu_set()
    threads = os.environ.get("TVM_NUM_THREADS", "").strip() or str(here.cpus)
    words = [threads]
    for count, what in ((here.cpus, "CPUs"), (here.cores, "cores")):
        if str(count) != threads:
            words.append(f"{count} {what}")
    for count, what in ((here.nodes, "nodes"), (here.caches, "L3 caches")):
        if count > 1:
            words.append(f"{count} {what}")
    if here.quota is not None:
        words.append(f"quota {here.quota:g}")
    for name, usual in {"OMP_NUM_THREADS": threads, **_USUAL_THREADING}.items():
        value = os.environ.get(name, "").strip() or usual
        if value != usual:
            words.append(f"{name} {value}")
    return ", ".join(words)


def tvm_build() -> str:
    """e.g. "0.19.0 c4dc0c29f LLVM 22.1.8", and where schedules come from if not from TVM alone."""
    info = tvm.support.libinfo()
    text = f"{tvm.__version__} {info['GIT_COMMIT_HASH'][:9]} LLVM {info['LLVM_VERSION']}"
    schedules = os.environ.get("TOPHUB_LOCATION", "NONE")
    return text if schedules == "NONE" else f"{text} TopHub {schedules}"
