# SPDX-License-Identifier: Apache-2.0
"""Choices of precisions beside all that there are, for random gains; and the front of them."""

import ctypes
import itertools
import math

import numpy as np
import pytest
from tvm.relay.collage.precision.choice import LayerGain, choose, front, silent
from tvm.relay.collage.precision.layers import INT8

SHORT = "bfloat16"


def random_gains(rng, layers):
    gains = {}
    for k in range(layers):
        kinds = [kind for kind in (INT8, SHORT) if rng.random() < 0.9]
        seconds = rng.normal(1e-4, 1e-4, len(kinds)) * 10.0 ** rng.integers(-2, 2)
        errors = 10.0 ** rng.uniform(-9, -2, len(kinds))
        rows = zip(kinds, seconds, errors, strict=True)
        gains[f"layer {k}"] = {kind: LayerGain(float(s), float(e)) for kind, s, e in rows}
    return gains


def price(chosen, gains, borders):
    """Seconds that a choice saves, or nothing where it is over the limit."""
    kinds = [chosen.get(name) for name in gains]
    changes = sum(
        seconds
        for precision, prices in borders.items()
        for (a, b), seconds in zip(itertools.pairwise(kinds), prices, strict=True)
        if (a == precision) != (b == precision)
    )
    return sum(gains[name][kind].seconds for name, kind in chosen.items()) - changes


def best_of_all(gains, most, borders):
    best = 0.0
    for kinds in itertools.product(*([None, *each] for each in gains.values())):
        chosen = {n: kind for n, kind in zip(gains, kinds, strict=True) if kind}
        error = sum(gains[name][kind].square_error for name, kind in chosen.items())
        if error <= most:
            best = max(best, price(chosen, gains, borders))
    return best


@pytest.mark.parametrize(
    "borders",
    [
        {},
        {SHORT: [5e-5] * 6},
        {SHORT: [0.0, 1e-4, 1e-5, 0.0, 5e-5, 1e-3], INT8: [2e-5, 0.0, 1e-4, 1e-3, 0.0, 1e-5]},
    ],
)
@pytest.mark.parametrize("seed", range(12))
def test_none_saves_more(seed, borders):
    rng = np.random.default_rng(seed)
    gains = random_gains(rng, 7)
    errors = [gain.square_error for each in gains.values() for gain in each.values()]
    for most in np.quantile(np.cumsum(errors), [0.1, 0.4, 0.8]):
        found = choose(gains, float(most), borders)
        assert found.square_error <= most * (1 + 1e-6)
        assert found.seconds == pytest.approx(price(found.precisions, gains, borders))
        best = best_of_all(gains, most, borders)
        assert found.seconds >= best - 1e-3 * abs(best) - 1e-12


def test_a_change_that_costs_more_than_it_saves_is_not_made():
    gains = {f"layer {k}": {SHORT: LayerGain(1e-5, 1e-8)} for k in range(6)}
    gains["layer 3"] = {SHORT: LayerGain(1e-5, 1e-2)}
    assert choose(gains, 1e-3).of(SHORT) == gains.keys() - {"layer 3"}
    # One change, behind the first three, is worth it; another one before the last two is not.
    assert choose(gains, 1e-3, {SHORT: [2.5e-5] * 5}).of(SHORT) == {"layer 0", "layer 1", "layer 2"}
    assert choose(gains, 1e-3, {SHORT: [1e-3] * 5}).precisions == {}


@pytest.mark.parametrize(
    "gain",
    [LayerGain(-1e-3, 1e-6), LayerGain(0.0, 0.0), LayerGain(1e-3, math.inf), LayerGain(1.0, 2e-4)],
)
def test_what_costs_or_errs_too_much_is_left(gain):
    assert choose({"a": {INT8: gain}}, 1e-4).precisions == {}


@pytest.mark.parametrize("seed", range(6))
def test_a_front_saves_more_for_more_error(seed):
    gains = random_gains(np.random.default_rng(seed), 20)
    found = front(gains)
    assert len(found) > 2
    for before, after in itertools.pairwise(found):
        assert before.seconds < after.seconds and before.square_error < after.square_error
    useful = [max((g.seconds for g in each.values()), default=0.0) for each in gains.values()]
    assert found[-1].seconds == pytest.approx(sum(s for s in useful if s > 0))


def test_a_front_of_no_gain_is_empty():
    assert front({"a": {INT8: LayerGain(-1.0, 1e-9)}, "b": {}}) == []
    assert front({"a": {INT8: LayerGain(1.0, math.inf)}}) == []


def test_what_errs_in_nothing_is_chosen_within_no_error():
    gains = {"a": {INT8: LayerGain(1.0, 0.0)}, "b": {INT8: LayerGain(1.0, 1e-9)}}
    assert choose(gains, 0.0).precisions == {"a": INT8}
    assert [choice.of(INT8) for choice in front({"a": gains["a"]})] == [{"a"}]


def test_what_the_solver_prints_is_seen_by_nobody(capfd):
    print("before")
    with silent():
        ctypes.CDLL(None).puts(b"HighsMipSolverData")
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")
