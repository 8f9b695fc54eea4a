# SPDX-License-Identifier: Apache-2.0
"""Contestants beside each other: right outputs first, then paired ratios to the best.

Test: timing/test_interleave.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..costs.cost import Cost, CostStatus
from ..costs.statistics import (
    CONFIDENCE,
    Interval,
    is_dependent,
    ratio_interval,
    relative_to_fastest,
)
from .interleave import Contestant, Samples, measure_interleaved

# What is said of an interval whose rounds depend on each other.
DEPENDENT_ROUNDS = "rounds depend on those before: the interval is too narrow"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One contestant beside the others.

    ratio_to_best: median of its seconds over the best one's, round by round, with a 95 % interval
    (1 for the best itself), None when it failed. is_dependent: these ratios follow the ones of the
    rounds before so much that the interval is too narrow by half or more. output_error:
    max|a-b| / max|b| over its outputs a against the outputs b of the contestant `reference`; both
    None when either has none. `samples`
    are in the order of rounds, from the first one on. `same_as` names the contestant, equal to
    this one, that was measured for it; "" for one that was measured itself. memory_bytes: the most
    memory that it took, library_bytes: its file's size, both 0 where that is not known.
    """

    name: str
    cost: Cost
    ratio_to_best: Interval | None = None
    output_error: float | None = None
    samples: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    reference: str | None = None
    same_as: str = ""
    is_dependent: bool = False
    memory_bytes: int = 0
    library_bytes: int = 0

    def Summary(self) -> str:
        same = f"same as {self.same_as}, " if self.same_as else ""
        text = f"{self.name}: {same}{self.cost.Summary()}"
        if self.ratio_to_best is not None:
            text += f"; {self.ratio_to_best.Summary(unit='of the best')}"
        if self.is_dependent:
            text += f", {DEPENDENT_ROUNDS}"
        return text


def compare(
    contestants: Sequence[Contestant],
    reference: str | Sequence[str] | None = None,
    rounds: int = 30,
    rtol: float | None | Mapping[str, float] = 1e-4,
    **options: Any,
) -> list[Comparison]:
    """Measure interleaved and compare; the best first, failures last.

    reference: the contestant whose outputs are right, or several by preference, of which the first
    that has outputs counts; another whose output error is above rtol (its own, where rtol is by
    name) gets the status wrong_result and is not timed. If every reference failed, outputs are not
    compared. ValueError for a reference that does not take part. Options: measure_interleaved's.
    """
    references = [reference] if isinstance(reference, str) else list(reference or [])
    for name in references:
        if name not in [c.name for c in contestants]:
            raise ValueError(f"the reference {name!r} is none of the contestants")

    def judge(results: Mapping[str, Samples]) -> dict[str, Cost]:
        return _wrong_results(_output_errors(results, references)[1], rtol)

    results = measure_interleaved(contestants, rounds, judge=judge, **options)
    source, errors = _output_errors(results, references)
    costs = {name: result.cost() for name, result in results.items()}
    usable = [name for name, cost in costs.items() if cost.is_usable]
    usable = best_first({name: results[name].seconds for name in usable})
    ratios = {
        name: paired_ratio(results[name].seconds, results[usable[0]].seconds) for name in usable
    }
    dependent = {
        name for name in usable if are_dependent(results[name].seconds, results[usable[0]].seconds)
    }
    order = usable + [name for name in costs if name not in usable]
    return [
        Comparison(
            name,
            costs[name],
            ratios.get(name),
            errors[name],
            tuple(results[name].seconds),
            source if errors[name] is not None else None,
            is_dependent=name in dependent,
            memory_bytes=results[name].memory_bytes,
        )
        for name in order
    ]


def best_first(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Names by seconds relative to the fastest of each round. Whoever left after a few rounds is
    behind all that stayed: figures of different rounds do not compare."""
    order: list[str] = []
    for count in sorted({len(seconds) for seconds in samples.values()}, reverse=True):
        group = {name: each for name, each in samples.items() if len(each) == count}
        relative = relative_to_fastest(group)
        order += sorted(group, key=lambda name: relative[name])
    return order


def _output_errors(
    results: Mapping[str, Samples], references: Sequence[str]
) -> tuple[str | None, dict[str, float | None]]:
    """The first reference that has outputs, and everybody's error against them."""
    source = next((name for name in references if results[name].outputs), None)
    truth = results[source].outputs if source is not None else []
    return source, {
        name: output_error(r.outputs, truth) if truth and r.outputs else None
        for name, r in results.items()
    }


def _wrong_results(
    errors: Mapping[str, float | None], rtol: float | None | Mapping[str, float]
) -> dict[str, Cost]:
    """The failures of those whose error is above rtol, or no number."""
    limits = rtol if isinstance(rtol, Mapping) else dict.fromkeys(errors, rtol)
    return {
        name: Cost.failed(
            CostStatus.WRONG_RESULT,
            f"its output is off by {error:.3g} of the largest value (limit {limits[name]:g})",
        )
        for name, error in errors.items()
        if error is not None and (limit := limits[name]) is not None and not error <= limit
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
    """Whether paired_ratio's interval is too narrow, since the ratios follow those before them."""
    return is_dependent([a / b for a, b in zip(numerator, denominator, strict=False)])


def output_error(outputs: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    """max|a-b| / max|b|, the worst over the outputs; infinite for other counts, shapes or for NaN
    where the truth has none."""
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
        scale = float(np.max(np.abs(np.where(np.isfinite(b), b, 0.0))))
        worst = max(worst, difference / scale if scale > 0 else (math.inf if difference else 0.0))
    return worst
