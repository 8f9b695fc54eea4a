# SPDX-License-Identifier: Apache-2.0
"""Multiples of profiles: those of each size, and how they are learnt."""

import random

import pytest
from tvm.relay.collage.estimators.calibration import SHIPPED, SIZES, Multiples

NUMBERED = Multiples(range(6), range(10, 16))


@pytest.mark.parametrize(
    "seconds, size", [(0.0, 0), (5e-6, 0), (5.1e-6, 1), (1e-3, 4), (2e-3, 4), (1.0, 5)]
)
def test_a_sum_has_the_multiples_of_its_size(seconds, size):
    assert NUMBERED.of(seconds) == (size, 10 + size)


@pytest.mark.parametrize("count", [0, 99])
def test_few_pairs_tell_nothing(count):
    assert NUMBERED.learnt([(1e-6, 1e-6)] * count) == Multiples([*range(6)], [*range(10, 16)])


def test_one_pair_in_a_hundred_is_below_what_is_hardly_ever_and_one_in_four_below_what_is_likely():
    generator = random.Random(0)
    ratios = [generator.lognormvariate(0, 1) for _ in range(10_000)]
    learnt = NUMBERED.learnt([(1e-3, 1e-3 * ratio) for ratio in ratios])
    least, likely = learnt.of(1e-3)
    assert sum(ratio < least for ratio in ratios) == pytest.approx(100, abs=2)
    assert sum(ratio < likely for ratio in ratios) == pytest.approx(2500, abs=2)


def test_a_size_without_enough_pairs_stays_as_it_was():
    pairs = [(1e-6, 3e-6)] * 200 + [(1e-3, 2e-3)] * 200 + [(1.0, 9.0)] * 5 + [(0.0, 1.0)] * 500
    learnt = NUMBERED.learnt(pairs)
    assert learnt.of(1e-6) == pytest.approx((3.0, 3.0)) and learnt.of(1e-3) == (2.0, 2.0)
    assert learnt.of(1.0) == (5, 15)


@pytest.mark.parametrize("backend", SHIPPED)
def test_what_is_shipped_has_every_size_and_is_in_order(backend):
    known = SHIPPED[backend]
    assert len(known.least) == len(known.likely) == len(SIZES) + 1
    assert all(0 < low <= high for low, high in zip(known.least, known.likely))
