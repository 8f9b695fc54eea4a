# SPDX-License-Identifier: Apache-2.0
"""Trials whose kernels run on a device: a worker here searches and builds, the device times.

DeviceTrials is the driver's; a worker's search calls run_kernels, which calls a function either in
this process or, by with_device, on the device. Test: rpc/test_devices.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import tvm

from ..compile.link import export
from ..exec.launch import make_scratch
from ..exec.machine_fault import PASSING, MachineFault, blaming_the_compiler
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import path_of, resolve

# What a kernel may take there, its repeats with it.
_RUN_SECONDS = 20.0
# And what trials compare with, once a kernel: a schedule that is slow beside theirs.
REFERENCE_SECONDS = 60.0
# And the trial of a schedule, so long that a device which falls silent meanwhile is known as lost
# before it ends.
DEVICE_SECONDS = 150.0 + REFERENCE_SECONDS


class Workers(Protocol):
    """What runs the steps of a search: a WorkerPool, or DeviceTrials."""

    def run(self, jobs: Sequence[Job], concurrency: int | None = None) -> list[Reply]:
        """The replies to jobs, in their order."""


@dataclasses.dataclass(frozen=True)
class DeviceTrials:
    """The devices of a key in place of a pool of workers, for the steps of a search.

    call: the reply to a call in the worker here that has a device; its function gets as `run` what
    has the device reply to a job. cpu, threads: as in a store's key; num_threads: TVM's there.
    compiler: links for the devices, "" for the usual one.
    """

    call: Callable[[Job], Reply]
    cpu: str
    threads: str
    num_threads: int
    compiler: str = ""

    def run(self, jobs: Sequence[Job], concurrency: int | None = None) -> list[Reply]:
        """As WorkerPool.run, one at a time; a reply "lost" means that the device was lost, which
        says nothing of the job. DeviceError when there is no device."""
        del concurrency
        return [self.call(self._on_device(job)) for job in jobs]

    def _on_device(self, job: Job) -> Job:
        arguments = {
            "step": job.arguments["function"],
            "arguments": job.arguments["arguments"],
            "compiler": self.compiler,
            "num_threads": self.num_threads,
        }
        return dataclasses.replace(
            job, arguments={"function": path_of(with_device), "arguments": arguments}
        )


@dataclasses.dataclass(frozen=True)
class _Device:
    run: Callable[[Job], Reply]
    compiler: str
    num_threads: int


# Of the step that this process is at: none, or the one that its kernels run on.
_devices: list[_Device] = []
_numbers = itertools.count()


def with_device(
    run: Callable[[Job], Reply],
    step: str,
    arguments: dict[str, Any],
    compiler: str,
    num_threads: int,
) -> Any:
    """Call a worker's step, the kernels of which run on a device, which `run` has reply to jobs."""
    _devices.append(_Device(run, compiler, num_threads))
    try:
        return resolve(step)(**arguments)
    finally:
        _devices.clear()


def threads_there() -> int | None:
    """TVM's threads on the device that kernels run on; None where they run in this process."""
    return _devices[0].num_threads if _devices else None


def run_kernels(
    function: Callable[..., Any],
    kernels: Sequence[Any],
    seconds: float = _RUN_SECONDS,
    **arguments: Any,
) -> Any:
    """function(kernels, **arguments), called where kernels run. There the arguments and what it
    returns are JSON values, it finds the kernels' modules by their libraries, and may take so many
    seconds.

    RuntimeError says what it failed of there, its process killed with it. MachineFault for what the
    next kernel would meet as well.
    """
    if not _devices:
        return function(kernels, **arguments)
    [device] = _devices
    with make_scratch() as folder:
        # Names of their own: of two libraries of one name a process may keep the first.
        files = [str(Path(folder, f"kernel_{next(_numbers)}.so")) for _ in kernels]
        with blaming_the_compiler(device.compiler):
            for kernel, file in zip(kernels, files, strict=True):
                export(kernel, file, **({"cc": device.compiler} if device.compiler else {}))
        there = {"function": path_of(function), "files": files, "arguments": arguments}
        call = {"function": path_of(load_and_call), "arguments": there}
        reply = device.run(Job("call", call, seconds, tuple(files)))
    if reply.fault and reply.fault not in PASSING:
        raise MachineFault(reply.fault, f"on the device: {reply.message}")
    if reply.outcome != "ok":
        raise RuntimeError(f"on the device: {reply.outcome}: {reply.message}")
    return reply.value


def load_and_call(function: str, files: Sequence[str], arguments: dict[str, Any]) -> Any:
    """What the device's worker does."""
    kernels = [tvm.runtime.load_module(os.path.abspath(file)) for file in files]
    return resolve(function)(kernels, **arguments)
