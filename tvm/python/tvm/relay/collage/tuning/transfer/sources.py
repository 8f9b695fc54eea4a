# SPDX-License-Identifier: Apache-2.0
"""Sources of schedules that may be transferred, and whose promise most (paper, section 5.3).

Test: tuning/transfer/test_sources.py.
"""

from __future__ import annotations

import heapq
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..ansor_kernel import AnsorKernel
from ..log import kernels_of
from ..tuner import Line
from .log import Source, read_given

# What to do about a log that does not tell what its kernels are, as those of other tools do not.
HOW_TO_TELL = (
    "`collage tt autoschedule MODEL --log LOG --trials 1`, with the model that the log was made "
    "for, adds that comment"
)
_logger = logging.getLogger(__name__)


def distil(lines: Iterable[Line], best: int = 1) -> list[Line]:
    """Return the `best` fastest trials of each workload and target, none that failed."""
    groups: dict[tuple[str, str], list[tuple[float, int, Line]]] = {}
    for number, line in enumerate(lines):
        if line.seconds is not None:
            group = groups.setdefault((line.workload, line.target), [])
            group.append((line.seconds, number, line))
    return [line for group in groups.values() for _, _, line in heapq.nsmallest(best, group)]


def sources_of(paths: Sequence[str | os.PathLike[str]], best: int = 1) -> list[Source]:
    """Return what logs together have to transfer: the best trials of each kernel that they tell of.

    TuningLogError. Trials whose kernel no log tells are left out, with a warning.
    """
    named = [(line, str(path)) for path in paths for line in distil(read_given(path), best)]
    kernels = kernels_of(*paths)
    unknown = {line.workload for line, _ in named} - set(kernels)
    if unknown:
        _logger.warning(
            "%d of %d kernels in %s cannot be transferred: no comment of a log says what they are, "
            "as logs of tune and of collage tt do; %s",
            len(unknown),
            len({line.workload for line, _ in named}),
            ", ".join(map(str, paths)),
            HOW_TO_TELL,
        )
    return [
        Source(line.text, kernels[line.workload], log)
        for line, log in named
        if line.workload in kernels
    ]


def are_timed(kernels: Iterable[AnsorKernel], seconds: Mapping[str, float]) -> bool:
    """Tell whether the seconds of one call of each kernel are known, by workload."""
    return all(kernel.workload in seconds for kernel in kernels)


def shares(kernels: Iterable[AnsorKernel], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return each class's share of the time of a model, 0 to 1: of its kernels' seconds or, unless
    are_timed, of their arithmetic operations, which stand for time as well as they can."""
    kernels = list(kernels)
    are_known = are_timed(kernels, seconds)
    found: dict[str, float] = {}
    for kernel in kernels:
        one = seconds[kernel.workload] if are_known else kernel.operations
        found[kernel.kind] = found.get(kernel.kind, 0.0) + kernel.calls * one
    total = sum(found.values())
    return {kind: value / total if total else 0.0 for kind, value in found.items()}


def scores(
    share: Mapping[str, float], models: Mapping[str, Sequence[AnsorKernel]]
) -> dict[str, float]:
    """Return by model how much its schedules promise, the best first: the sum over classes of the
    share of time and the square root of the number of its kernels of that class."""
    found = {}
    for name, kernels in models.items():
        counts = Counter(kernel.kind for kernel in kernels)
        found[name] = sum(part * math.sqrt(counts[kind]) for kind, part in share.items())
    return dict(sorted(found.items(), key=lambda item: -item[1]))
