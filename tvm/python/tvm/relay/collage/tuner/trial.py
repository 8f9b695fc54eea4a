# SPDX-License-Identifier: Apache-2.0
"""One trial of tuning: a kernel is built in this process, and timed here or on a device.

Test: tuner/test_search.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from ..compile import fast_passes
from .device import run_kernels

# TVM's tuners compare means: each of some repeats spans at least so long.
_REPEATS, _LEAST_MS = 3, 20
_LEAST_FIRST_SECONDS = 1.0


def seconds_of_kernel(function: Any, arguments: Sequence[tuple[Sequence[int], str]]) -> list[float]:
    """Seconds of a built kernel, some times, on normal random arguments of (shape, dtype).

    A kernel that takes a second or more is not repeated.
    """
    return run_kernels(time_kernel, [function], arguments=arguments)


def time_kernel(
    kernels: Sequence[Any], arguments: Sequence[tuple[Sequence[int], str]]
) -> list[float]:
    """seconds_of_kernel, of one kernel in this process."""
    [function] = kernels
    device = tvm.cpu()
    values = [tvm.nd.array(array, device) for array in random_arrays(arguments)]
    first = function.time_evaluator(function.entry_name, device, number=1)(*values).results[0]
    if first >= _LEAST_FIRST_SECONDS:
        return [first]
    timer = function.time_evaluator(
        function.entry_name, device, number=1, repeat=_REPEATS, min_repeat_ms=_LEAST_MS
    )
    return [float(second) for second in timer(*values).results]


def random_arrays(arguments: Sequence[tuple[Sequence[int], str]]) -> list[np.ndarray]:
    """The same values for arguments of (shape, dtype) each time."""
    generator = np.random.default_rng(0)
    return [_array(generator, *argument) for argument in arguments]


def build_kernel(target: tvm.target.Target, *what: Any) -> Any:
    """What `tvm.build` makes of a schedule with its arguments, or of a module, as a whole build
    would compile it."""
    with fast_passes():
        return tvm.build(*what, target=target)


def _array(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Normal random numbers; small ones of short integers; zeros of others, perhaps indices."""
    if dtype.startswith("float"):
        return generator.standard_normal(math.prod(shape)).reshape(tuple(shape)).astype(dtype)
    if dtype in ("int8", "uint8", "int16", "uint16", "bool"):
        return generator.integers(0, 2 if dtype == "bool" else 8, tuple(shape)).astype(dtype)
    return np.zeros(tuple(shape), dtype)


def tensor_arguments(tensors: Sequence[Any]) -> list[tuple[list[int], str]]:
    """(shape, dtype) of te tensors."""
    return [([int(dim) for dim in tensor.shape], tensor.dtype) for tensor in tensors]
