# SPDX-License-Identifier: Apache-2.0
"""Whose schedules to transfer (paper, section 5.3). Test: transfer/test_choose.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .kernel import Kernel


def are_timed(kernels: Iterable[Kernel], seconds: Mapping[str, float]) -> bool:
    """Whether the seconds of one call of each kernel are known, by workload."""
    return all(kernel.workload in seconds for kernel in kernels)


def shares(kernels: Iterable[Kernel], seconds: Mapping[str, float]) -> dict[str, float]:
    """Each class's share of the time of a model, 0 to 1: of its kernels' seconds or, unless
    are_timed, of their arithmetic operations, which stand for time as well as they can."""
    kernels = list(kernels)
    are_known = are_timed(kernels, seconds)
    found: dict[str, float] = {}
    for kernel in kernels:
        one = seconds[kernel.workload] if are_known else kernel.operations
        found[kernel.kind] = found.get(kernel.kind, 0.0) + kernel.calls * one
    total = sum(found.values())
    return {kind: value / total if total else 0.0 for kind, value in found.items()}


def scores(share: Mapping[str, float], models: Mapping[str, Sequence[Kernel]]) -> dict[str, float]:
    """By model, how much its schedules promise, the best first: the sum over classes of the share
    of time and the square root of the number of its kernels of that class."""
    found = {}
    for name, kernels in models.items():
        counts = Counter(kernel.kind for kernel in kernels)
        found[name] = sum(part * math.sqrt(counts[kind]) for kind, part in share.items())
    return dict(sorted(found.items(), key=lambda item: -item[1]))
