# SPDX-License-Identifier: Apache-2.0
"""Medians, intervals and ratios against brute force and by their coverage."""

import fractions
import itertools
import math

import numpy as np
import pytest
from measure_fakes import measure
from tvm.relay.collage.costs.statistics import dependence, fewest_samples, is_dependent
from tvm.relay.collage.plans.graph_search.decide import SLOWER, verdict

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


def test_few_samples_bound_nothing():
    infinite = (2.0, -math.inf, math.inf)
    for few in ([2.0], [5.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0, 3.0]):
        assert median_interval(few) == infinite and not median_interval(few).is_bounded
    assert median_interval([1.0, 2.0] * 3).is_bounded
    assert median_interval([1.0, 2.0] * 3).Summary(".1f", "x") == "1.5 [1.0, 2.0] x"
    assert median_interval([2.0]).Summary() == "2.000 (too few rounds to be sure)"
    assert median_interval([2.0]).Summary("+.1f", "x") == "+2.0 x (too few rounds to be sure)"
    assert median_interval([2.0] * 6).Summary(unit="x") == "2.000 x"
    # Narrower than the digits tell is not the same as without width.
    assert median_interval([1.0, 1.00001] * 3).Summary() == "1.000 [1.000, 1.000]"
    assert median_interval([2.0]).to_json() == {"value": 2.0, "low": None, "high": None}
    assert (fewest_samples(), fewest_samples(0.9999)) == (6, 15)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_every_interval_has_its_confidence(confidence):
    """The exact chance that ranks k and n + 1 - k enclose the median, for all n; an interval that
    is no wider than it has to be."""
    allowed = 1 - fractions.Fraction(confidence)
    for count in range(1, 130):
        low = median_interval(range(1, count + 1), confidence).low
        k = int(low) if math.isfinite(low) else 0

        def misses(k, count=count):
            below = sum(math.comb(count, j) for j in range(k))
            return fractions.Fraction(2 * below, 2**count)

        assert misses(k) <= allowed < misses(k + 1) or k == count // 2


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 6, 7, 10, 15, 16, 30, 100])
def test_equal_plans_are_surely_slower_no_more_often_than_the_confidence_says(rounds):
    """At one round it was said of 44 in 100."""
    generator = np.random.default_rng(rounds)
    trials = 1000
    pairs = np.exp(generator.normal(0, 0.05, (trials, 2, rounds)))
    wrong = sum(ratio_interval(a, b).low > 1 for a, b in pairs)
    assert wrong / trials <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / trials)
    slower = sum(verdict(list(a), list(b)) == SLOWER for a, b in pairs)
    assert slower <= 3


def test_known_order_statistics():
    """The classical table: ranks (2, 9) of 10, (10, 21) of 30, (40, 61) of 100."""
    for count, low, high in ((10, 2, 9), (30, 10, 21), (100, 40, 61)):
        assert median_interval(range(1, count + 1))[1:] == (low, high)


def test_many_samples_take_no_time():
    """A model of microseconds has a million runs in seconds; 1.96 deviations are half a root."""
    count = 1_000_000
    interval = median_interval(range(count))
    assert interval.value == pytest.approx(count / 2, abs=1)
    assert interval.high - interval.low == pytest.approx(1.96 * math.sqrt(count), rel=1e-2)


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
    assert ratio_interval(a[:3], b[2::-1]) == (2.0, 0.0, math.inf)
    assert ratio_interval(a, a) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("a, b", [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([np.nan], [1.0])])
def test_ratio_refuses_what_has_none(a, b):
    with pytest.raises(ValueError):
        ratio_interval(a, b)


def test_samples_that_follow_those_before_them_are_dependent():
    generator = np.random.default_rng(3)
    assert sum(is_dependent(generator.exponential(size=30)) for _ in range(500)) <= 5
    walks = np.cumsum(generator.normal(size=(100, 60)), axis=1)
    assert sum(map(is_dependent, walks)) >= 95
    assert dependence(range(40)) == pytest.approx(1.0)
    assert dependence([1.0, 2.0] * 20) == pytest.approx(-1.0)
    for none in ([], [1.0], [1.0, 2.0], [1.0] * 50, [1.0, 1.0, 2.0]):
        assert dependence(none) == 0.0


def test_narrow_is_the_full_width():
    assert measure.is_narrow(measure.Interval(100.0, 98.5, 101.5), 0.03)
    assert not measure.is_narrow(measure.Interval(100.0, 98.0, 101.5), 0.03)
