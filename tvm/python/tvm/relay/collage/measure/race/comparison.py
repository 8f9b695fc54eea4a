# SPDX-License-Identifier: Apache-2.0
"""Contestants beside each other: right outputs first, then paired ratios to the best.

Test: measure/race/test_interleave.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

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
from .interleave import Contestant, Samples, measure_interleaved

# What is said of an interval whose rounds depend on each other.
DEPENDENT_ROUNDS = "rounds depend on those before: the interval is too narrow"
# The reference's name where that is no contestant, but what the model's original file computes.
ORIGINAL = "the original"
# Runtimes compute sigmoid, tanh and exp to some roundings of one, however small the result is. So
# outputs that are all smaller than this are off an original's by a share of this.
LEAST_SCALE = 5e-3


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
    *,
    truth: str = "",
    exact: Callable[[], Sequence[np.ndarray] | None] | None = None,
    **options: Any,
) -> list[Comparison]:
    """Measure interleaved and compare; the best first, failures last.

    reference: the contestant whose outputs are right, or several by preference, of which the first
    that has outputs counts; another whose output error is above rtol (its own, where rtol is by
    name) gets the status wrong_result and is not timed. If every reference failed, outputs are not
    compared. ValueError for a reference that does not take part.
    truth: an .npz file of right outputs, which count before any reference's. exact: gives outputs
    that were computed with 64 bits, or None; it is asked where a contestant would be wrong, who is
    right if it is within rtol of these, or no further from them than the right outputs are, or the
    first reference's. Options: measure_interleaved's.
    """
    references = [reference] if isinstance(reference, str) else list(reference or [])
    for name in references:
        if name not in [c.name for c in contestants]:
            raise ValueError(f"the reference {name!r} is none of the contestants")
    given = list(load_arrays(truth).values()) if truth else []
    least = LEAST_SCALE if given else 0.0
    remarks: dict[str, str] = {}

    def judge(results: Mapping[str, Samples]) -> dict[str, Cost]:
        outputs = {name: result.outputs for name, result in results.items() if result.outputs}
        source, right = _right_outputs(outputs, references, given)
        wrong = _wrong_results(_output_errors(outputs, right, least), rtol)
        rounded = exact() if wrong and exact is not None else None
        if rounded is None:
            return wrong
        known = [right, *(outputs[name] for name in references[:1] if name in outputs)]
        errors = _output_errors(outputs, rounded, least)
        allowed = _rounding_in([output_error(each, rounded, least) for each in known])
        still = _wrong_results(errors, rtol, allowed)
        remarks.update(
            (
                name,
                f"{wrong[name].message} beside {source}, and by {errors[name]:.1e} beside 64 bits",
            )
            for name in wrong.keys() - still.keys()
        )
        return {name: cost for name, cost in wrong.items() if name in still}

    results = measure_interleaved(contestants, rounds, judge=judge, **options)
    outputs = {name: result.outputs for name, result in results.items() if result.outputs}
    source, right = _right_outputs(outputs, references, given)
    errors = _output_errors(outputs, right, least)
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
            _with_remark(costs[name], remarks.get(name, "")),
            ratios.get(name),
            errors.get(name),
            tuple(results[name].seconds),
            source if name in errors else None,
            is_dependent=name in dependent,
            memory_bytes=results[name].memory_bytes,
        )
        for name in order
    ]


def _with_remark(cost: Cost, remark: str) -> Cost:
    text = "; ".join(filter(None, (cost.message, remark)))
    return dataclasses.replace(cost, message=text)


def best_first(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Names by seconds relative to the fastest of each round. Whoever left after a few rounds is
    behind all that stayed: figures of different rounds do not compare."""
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
    """Whose outputs are right, and these: the given ones, else those of the first reference that
    has any."""
    if given:
        return ORIGINAL, given
    source = next((name for name in references if name in outputs), None)
    return source, outputs[source] if source is not None else []


def _output_errors(
    outputs: Mapping[str, Sequence[np.ndarray]], right: Sequence[np.ndarray], least: float
) -> dict[str, float]:
    """Everybody's error; nobody's where nothing is known to be right."""
    found = outputs.items() if right else ()
    return {name: output_error(own, right, least) for name, own in found}


def _rounding_in(errors: Sequence[float]) -> float:
    """The largest of the errors that may come of rounding; 0 for none."""
    return max((error for error in errors if error <= ROUNDING), default=0.0)


def _wrong_results(
    errors: Mapping[str, float],
    rtol: float | None | Mapping[str, float],
    allowed: float = 0.0,
) -> dict[str, Cost]:
    """The failures of those whose error is above rtol and what else is allowed, or no number."""
    limits = rtol if isinstance(rtol, Mapping) else dict.fromkeys(errors, rtol)
    return {
        name: Cost.failed(
            CostStatus.WRONG_RESULT,
            f"its output is off by {error:.3g} of the largest value (limit {limit:g})",
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
    """Whether paired_ratio's interval is too narrow, since the ratios follow those before them."""
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
