# SPDX-License-Identifier: Apache-2.0
"""Contestants beside each other: right outputs first, then paired ratios to the best.

Test: measure/race/test_race.py.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...costs.compared import DEPENDENT_ROUNDS, ComparedPlan, Ratio
from ...costs.cost import Cost, CostStatus
from ...costs.rounding import ROUNDING
from ...costs.statistics import (
    CONFIDENCE,
    Interval,
    is_dependent,
    ratio_interval,
    relative_to_fastest,
)
from ...exec.arrays import load_arrays
from .race import Contestant, RaceOptions, Samples, race

# The reference's name where that is no contestant, but what the model's original file computes.
ORIGINAL = "the original"
# Runtimes compute sigmoid, tanh and exp to some roundings of one, however small the result is. So
# outputs that are all smaller than this are off an original's by a share of this.
LEAST_SCALE = 5e-3


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One contestant beside the others."""

    name: str
    cost: Cost
    # Median of its seconds over the best one's, round by round, with a 95 % interval; 1 for the
    # best itself, None when it failed.
    ratio_to_best: Interval | None = None
    # max|a-b| / max|b| over its outputs a against those of `reference`, b; None when either has
    # none.
    output_error: float | None = None
    samples: tuple[float, ...] = dataclasses.field(default=(), repr=False)  # from the first round
    reference: str | None = None  # whose outputs were right
    same_as: str = ""  # the contestant, equal to this one, that was measured for it
    # The ratios follow the ones of the rounds before so much that the interval is too narrow by
    # half or more.
    is_dependent: bool = False
    memory_bytes: int = 0  # the most memory that it took, 0: not known
    library_bytes: int = 0  # its file's size, 0: not known

    def Summary(self) -> str:
        same = f"same as {self.same_as}, " if self.same_as else ""
        text = f"{self.name}: {same}{self.cost.Summary()}"
        if self.ratio_to_best is not None:
            text += f"; {self.ratio_to_best.Summary(unit='of the best')}"
        if self.is_dependent:
            text += f", {DEPENDENT_ROUNDS}"
        return text


@dataclasses.dataclass(frozen=True, kw_only=True)
class RightOutputs:
    """The outputs that are right, and how far off these others may be."""

    references: Sequence[str] = ()  # contestants by preference: the first that has outputs counts
    # The contestant whose rounding others may have as well; "" where none is trusted so far: who
    # stands in for it may be the one that is wrong.
    trusted: str = ""
    # max|a-b| / max|b| above which outputs are wrong, for all or by name; None: never.
    rtol: float | None | Mapping[str, float] = 1e-4
    truth: str = ""  # an .npz file of right outputs, which count before any reference's
    # Outputs that were computed with 64 bits, or None; asked where a contestant would be wrong, who
    # is right if it is within rtol of these, or no further from them than the truth is, or what is
    # trusted.
    exact: Callable[[], Sequence[np.ndarray] | None] | None = None
    # The user's, in the place of max|a-b| / max|b|.
    metric: OutputMetric | None = None


class OutputMetric(NamedTuple):
    """A measure of how far outputs are off those that are right."""

    name: str
    error: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], float]


def compare(
    contestants: Sequence[Contestant],
    reference: str | Sequence[str] | None = None,
    rounds: int = 30,
    rtol: float | None | Mapping[str, float] = 1e-4,
    *,
    truth: str = "",
    exact: Callable[[], Sequence[np.ndarray] | None] | None = None,
    **options: Any,
) -> list[Comparison]:
    """Measure interleaved and compare; the best first, failures last.

    reference: the contestant whose outputs are right, or several by preference, of which the first
    that has outputs counts; another whose output error is above rtol (its own, where rtol is by
    name) gets the status wrong_result and is not timed. If every reference failed, outputs are not
    compared. truth: an .npz file of right outputs, which count before any reference's. exact:
    see RightOutputs. Options: those of RaceOptions.
    ValueError for a reference that does not take part.
    """
    references = [reference] if isinstance(reference, str) else list(reference or [])
    trusted = references[0] if references else ""
    right = RightOutputs(
        references=references, trusted=trusted, rtol=rtol, truth=truth, exact=exact
    )
    return compared(contestants, right, RaceOptions(rounds=rounds, **options))


def compared(
    contestants: Sequence[Contestant], right: RightOutputs, options: RaceOptions
) -> list[Comparison]:
    """Measure interleaved and compare; the best first, failures last.

    ValueError for a reference that does not take part.
    """
    for name in right.references:
        if name not in [c.name for c in contestants]:
            raise ValueError(f"the reference {name!r} is none of the contestants")
    judge = _Judge(right)
    results = race(contestants, options, judge)
    source, errors = judge.errors(results)
    costs = {name: result.cost() for name, result in results.items()}
    seconds = {name: results[name].seconds for name, cost in costs.items() if cost.is_usable}
    usable = best_first(seconds)
    best = seconds[usable[0]] if usable else []
    return [
        Comparison(
            name,
            costs[name].with_remark(judge.remarks.get(name, "")),
            paired_ratio(seconds[name], best) if name in seconds else None,
            output_error=errors.get(name),
            samples=tuple(results[name].seconds),
            reference=source if name in errors else None,
            is_dependent=name in seconds and are_dependent(seconds[name], best),
            memory_bytes=results[name].memory_bytes,
        )
        for name in [*usable, *(name for name in costs if name not in seconds)]
    ]


class _Judge:
    """Fails those whose outputs are wrong, and remarks on those that 64 bits spare."""

    def __init__(self, right: RightOutputs) -> None:
        self.remarks: dict[str, str] = {}
        self._right = right
        self._given = list(load_arrays(right.truth).values()) if right.truth else []
        least = LEAST_SCALE if self._given else 0.0
        largest = OutputMetric("", functools.partial(output_error, least=least))
        self._metric = right.metric or largest

    def errors(self, results: Mapping[str, Samples]) -> tuple[str | None, dict[str, float]]:
        """Return whose outputs are right, and everybody's error."""
        outputs = {name: result.outputs for name, result in results.items() if result.outputs}
        source, right = _right_outputs(outputs, self._right.references, self._given)
        return source, _output_errors(outputs, right, self._metric)

    def __call__(self, results: Mapping[str, Samples]) -> dict[str, Cost]:
        rtol, references = self._right.rtol, self._right.references
        outputs = {name: result.outputs for name, result in results.items() if result.outputs}
        source, right = _right_outputs(outputs, references, self._given)
        wrong = _wrong_results(
            _output_errors(outputs, right, self._metric), rtol, self._metric.name
        )
        rounded = self._right.exact() if wrong and self._right.exact is not None else None
        if rounded is None:
            return wrong
        trusted = self._right.trusted
        known = [right] if self._given else []
        known += [outputs[trusted]] if trusted in outputs else []
        errors = _output_errors(outputs, rounded, self._metric)
        allowed = _rounding_in([self._metric.error(each, rounded) for each in known])
        still = _wrong_results(errors, rtol, self._metric.name, allowed)
        for name in wrong.keys() - still.keys():
            beside = f"beside {source}, and by {errors[name]:.1e} beside 64 bits"
            self.remarks[name] = f"{wrong[name].message} {beside}"
        return {name: cost for name, cost in wrong.items() if name in still}


def best_first(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Return names by seconds relative to the fastest of each round. Whoever left after a few
    rounds is behind all that stayed: figures of different rounds do not compare."""
    order: list[str] = []
    for count in sorted({len(seconds) for seconds in samples.values()}, reverse=True):
        group = {name: each for name, each in samples.items() if len(each) == count}
        relative = relative_to_fastest(group)
        order += sorted(group, key=lambda name: relative[name])
    return order


def _right_outputs(
    outputs: Mapping[str, Sequence[np.ndarray]],
    references: Sequence[str],
    given: Sequence[np.ndarray],
) -> tuple[str | None, Sequence[np.ndarray]]:
    """Return whose outputs are right, and these: the given ones, else those of the first reference
    that has any."""
    if given:
        return ORIGINAL, given
    source = next((name for name in references if name in outputs), None)
    return source, outputs[source] if source is not None else []


def _output_errors(
    outputs: Mapping[str, Sequence[np.ndarray]], right: Sequence[np.ndarray], metric: OutputMetric
) -> dict[str, float]:
    """Everybody's error; nobody's where nothing is known to be right."""
    found = outputs.items() if right else ()
    return {name: metric.error(own, right) for name, own in found}


def _rounding_in(errors: Sequence[float]) -> float:
    """Return the largest of the errors that may come of rounding; 0 for none."""
    return max((error for error in errors if error <= ROUNDING), default=0.0)


def _wrong_results(
    errors: Mapping[str, float],
    rtol: float | None | Mapping[str, float],
    metric: str,
    allowed: float = 0.0,
) -> dict[str, Cost]:
    """Return the failures of those whose error is above rtol and what else is allowed, or no
    number; by a `metric` of the user's, or ""."""
    unit = f"by the metric {metric}" if metric else "of the largest value"
    limits = rtol if isinstance(rtol, Mapping) else dict.fromkeys(errors, rtol)
    return {
        name: Cost.failed(
            CostStatus.WRONG_RESULT,
            f"its output is off by {error:.3g} {unit} (limit {limit:g})",
        )
        for name, error in errors.items()
        if (limit := limits[name]) is not None and not error <= max(limit, allowed)
    }


def paired_ratio(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """ratio_interval over the rounds that both ran: one of them may have left after a few. A
    contestant beside itself is its equal, however few the rounds."""
    if numerator is denominator and len(numerator):
        return Interval(1.0, 1.0, 1.0)
    count = min(len(numerator), len(denominator))
    return ratio_interval(numerator[:count], denominator[:count], confidence)


def are_dependent(numerator: Sequence[float], denominator: Sequence[float]) -> bool:
    """Return whether paired_ratio's interval is too narrow, since the ratios follow those before
    them."""
    return is_dependent([a / b for a, b in zip(numerator, denominator, strict=False)])


def output_error(
    outputs: Sequence[np.ndarray], truth: Sequence[np.ndarray], least: float = 0.0
) -> float:
    """max|a-b| / max|b|, which counts as `least` where it is less, the worst over the outputs;
    infinite for other counts, shapes or for NaN where the truth has none."""
    if len(outputs) != len(truth):
        return math.inf
    worst = 0.0
    for a, b in zip(outputs, truth, strict=True):
        if a.shape != b.shape:
            return math.inf
        if not b.size:
            continue
        a, b = a.astype("float64"), b.astype("float64")
        nothing = np.isnan(a) & np.isnan(b)
        a, b = np.where(nothing, 0.0, a), np.where(nothing, 0.0, b)
        same = a == b  # infinities of one sign are equal, their difference is no number
        difference = float(np.max(np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))))
        if math.isnan(difference):
            return math.inf
        scale = max(least, float(np.max(np.abs(np.where(np.isfinite(b), b, 0.0)))))
        worst = max(worst, difference / scale if scale > 0 else (math.inf if difference else 0.0))
    return worst


def compare_plans(
    comparisons: Sequence[Comparison], singles: Collection[str], chosen: str | None = None
) -> tuple[ComparedPlan, ...]:
    """Return a record for each plan, in the order given.

    `singles` names the plans of one backend alone: the fastest of them is what the others are
    compared with. `chosen` is the plan that ships.
    """
    best = best_single(comparisons, singles)
    ships = next((item for item in comparisons if item.name == chosen), None)
    return tuple(
        ComparedPlan(
            name=item.name,
            is_single_backend=item.name in singles,
            is_chosen=item.name == chosen,
            status=item.cost.status,
            seconds=item.cost.seconds,
            low=item.cost.low,
            high=item.cost.high,
            rounds=item.cost.rounds,
            flags=item.cost.flags,
            ratio_to_best_single=_ratio(best, item),
            ratio_to_chosen=_ratio(item, ships),
            is_dependent=item.is_dependent or _depends_on(best, item),
            output_error=_finite(item.output_error),
            message=item.cost.remarks,
            same_as=item.same_as,
            memory_bytes=item.memory_bytes,
            library_bytes=item.library_bytes,
        )
        for item in comparisons
    )


def best_single(comparisons: Sequence[Comparison], singles: Collection[str]) -> Comparison | None:
    """Return the fastest plan of one backend alone, by the rounds that they share; None when none
    ran."""
    usable = [item for item in comparisons if item.name in singles and item.cost.is_usable]
    order = best_first({item.name: item.samples for item in usable if item.samples})
    return next((item for item in usable if order and item.name == order[0]), None)


def _ratio(above: Comparison | None, below: Comparison | None) -> Ratio | None:
    if above is None or below is None or not (_has_ratio(above) and _has_ratio(below)):
        return None
    return Ratio.of(paired_ratio(above.samples, below.samples))


def _depends_on(best: Comparison | None, item: Comparison) -> bool:
    return best is not None and _has_ratio(item) and are_dependent(best.samples, item.samples)


def _has_ratio(item: Comparison) -> bool:
    return item.cost.is_usable and bool(item.samples)


def _finite(value: float | None) -> float | None:
    """Return None for infinity, which JSON has not: such a plan says so in its message."""
    return value if value is not None and math.isfinite(value) else None
