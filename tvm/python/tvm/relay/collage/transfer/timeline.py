# SPDX-License-Identifier: Apache-2.0
"""How a search went on by the clock: when which trial ended, and how good the best were by then.

A log's lines say when their trial began. A search that was stopped and went on later leaves a gap,
of which a pause counts at most. Test: transfer/test_timeline.py.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..tuning.logs import Line
from .kernel import Kernel
from .log import trials_of

# Between two trials a search chooses the next ones, which takes seconds; what is longer is a pause.
_PAUSE_SECONDS = 60.0


class Moment(NamedTuple):
    """A trial, and how long the search had taken when it ended."""

    seconds: float
    line: Line


def timeline(lines: Iterable[Line]) -> list[Moment]:
    """The trials of a search in their order. Lines that do not say when (of other tools) take no
    time."""
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
    """The trials that had ended after so many seconds."""
    return [moment.line for moment in moments if moment.seconds <= seconds]


def transfer_seconds(path: str | os.PathLike[str]) -> float:
    """How long the transfers took that a log tells of, those without meaning too."""
    return sum(float(facts.get("took", 0.0)) for facts in trials_of(path).values())


def model_seconds(kernels: Sequence[Kernel], lines: Iterable[Line]) -> float | None:
    """The kernels of one run of a model together, each with its best trial; None where one has
    none that ran."""
    best: dict[str, float] = {}
    for line in lines:
        if line.seconds is not None:
            best[line.workload] = min(line.seconds, best.get(line.workload, math.inf))
    if any(kernel.workload not in best for kernel in kernels):
        return None
    return sum(kernel.calls * best[kernel.workload] for kernel in kernels)


def seconds_to_match(
    kernels: Sequence[Kernel], moments: Sequence[Moment], wanted: float
) -> float | None:
    """When a search's kernels were together as fast as `wanted`; None where they never were."""
    best: dict[str, float] = {}
    calls: Mapping[str, int] = {kernel.workload: kernel.calls for kernel in kernels}
    for moment in moments:
        workload, seconds = moment.line.workload, moment.line.seconds
        if seconds is None or workload not in calls:
            continue
        best[workload] = min(seconds, best.get(workload, math.inf))
        if len(best) == len(calls) and sum(calls[w] * s for w, s in best.items()) <= wanted:
            return moment.seconds
    return None


def _began(line: Line) -> tuple[float, float]:
    """When a trial began and how long it took, as its line says."""
    _, _, took, began = json.loads(line.text)["r"]
    return float(began), float(took)
