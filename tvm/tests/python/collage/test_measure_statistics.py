# SPDX-License-Identifier: Apache-2.0
"""Medians, intervals and ratios against brute force and by their coverage."""

import itertools

import numpy as np
import pytest
from measure_fakes import measure

median_interval, ratio_interval = measure.median_interval, measure.ratio_interval


def brute_force_miss(count, k):
    """P(median outside [k-th smallest, k-th largest]): all 2^n ways of samples around it."""
    ways = itertools.product((0, 1), repeat=count)
    return sum(sum(w) < k or sum(w) > count - k for w in ways) / 2**count


@pytest.mark.parametrize("count", range(6, 15))
def test_interval_is_the_tightest_with_the_confidence(count):
    interval = median_interval(range(1, count + 1))
    k = int(interval.low)
    assert interval == ((count + 1) / 2, k, count + 1 - k)
    assert brute_force_miss(count, k) <= 0.05 < brute_force_miss(count, k + 1)


def test_few_samples_give_their_range():
    assert median_interval([2.0]) == (2.0, 2.0, 2.0)
    assert median_interval([5.0, 1.0, 2.0]) == (2.0, 1.0, 5.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_known_order_statistics():
    """The classical table: ranks (2, 9) of 10, (10, 21) of 30, (40, 61) of 100."""
    for count, low, high in ((10, 2, 9), (30, 10, 21), (100, 40, 61)):
        assert median_interval(range(1, count + 1))[1:] == (low, high)


@pytest.mark.parametrize("draw", ["lognormal", "exponential"])
def test_coverage_of_the_median(draw):
    generator = np.random.default_rng(1)
    truth = {"lognormal": 1.0, "exponential": np.log(2.0)}[draw]
    hits = 0
    for _ in range(2000):
        _, low, high = median_interval(getattr(generator, draw)(size=25))
        hits += low <= truth <= high
    assert hits / 2000 >= 0.94


def test_coverage_of_the_ratio_under_common_drift():
    """Rounds share a drift of the machine, which pairing takes out."""
    generator = np.random.default_rng(2)
    hits, widths = 0, []
    for _ in range(300):
        drift = np.exp(generator.normal(0, 0.3, 30))
        a = 1.2 * drift * np.exp(generator.normal(0, 0.01, 30))
        b = drift * np.exp(generator.normal(0, 0.01, 30))
        value, low, high = ratio_interval(a, b)
        hits += low <= 1.2 <= high
        widths.append((high - low) / value)
    assert hits / 300 >= 0.92
    assert np.median(widths) < 0.02


def test_ratio_is_deterministic_and_exact_where_it_can_be():
    a, b = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert ratio_interval(a, b) == (2.0, 2.0, 2.0)
    assert ratio_interval(a[:3], b[2::-1]) == (2.0, 2 / 3, 6.0)
    assert ratio_interval(a, a) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("a, b", [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([np.nan], [1.0])])
def test_ratio_refuses_what_has_none(a, b):
    with pytest.raises(ValueError):
        ratio_interval(a, b)


def test_narrow_is_the_full_width():
    assert measure.is_narrow(measure.Interval(100.0, 98.5, 101.5), 0.03)
    assert not measure.is_narrow(measure.Interval(100.0, 98.0, 101.5), 0.03)
