# SPDX-License-Identifier: Apache-2.0
"""Medians and ratios of timings with 95 % intervals; deterministic.

Test: test_measure_statistics.py.

Assumption: samples are independent draws of one distribution. Timings are not quite (frequency and
neighbours drift), so two contestants are compared by interleaved rounds and paired resampling.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A value with the bounds of its interval; three floats in the samples' unit."""

    value: float
    low: float
    high: float


@functools.cache
def _order_statistic(count: int, confidence: float) -> int:
    """Largest k for which the k-th smallest and k-th largest of `count` enclose the median with
    the confidence, 0 when none does.

    The number of samples under the median is binomial(count, 1/2) whatever the distribution, so
    the interval misses with probability 2 * P(fewer than k samples under the median).
    """
    k, below = 0, 0.0
    while k < count // 2:
        below += math.comb(count, k) / 2**count
        if 2 * below > 1 - confidence:
            break
        k += 1
    return k


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Median and its interval by order statistics, free of any distribution.

    Under 6 samples no such interval reaches 95 %: then it is their range. ValueError when empty.
    """
    if not len(samples):
        raise ValueError("the median of no samples")
    ordered = sorted(float(s) for s in samples)
    k = max(_order_statistic(len(ordered), confidence), 1)
    middle = len(ordered) // 2
    value = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Interval(value, ordered[k - 1], ordered[-k])


def ratio_interval(
    numerator: Sequence[float],
    denominator: Sequence[float],
    confidence: float = CONFIDENCE,
    resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """median(numerator) / median(denominator) with its interval by paired bootstrap.

    Samples i of both come from one interleaved round and are drawn together, so a slow spell of
    the machine that hit both does not widen the interval. ValueError when the lengths differ.
    """
    a, b = np.asarray(numerator, float), np.asarray(denominator, float)
    if a.ndim != 1 or a.shape != b.shape or not a.size:
        raise ValueError(f"paired samples need equal lengths >= 1, not {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and (b > 0).all()):
        raise ValueError("ratios need finite numerators and denominators > 0")
    rounds = np.random.default_rng(seed).integers(a.size, size=(resamples, a.size))
    ratios = np.median(a[rounds], axis=1) / np.median(b[rounds], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Interval(float(np.median(a) / np.median(b)), float(low), float(high))


def is_narrow(interval: Interval, width: float) -> bool:
    """Whether the interval's full width is at most `width` (0.03: 3 %) of its value."""
    return interval.high - interval.low <= width * interval.value
