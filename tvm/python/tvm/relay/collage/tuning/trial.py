# SPDX-License-Identifier: Apache-2.0
"""One trial of a schedule, in a worker: a kernel is built in this process, and timed in it or on a
device. Tests: tuning/test_search.py, rpc/test_devices.py.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm

from ..compile import fast_passes
from ..compile.library import export
from ..exec.launch import make_scratch
from ..exec.machine_fault import (
    PASSING,
    MachineFault,
    blaming_the_compiler,
    fault_of,
    kills_for_memory,
)
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of, resolve

# Shape and type of a kernel's argument.
Argument = tuple[Sequence[int], str]
# TVM's tuners compare means: each of some repeats spans at least so long.
_REPEATS, _LEAST_MS = 3, 20
_LEAST_FIRST_SECONDS = 1.0
# What a kernel may take on a device, its repeats with it.
_RUN_SECONDS = 20.0


class TimedKernel(NamedTuple):
    """The result of a trial."""

    costs: list[float]  # seconds of some runs; empty where it failed
    error: Exception | None  # what it failed of
    began: float  # seconds since the epoch
    took: float  # seconds


def timed(build: Callable[[], tuple[tvm.runtime.Module, Sequence[Argument]]]) -> TimedKernel:
    """Build a kernel and time it; a failure of either is one of the schedule's.

    A fault of the machine, which says nothing of the schedule, is raised.
    """
    began, kills_before = time.time(), kills_for_memory()
    costs: list[float] = []
    error = None
    try:
        costs = seconds_of_kernel(*build())
    except Exception as failure:  # one bad schedule among many: data
        if fault_of(failure, kills_before):
            raise
        error = failure
    return TimedKernel(costs, error, began, took=time.time() - began)


def build_kernel(target: tvm.target.Target, *what: Any) -> tvm.runtime.Module:
    """Build a schedule with its arguments, or a module, as a whole build would compile it."""
    with fast_passes():
        return tvm.build(*what, target=target)


def seconds_of_kernel(kernel: tvm.runtime.Module, arguments: Sequence[Argument]) -> list[float]:
    """Return the seconds of some runs of a built kernel on normal random arguments, where kernels
    run. One that takes a second or more runs once."""
    return run_kernels(time_kernel, [kernel], arguments=arguments)


def time_kernel(
    kernels: Sequence[tvm.runtime.Module], arguments: Sequence[Argument]
) -> list[float]:
    """Do what seconds_of_kernel does for one kernel, in this process."""
    [function] = kernels
    device = tvm.cpu()
    values = [tvm.nd.array(array, device) for array in random_arrays(arguments)]
    time_of = functools.partial(function.time_evaluator, function.entry_name, device, number=1)
    first = time_of()(*values).results[0]
    if first >= _LEAST_FIRST_SECONDS:
        return [first]
    repeats = time_of(repeat=_REPEATS, min_repeat_ms=_LEAST_MS)(*values).results
    return [float(second) for second in repeats]


def random_arrays(arguments: Sequence[Argument]) -> list[np.ndarray]:
    """Return values for arguments, the same each time."""
    generator = np.random.default_rng(0)
    return [_array(generator, *argument) for argument in arguments]


def tensor_arguments(tensors: Sequence[tvm.te.Tensor]) -> list[Argument]:
    """Return the arguments that tensors stand for."""
    return [([int(dim) for dim in tensor.shape], tensor.dtype) for tensor in tensors]


def _array(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return normal random numbers; small ones of short integers; zeros of what may be indices."""
    if dtype.startswith("float"):
        return generator.standard_normal(math.prod(shape)).reshape(tuple(shape)).astype(dtype)
    if dtype in ("int8", "uint8", "int16", "uint16", "bool"):
        return generator.integers(0, 2 if dtype == "bool" else 8, tuple(shape)).astype(dtype)
    return np.zeros(tuple(shape), dtype)


@dataclasses.dataclass(frozen=True)
class TrialDevice:
    """The place where a step's kernels run, if not in this process."""

    run: Callable[[Job], Reply]  # has the device reply to a job
    compiler: str  # links for it; "" for the usual one
    num_threads: int  # TVM's there


# Of the step that this process is at: none, or the one that its kernels run on.
_devices: list[TrialDevice] = []
_numbers = itertools.count()


def with_device(call: dict[str, Any], **device: Any) -> Any:
    """Do a worker's call (call_of), whose kernels run on a device (TrialDevice's fields)."""
    _devices.append(TrialDevice(**device))
    try:
        return resolve(call["function"])(**call["arguments"])
    finally:
        _devices.clear()


def threads_there() -> int | None:
    """Return TVM's threads on the device that kernels run on; None in this process."""
    return _devices[0].num_threads if _devices else None


def run_kernels(
    function: Callable[..., Any],
    kernels: Sequence[tvm.runtime.Module],
    seconds: float = _RUN_SECONDS,
    **arguments: Any,
) -> Any:
    """Call function(kernels, **arguments) where kernels run. On a device the arguments and what it
    returns are JSON values, and it may take so many seconds.

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
        there = call_of(function, **arguments)
        call = call_of(load_and_call, call=there, files=files)
        reply = device.run(Job("call", call, seconds, files=tuple(files)))
    if reply.fault and reply.fault not in PASSING:
        raise MachineFault(reply.fault, f"on the device: {reply.message}")
    if reply.outcome != "ok":
        raise RuntimeError(f"on the device: {reply.outcome}: {reply.message}")
    return reply.value


def load_and_call(call: dict[str, Any], files: Sequence[str]) -> Any:
    """Do a call with the kernels of these libraries: the device's side of run_kernels."""
    kernels = [tvm.runtime.load_module(os.path.abspath(file)) for file in files]
    return resolve(call["function"])(kernels, **call["arguments"])
