# SPDX-License-Identifier: Apache-2.0
"""What of the machine and of this installation decides a cost: parts of a store's key.

Test: test_store_key.py.
"""

from __future__ import annotations

import json
import os
import platform
from typing import NamedTuple

import tvm
from tvm_collage.threads import cpu_set

from ..measure import MeasureOptions
from ..measure.options import MEASURING_VERSION

# Options of measuring that change what is measured. How long it takes is a row's allowed_seconds,
# since a careful measurement also serves who asks for less. imports are none: what those modules
# register is told by its backend's name and version.
_DECISIVE = (
    "builder",
    "build_step",
    "reference_step",
    "measure_step",
    "seed",
    "memory_limit_bytes",
    "sample_seconds",
)
# Variables of the thread pools, with what they are unless somebody sets them.
_USUAL_THREADING = {
    "TVM_BIND_THREADS": "0",
    "GOMP_SPINCOUNT": "1000",
    "OMP_WAIT_POLICY": "",
    "OMP_PROC_BIND": "",
    "OMP_PLACES": "",
    "COLLAGE_FLUSH_DENORMALS": "0",
    "COLLAGE_SPREAD_THREADS": "0",
}
# Fields of /proc/cpuinfo, of x86 and of Arm.
_CPU_FIELDS = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part")


class Environment(NamedTuple):
    """Key parts that are the same for all candidates of a search; meanings in schema.CREATE."""

    device: str
    cpu: str
    threads: str
    tvm: str
    measuring: str

    @classmethod
    def here(cls, options: MeasureOptions | None = None) -> Environment:
        """This machine, as the worker processes see it."""
        return cls(
            "cpu", cpu_model(), thread_text(), tvm_build(), measuring_text(options or _DEFAULTS)
        )

    @classmethod
    def of_device(cls, cpu: str, threads: str, options: MeasureOptions) -> Environment:
        """A device elsewhere, of this software: what it says of itself, in the words of here."""
        return cls("cpu", cpu, threads, tvm_build(), measuring_text(options))


def cpu_model(path: str = "/proc/cpuinfo") -> str:
    """e.g. "AMD EPYC, cpu family 25, model 17, stepping 1": cloud machines share the mere name."""
    fields: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                fields.setdefault(name.strip(), value.strip())
    except OSError:
        pass  # no Linux
    first = fields.pop("model name", platform.machine())
    rest = [f"{name} {fields[name]}" for name in _CPU_FIELDS if name in fields]
    return ", ".join([first, *rest])


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


_DEFAULTS = MeasureOptions()


def measuring_text(options: MeasureOptions) -> str:
    """The way of measuring: its version, then decisive options that are not at their defaults."""
    chosen = {
        name: getattr(options, name)
        for name in _DECISIVE
        if getattr(options, name) != getattr(_DEFAULTS, name)
    }
    text = str(MEASURING_VERSION)
    return f"{text} {json.dumps(chosen, sort_keys=True)}" if chosen else text
