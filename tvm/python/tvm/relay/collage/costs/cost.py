# SPDX-License-Identifier: Apache-2.0
"""Costs of candidates, or why one is not known; failures are data.

Test: costs/test_cost.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

from tvm_collage.words import CostStatus

from ..files.records import described
from .statistics import median_interval, upper_quartile

STATUSES = tuple(CostStatus)
# Full width of the median's interval, as a share of it, from which a cost is marked as noisy.
_WIDE = 0.2
# What makes a cost doubtful, as those see it who get no more of a cost than that.
FLAGS = ("estimated", "noisy", "busy", "unverified")
# What the search can add up (kMaxSeconds in search/cover_problem.h); nothing runs for 12 days.
MOST_SECONDS = 1.0e6
# Of times as people read them, the largest first.
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class _OfStatus:
    """The base of what has a status."""

    status: CostStatus

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", CostStatus(self.status))  # files and users have its text

    @property
    def is_usable(self) -> bool:
        """Return whether the candidate may be part of a plan."""
        return self.status.has_seconds

    @property
    def is_failure(self) -> bool:
        return self.status.is_failure


@dataclasses.dataclass(frozen=True)
class PartCost(_OfStatus):
    """The cost of a part alone, as the pass is told it and a placement keeps it."""

    status: CostStatus = described("as in docs/measuring.md")
    seconds: float | None = described("of one run; null without a cost", minimum=0)
    message: str = described("why there is no cost, or what is odd about it")
    flags: tuple[str, ...] = described("what makes it doubtful", default=(), enum=FLAGS)

    def Summary(self) -> str:
        """Return one line: "measured 1.23 ms", "timeout: after 60 s"."""
        if self.seconds is None:
            return f"{self.status}: {self.message}" if self.message else self.status
        text = f"{self.status} {format_seconds(self.seconds)}"
        return f"{text} ({self.message})" if self.message else text


@dataclasses.dataclass(frozen=True)
class Cost(_OfStatus):
    """Seconds of one run with their spread, or a failure with its message.

    `seconds` is what the search counts: the median, or where that is known badly (`is_noisy`) the
    upper quartile, so that a lucky sample wins nothing; `median` is set where `seconds` is not it.
    `low` and `high` bound the median with 95 % confidence, and are None where the samples were too
    few for that; `rounds` is their number.
    `border_seconds` is the time of layout transforms at the candidate's borders, which `seconds`
    does not include. All are None or 0 unless the status is measured or estimated. `load` is the
    share of the allowed CPUs that others took meanwhile, from 0 to 1, where they did not leave our
    threads' cores alone, else 0; a timeout may have it as well. `unverified`: its outputs were to
    be compared, and there was nothing to compare them with, as `message` says.
    """

    status: CostStatus
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    border_seconds: float = 0.0
    message: str = ""
    median: float | None = None
    load: float = 0.0
    unverified: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # Estimators make one for each of thousands of candidates.
        numbers = [n for n in (self.seconds, self.low, self.high, self.median) if n is not None]
        if self.status.has_seconds:
            has_one_bound = (self.low is None) != (self.high is None)
            wrong = [n for n in numbers if not 0 <= n <= MOST_SECONDS]
            if has_one_bound or wrong or self.seconds is None:
                raise ValueError(
                    f"a {self.status} cost needs finite seconds from 0 to {MOST_SECONDS:g}, "
                    f"not {numbers}"
                )
            if not (math.isfinite(self.border_seconds) and self.border_seconds >= 0):
                raise ValueError(f"border_seconds is {self.border_seconds}, not finite and >= 0")
        if not (math.isfinite(self.load) and self.load >= 0):
            raise ValueError(f"load is {self.load}, not finite and >= 0")
        if numbers and not self.status.has_seconds:
            raise ValueError(f"a cost of status {self.status} carries no seconds")

    @classmethod
    def unknown(cls) -> Cost:
        return cls(CostStatus.UNKNOWN)

    @classmethod
    def measured(
        cls, samples: Sequence[float], border_seconds: float = 0.0, by_quartile: bool = True
    ) -> Cost:
        """Make a cost from samples in seconds; any that is not > 0 and at most 1e6 makes it
        run_failed.

        by_quartile: of a noisy cost the upper quartile counts; False keeps the median, for what is
        compared by paired samples.
        """
        bad = [s for s in samples if not 0 < s <= MOST_SECONDS]
        if bad or not samples:
            return cls.failed(
                CostStatus.RUN_FAILED, f"timings that are no positive seconds: {bad[:3]}"
            )
        interval = median_interval(samples)
        low, high = interval[1:] if interval.is_bounded else (None, None)
        cost = cls(CostStatus.MEASURED, interval.value, low, high, len(samples), border_seconds)
        if not (cost.is_noisy and by_quartile):
            return cost
        return dataclasses.replace(cost, seconds=upper_quartile(samples), median=cost.seconds)

    @classmethod
    def given(cls, seconds: float) -> Cost:
        """Make a measured cost of which somebody tells the seconds alone."""
        return cls(CostStatus.MEASURED, seconds, seconds, seconds)

    @classmethod
    def estimated(cls, seconds: float, message: str = "") -> Cost:
        """Make a cost that was computed, given or mocked; nothing was run."""
        return cls(CostStatus.ESTIMATED, seconds, seconds, seconds, message=message)

    @classmethod
    def failed(cls, status: CostStatus | str, message: str) -> Cost:
        return cls(CostStatus(status), message=message)

    @property
    def is_noisy(self) -> bool:
        """Return whether it is measured, but the median is known badly."""
        return self.status == CostStatus.MEASURED and self.spread > _WIDE

    @property
    def is_busy(self) -> bool:
        """Return whether a busy machine may have made it what it is."""
        return self.load > 0

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the FLAGS that it has."""
        is_estimated = self.status is CostStatus.ESTIMATED
        has = (is_estimated, self.is_noisy, self.is_busy, self.unverified)
        return tuple(itertools.compress(FLAGS, has))

    @property
    def remarks(self) -> str:
        """Return what is to be known of it beside its figures, for people."""
        if not self.is_noisy:
            return self.message
        why = "too few samples to bound the median" if self.low is None else "the machine was busy"
        quartile = "" if self.median is None else ", its upper quartile counts"
        return "; ".join(filter(None, (f"noisy: {why}{quartile}", self.message)))

    @property
    def spread(self) -> float:
        """Return the full width of the interval as a share of the median; 0 without seconds,
        infinite where seconds have no interval."""
        median = self.seconds if self.median is None else self.median
        if not median:
            return 0.0
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / median

    def with_remark(self, remark: str) -> Cost:
        """Return it with that added to its message."""
        return dataclasses.replace(self, message="; ".join(filter(None, (self.message, remark))))

    def of_part(self) -> PartCost:
        """Return what of it the pass and placements keep."""
        return PartCost(self.status, self.seconds, self.message, self.flags)

    def Summary(self) -> str:
        """Return one line for logs and tables."""
        busy = f", machine busy (others took {self.load:.0%})" if self.is_busy else ""
        if not self.is_usable or self.seconds is None:
            return (f"{self.status}: {self.message}" if self.message else self.status) + busy
        text = f"{self.status} {format_seconds(self.seconds)}"
        if self.median is not None:
            text += f", median {format_seconds(self.median)}"
        if self.low is not None and self.high is not None and self.high > self.low:
            text += f" [{format_seconds(self.low)}, {format_seconds(self.high)}]"
        if self.rounds:
            text += f", {self.rounds} rounds"
        if self.border_seconds:
            text += f", borders {format_seconds(self.border_seconds)}"
        text += busy
        return text + (f" ({self.remarks})" if self.remarks else "")

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values, without the fields that stand at their defaults."""
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        return {k: v for k, v in dataclasses.asdict(self).items() if v != defaults[k]}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Cost:
        """Invert to_json; ValueError for fields that this version does not know."""
        unknown = set(fields) - {f.name for f in dataclasses.fields(cls)}
        if unknown or "status" not in fields:
            raise ValueError(f"not a cost: {sorted(fields)}")
        return cls(**fields)


def unit_of(seconds: float) -> str:
    """Return the unit in which people read it. What rounds to a thousand of one unit is one of the
    next."""
    return next((unit for unit, scale in UNITS.items() if seconds >= 0.9995 * scale), "ns")


def format_seconds(seconds: float, unit: str = "") -> str:
    """Write three significant digits with the seconds' unit, or with the one that is given: 1.23
    ms."""
    unit = unit or unit_of(seconds)
    told = seconds / UNITS[unit]
    return f"{told:{'.0f' if abs(told) >= 999.5 else '.3g'}} {unit}"
