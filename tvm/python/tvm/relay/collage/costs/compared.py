# SPDX-License-Identifier: Apache-2.0
"""A plan beside the others of one interleaved comparison, as reports keep it; times in seconds.

`measure/race/comparison.py` makes the rows. Test: report/test_tables.py.
"""

from __future__ import annotations

import dataclasses

from ..files.records import described
from .cost import FLAGS, CostStatus
from .statistics import Interval

# What is said of an interval whose rounds depend on each other.
DEPENDENT_ROUNDS = "rounds depend on those before: the interval is too narrow"


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval."""

    value: float = described("the median of the rounds")
    low: float | None = described("null where there were too few rounds for a bound")
    high: float | None = described("likewise")

    @classmethod
    def of(cls, interval: Interval) -> Ratio:
        """Return the ratio of an interval, whose bounds may be infinite."""
        return cls(**interval.to_json())  # type: ignore[arg-type]

    def Summary(self, form: str = ".3f", unit: str = "") -> str:
        """Return it as Interval.Summary does: 1.230 [1.200, 1.260] x."""
        return self.interval.Summary(form, unit)

    @property
    def interval(self) -> Interval:
        """The same with infinite bounds in place of those that are not known."""
        return Interval.from_json(vars(self))


@dataclasses.dataclass(frozen=True)
class ComparedPlan:
    """A plan, what it took end to end, and how that compares."""

    name: str = described("the plan's")
    is_single_backend: bool = described("one backend alone, and TVM for what that cannot take")
    is_chosen: bool = described("it ships")
    status: CostStatus = described("as in docs/measuring.md")
    seconds: float | None = described("of one run; null without a time", minimum=0)
    low: float | None = described("of the 95 % interval; null where rounds were too few")
    high: float | None = described("likewise")
    rounds: int = described("in which it ran", minimum=0)
    flags: tuple[str, ...] = described(
        "what makes its seconds doubtful; empty in older files", default=(), enum=FLAGS
    )
    ratio_to_best_single: Ratio | None = described(
        "best backend alone / plan, above 1 where the plan is faster; null for a plan that failed",
        default=None,
    )
    ratio_to_chosen: Ratio | None = described(
        "plan / what ships, above 1 where the plan is slower; null likewise", default=None
    )
    is_dependent: bool = described(
        "its rounds depend on those before, so that intervals are too narrow", default=False
    )
    output_error: float | None = described(
        "max|a-b| / max|b|; null where nothing was compared", default=None
    )
    message: str = described("why there is no time, or what is odd about it", default="")
    same_as: str = described("the equal plan that was measured for it; else empty", default="")
    memory_bytes: int = described("the most that it took; 0 where not known", default=0)
    library_bytes: int = described("its file's size; 0 where not known", default=0)
