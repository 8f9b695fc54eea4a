# SPDX-License-Identifier: Apache-2.0
"""Whose schedules to transfer (paper, section 5.3). Test: transfer/test_choose.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .kernel import Kernel


def shares(kernels: Iterable[Kernel], seconds: Mapping[str, float]) -> dict[str, float]:
    """Each class's share of the time of a model, 0 to 1: of its kernels' seconds (by workload, of
    one call) or, where one is not known, of all kernels' arithmetic operations."""
    kernels = list(kernels)
    are_known = all(kernel.workload in seconds for kernel in kernels)
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
