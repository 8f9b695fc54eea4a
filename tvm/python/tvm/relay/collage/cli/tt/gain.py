# SPDX-License-Identifier: Apache-2.0
"""The gain of a whole model by transferred schedules, and what Ansor's search gains in the same
time and at last (paper, section 5). Test: cli/test_tt_gain.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ...costs.statistics import Interval
from ...exec.pool import WorkerPool
from ...measure.race.comparison import Comparison, paired_ratio
from ...messages.progress import OnStep, untold
from ...tuning.log import best_lines, load_records, records_of
from ...tuning.model import Model
from ...tuning.transfer.log import read_ansor, transfer_seconds
from .end_to_end import UNTUNED, compare_records
from .timeline import goal_of, lines_within, seconds_to_match, timeline

TRANSFERRED, SAME_TIME, MATCHING, ANSOR = (
    "transferred",
    "ansor same time",
    "ansor matching",
    "ansor",
)


class HasSpeedup:
    """A record, a dataclass, of how many times as fast as untuned a model is."""

    speedup: Interval | None  # untuned over it; None where it could not be built or run
    failure: str  # the reason why there is none

    def gained(self) -> str:
        """Return the speed-up for people, or why there is none."""
        if self.speedup is None:
            return self.failure
        return self.speedup.Summary(unit="times as fast as untuned")

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "speedup": self.speedup and self.speedup.to_json()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Undo to_json. TypeError, ValueError or KeyError for anything else."""
        speedup = fields["speedup"] and Interval.from_json(fields["speedup"])
        return cls(**{**fields, "speedup": speedup})


@dataclasses.dataclass(frozen=True)
class Side(HasSpeedup):
    """One way to schedule a model."""

    name: str
    search_seconds: float  # how long that took
    speedup: Interval | None
    seconds: float | None  # of one run
    failure: str = ""

    def Summary(self) -> str:
        after = f" after {self.search_seconds:.0f} s" if self.speedup else ""
        return f"{self.name}: {self.gained()}{after}"


@dataclasses.dataclass(frozen=True)
class Gain:
    """The speed-ups of a model by several ways to schedule it."""

    model: str  # its name
    sides: tuple[Side, ...]
    trials: Mapping[str, int]  # of both logs
    # When Ansor's kernels alone were together as fast as the transferred ones; None where they were
    # not by the end of its log.
    matching_seconds: float | None

    def of(self, name: str) -> Side:
        """Return the side of a name; KeyError for one that took no part."""
        return {side.name: side for side in self.sides}[name]

    @property
    def share_of_gain(self) -> Interval | None:
        """The share of what Ansor gained at last that transfers gained: (speed-up - 1) of both;
        None where it is not sure that Ansor gained something, or one of them failed. The bounds are
        the least and the most that both intervals allow, whether or not one error goes with
        another."""
        transferred, ansor = self.of(TRANSFERRED).speedup, self.of(ANSOR).speedup
        if transferred is None or ansor is None or ansor.low <= 1:
            return None
        bounds = [
            (gained - 1) / (of - 1)
            for gained in (transferred.low, transferred.high)
            for of in (ansor.low, ansor.high)
        ]
        return Interval((transferred.value - 1) / (ansor.value - 1), min(bounds), max(bounds))

    def lines(self) -> list[str]:
        """Return what is told of it, line by line."""
        took = self.of(TRANSFERRED).search_seconds
        if self.matching_seconds is None:
            match = f"Ansor's kernels did not match within {self.of(ANSOR).search_seconds:.0f} s"
        else:
            times = f", {self.matching_seconds / took:.1f} times as long" if took else ""
            match = f"Ansor's kernels matched after {self.matching_seconds:.0f} s{times}"
        share = self.share_of_gain
        gained = [] if share is None else [f"share of Ansor's gain: {percent(share)}"]
        return [f"{self.model}:", *(side.Summary() for side in self.sides), match, *gained]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "sides": [side.to_json() for side in self.sides]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Gain:
        """Undo to_json. TypeError, ValueError or KeyError for anything else."""
        sides = tuple(map(Side.from_json, fields["sides"]))
        return cls(**{**fields, "sides": sides})


def percent(share: Interval) -> str:
    """Return hundred times a share, for people."""
    return Interval(*(100 * each for each in share)).Summary(".0f", "%")


def compare_searches(
    model: Model,
    transferred: Path,
    ansor: Path,
    workers: WorkerPool,
    rounds: int = 30,
    on_step: OnStep = untold,
) -> Gain:
    """Measure a whole model with the schedules of two logs, and of parts of Ansor's.

    TuningLogError, MachineError.
    """
    target = model.candidate.target
    goal, searched = read_ansor(transferred), read_ansor(ansor)
    took, moments = transfer_seconds(transferred), timeline(searched)
    kernels, wanted = goal_of(model.kernels, goal)
    matching = None if wanted is None else seconds_to_match(kernels, moments, wanted)
    at_last = moments[-1].seconds if moments else 0.0
    cuts = {SAME_TIME: took, MATCHING: matching, ANSOR: at_last}
    records = {TRANSFERRED: load_records([transferred], target)}
    times = {UNTUNED: 0.0, TRANSFERRED: took}
    for name, cut in cuts.items():
        if cut is not None:
            records[name] = records_of(best_lines(lines_within(moments, cut)), target)
            times[name] = cut
    found = compare_records(model.candidate, records, workers, rounds=rounds, on_step=on_step)
    by_name = {item.name: item for item in found}
    sides = [_side(by_name[name], by_name[UNTUNED], times[name]) for name in times]
    trials = {TRANSFERRED: len(goal), ANSOR: len(searched)}
    return Gain(Path(model.candidate.label).stem, tuple(sides), trials, matching_seconds=matching)


def _side(item: Comparison, untuned: Comparison, search_seconds: float) -> Side:
    if not item.samples or not untuned.samples:
        return Side(item.name, search_seconds, None, seconds=None, failure=item.cost.Summary())
    ratio = paired_ratio(untuned.samples, item.samples)
    return Side(item.name, search_seconds, ratio, seconds=item.cost.seconds)
