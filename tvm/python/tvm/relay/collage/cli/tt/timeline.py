# SPDX-License-Identifier: Apache-2.0
"""The course of a search by the clock: when which trial ended, and how good the best were by then.

A log's lines say when their trial began. A search that was stopped and went on later leaves a gap,
of which a pause counts at most. Test: cli/test_tt_timeline.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...tuning.ansor_kernel import AnsorKernel
from ...tuning.tuner import Line

# Between two trials a search chooses the next ones, which takes seconds; what is longer is a pause.
_PAUSE_SECONDS = 60.0


class Moment(NamedTuple):
    """The end of a trial."""

    seconds: float  # that the search had taken by then
    line: Line


def timeline(lines: Iterable[Line]) -> list[Moment]:
    """Return the trials of a search in their order. Lines that do not say when (of other tools)
    take no time."""
    trials = sorted(((*_began(line), line) for line in lines), key=lambda trial: trial[0])
    moments: list[Moment] = []
    elapsed, last = 0.0, math.inf
    for began, took, line in trials:
        end = began + took
        elapsed += min(max(took, end - last), _PAUSE_SECONDS)
        last = end
        moments.append(Moment(elapsed, line))
    return moments


def lines_within(moments: Iterable[Moment], seconds: float) -> list[Line]:
    """Return the trials that had ended after so many seconds."""
    return [moment.line for moment in moments if moment.seconds <= seconds]


def goal_of(
    kernels: Sequence[AnsorKernel], lines: Iterable[Line]
) -> tuple[list[AnsorKernel], float | None]:
    """Return the kernels that have a trial that ran, and the seconds of them in one run of a model
    together, each with its best trial; None where there are none."""
    best = [Moment(0.0, line) for line in lines]
    served = {each.line.workload for each in best if each.line.seconds is not None}
    kernels = [kernel for kernel in kernels if kernel.workload in served]
    return kernels, min((took for _, took in _course(kernels, best)), default=None)


def seconds_to_match(
    kernels: Sequence[AnsorKernel], moments: Iterable[Moment], wanted: float
) -> float | None:
    """Return after how many seconds a search's kernels were together as fast as `wanted`; None
    where they never were."""
    return next((at for at, took in _course(kernels, moments) if took <= wanted), None)


def _course(
    kernels: Sequence[AnsorKernel], moments: Iterable[Moment]
) -> Iterator[tuple[float, float]]:
    """Yield at each trial of one of the kernels what they take together, once all have one that
    ran, each with its best."""
    calls = {kernel.workload: kernel.calls for kernel in kernels}
    best: dict[str, float] = {}
    for elapsed, line in moments:
        if line.seconds is not None and line.workload in calls:
            best[line.workload] = min(line.seconds, best.get(line.workload, math.inf))
            if len(best) == len(calls):
                yield elapsed, sum(calls[each] * seconds for each, seconds in best.items())


def _began(line: Line) -> tuple[float, float]:
    """Return when a trial began and how long it took, as its line says."""
    _, _, took, began = json.loads(line.text)["r"]
    return float(began), float(took)
