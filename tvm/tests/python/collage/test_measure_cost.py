# SPDX-License-Identifier: Apache-2.0
"""Cost: statuses, seconds, JSON."""

import json
import math

import pytest
from measure_fakes import measure

Cost = measure.Cost


def test_measured_cost_is_the_median_with_its_interval():
    cost = Cost.measured([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0], border_seconds=0.5)
    assert (cost.seconds, cost.low, cost.high, cost.rounds) == (4.0, 1.0, 7.0, 7)
    assert cost.is_usable and not cost.is_failure
    text = "measured 4 s [1 s, 7 s], 7 rounds, borders 500 ms (noisy: the machine was busy)"
    assert cost.Summary() == text
    assert Cost.measured([1.0, 1.01, 1.02] * 3).message == ""


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf], [0.0], [-1.0]])
def test_timings_that_are_no_positive_numbers_are_a_failed_run(samples):
    cost = Cost.measured(samples)
    assert cost.status == "run_failed" and cost.seconds is None and cost.message


def test_failures_and_unknown_carry_no_seconds():
    failure = Cost.failed("crashed", "killed by SIGSEGV")
    assert failure.is_failure and not failure.is_usable
    assert failure.Summary() == "crashed: killed by SIGSEGV"
    assert not Cost.unknown().is_usable and not Cost.unknown().is_failure
    with pytest.raises(ValueError, match="carries no seconds"):
        Cost("crashed", 1.0)
    for wrong in (math.inf, math.nan, -1.0, 1e300):
        with pytest.raises(ValueError, match="needs finite seconds"):
            Cost("measured", wrong, 1.0, 1.0)
    with pytest.raises(ValueError, match="border_seconds is nan"):
        Cost("measured", 1.0, 1.0, 1.0, border_seconds=math.nan)
    with pytest.raises(ValueError, match="unknown cost status 'slow'"):
        Cost("slow")


@pytest.mark.parametrize(
    "cost",
    [Cost.unknown(), Cost.estimated(2e-3, "bytes"), Cost.measured([1e-3] * 8, 2e-4)]
    + [Cost.failed(s, "why") for s in ("timeout", "wrong_result", "unsupported")],
)
def test_json_round_trip(cost):
    assert Cost.from_json(json.loads(json.dumps(cost.to_json(), allow_nan=False))) == cost


def test_json_of_something_else_is_refused():
    for fields in ({"status": "measured", "price": 1}, {"seconds": 1.0}):
        with pytest.raises(ValueError, match="not a cost"):
            Cost.from_json(fields)
