# SPDX-License-Identifier: Apache-2.0
"""Medians and ratios of timings with 95 % intervals; deterministic.

Test: costs/test_statistics.py.

Assumption: samples are independent draws of one distribution. Timings are not quite (frequency and
neighbours drift), so two contestants are compared by interleaved rounds, pair by pair, and
`dependence` says how much a sample is like the one before it.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import statistics as _stdlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CONFIDENCE = 0.95
# A dependence from which an interval is too narrow by sqrt(1.6 / 0.4): a factor of 2.
_STRONG = 0.6
# Up to so many samples probabilities are exact.
_EXACT = 500


class Interval(NamedTuple):
    """A value with the bounds of its interval; three floats in the samples' unit.

    The bounds are infinite where too few samples can have the confidence that was asked for.
    """

    value: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def Summary(self, form: str = ".3f", unit: str = "") -> str:
        """1.230 [1.200, 1.260], with the unit behind it. The value alone where the interval has no
        width: what is beside itself is 1 by definition. Where it has no bounds it says so."""
        text = format(self.value, form)
        if self.is_bounded and self.low < self.high:
            text += f" [{format(self.low, form)}, {format(self.high, form)}]"
        if unit:
            text += f" {unit}"
        return text if self.is_bounded else f"{text} (too few rounds to be sure)"

    def to_json(self) -> dict[str, float | None]:
        """Return the bounds by name; an infinite one, which JSON cannot say, is None."""
        return {k: v if math.isfinite(v) else None for k, v in self._asdict().items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Interval:
        """Invert to_json. TypeError, ValueError or KeyError for anything else."""
        value, low, high = (fields[name] for name in cls._fields)
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return cls(float(value), float(low), float(high))


@functools.cache
def _order_statistic(count: int, confidence: float) -> int:
    """Return the largest k for which the k-th smallest and k-th largest of `count` enclose the
    median with the confidence, 0 when none does.

    The number of samples under the median is binomial(count, 1/2) whatever the distribution, so
    the interval misses with probability 2 * P(fewer than k samples under the median).
    """
    k, below = 0, 0.0
    while k < count // 2:
        below += _binomial(count, k)
        if 2 * below > 1 - confidence:
            break
        k += 1
    return k


def _binomial(count: int, k: int) -> float:
    """Return P(k of count) at 1/2; of many by logarithms, since exact numbers take minutes then."""
    if count <= _EXACT:
        return math.comb(count, k) / 2**count
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return math.exp(ways - count * math.log(2))


def fewest_samples(confidence: float = CONFIDENCE) -> int:
    """Return the fewest samples whose range holds the median with the confidence: 6 for 95 %."""
    return next(count for count in itertools.count(1) if _order_statistic(count, confidence))


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median and its interval by order statistics, free of any distribution.

    Under `fewest_samples` no range of theirs has the confidence: then the interval is infinite.
    ValueError when empty.
    """
    if not len(samples):
        raise ValueError("the median of no samples")
    ordered = sorted(float(s) for s in samples)
    k = _order_statistic(len(ordered), confidence)
    middle = len(ordered) // 2
    value = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return (
        Interval(value, ordered[k - 1], ordered[-k]) if k else Interval(value, -math.inf, math.inf)
    )


def upper_quartile(samples: Sequence[float]) -> float:
    """Return the value that three quarters of the samples are at most (linear between samples)."""
    if len(samples) < 2:
        return float(samples[0])
    return float(_stdlib.quantiles(samples, n=4, method="inclusive")[2])


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return the median of numerator / denominator round by round, with its interval.

    Samples i of both come from one interleaved round, so what slowed the machine in that round
    cancels out; it does not in the ratio of the two medians. Too few samples give the interval
    from 0 to infinity. ValueError when the lengths differ.
    """
    if len(numerator) != len(denominator) or not len(numerator):
        raise ValueError(
            f"paired samples need equal lengths >= 1, not {len(numerator)} and {len(denominator)}"
        )
    if not all(math.isfinite(a) and b > 0 for a, b in zip(numerator, denominator, strict=True)):
        raise ValueError("ratios need finite numerators and denominators > 0")
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    value, low, high = median_interval(ratios, confidence)
    return Interval(value, max(low, 0.0), high)


def dependence(samples: Sequence[float]) -> float:
    """Return how much a sample is like the one before it: the correlation of their ranks, from -1
    to 1.

    About 0, give or take 1 / sqrt(samples), for independent ones; intervals are too narrow by
    sqrt((1 + r) / (1 - r)) where it is r. 0 for under 3 samples, and where all are equal.
    """
    if len(samples) < 3 or min(samples) == max(samples):
        return 0.0
    ordered = sorted(samples)
    ranks = [bisect.bisect_left(ordered, s) + bisect.bisect_right(ordered, s) for s in samples]
    before, after = ranks[:-1], ranks[1:]
    if min(before) == max(before) or min(after) == max(after):
        return 0.0
    return _stdlib.correlation(before, after)


def is_dependent(samples: Sequence[float]) -> bool:
    """Return whether samples depend so strongly on those before them, and are so many, that it is
    no chance (3 standard deviations) and their intervals are a half as wide as they should be."""
    return dependence(samples) > max(_STRONG, 3 / math.sqrt(len(samples)))


def relative_to_fastest(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return, by name, the median of its seconds over those of the fastest one in the same round.

    Orders contestants on a machine whose speed changes from round to round, where medians of each
    alone do not. All have samples of the same rounds.
    """
    fastest = [min(each) for each in zip(*samples.values(), strict=True)]
    return {name: ratio_interval(each, fastest).value for name, each in samples.items()}


def is_narrow(interval: Interval, width: float) -> bool:
    """Return whether the interval's full width is at most `width` (0.03: 3 %) of its value."""
    return interval.high - interval.low <= width * interval.value
