# SPDX-License-Identifier: Apache-2.0
"""Cost: statuses, seconds, JSON."""

import dataclasses
import json
import math

import numpy as np
import pytest
from measure_fakes import measure
from tvm.relay.collage.costs.cost import FLAGS, CostStatus, PartCost

Cost = measure.Cost


def test_measured_cost_is_the_median_with_its_interval():
    cost = Cost.measured([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0], border_seconds=0.5)
    assert (cost.median, cost.low, cost.high, cost.rounds) == (4.0, 1.0, 7.0, 7)
    assert cost.is_usable and not cost.is_failure
    assert cost.Summary().startswith("measured 5.5 s, median 4 s [1 s, 7 s], 7 rounds, borders 500")
    calm = Cost.measured([1.0, 1.01, 1.02] * 3)
    assert (calm.seconds, calm.median, calm.remarks, calm.flags) == (1.01, None, "", ())


def test_a_noisy_cost_counts_by_its_upper_quartile():
    samples = [1.0] * 5 + [1.4] * 4 + [3.0] * 3
    cost = Cost.measured(samples)
    assert cost.flags == ("noisy",) and cost.message == ""
    assert cost.remarks == "noisy: the machine was busy, its upper quartile counts"
    assert f"({cost.remarks})" in cost.Summary()
    assert (cost.seconds, cost.median) == (np.quantile(samples, 0.75), 1.4)
    assert cost.spread == (cost.high - cost.low) / 1.4, "of the median, as for a calm one"
    steady = Cost.measured([1.39, 1.4, 1.41] * 4)
    assert steady.seconds < cost.seconds, "of equal medians the steady one wins"
    paired = Cost.measured(samples, by_quartile=False)
    assert (paired.seconds, paired.median) == (1.4, None)
    assert dataclasses.replace(paired, message="x").remarks == "noisy: the machine was busy; x"
    with pytest.raises(ValueError, match="finite seconds"):
        Cost("measured", 1.0, 1.0, 1.0, median=-1.0)


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf], [0.0], [-1.0]])
def test_timings_that_are_no_positive_numbers_are_a_failed_run(samples):
    cost = Cost.measured(samples)
    assert cost.status == "run_failed" and cost.seconds is None and cost.message


def test_too_few_samples_bound_nothing_and_are_noisy():
    few = Cost.measured([1.0] * 5)
    assert (few.seconds, few.low, few.high, few.spread) == (1.0, None, None, math.inf)
    assert few.is_noisy and few.remarks.startswith("noisy: too few samples")
    assert "[" not in few.Summary() and Cost.measured([1.0] * 6).remarks == ""
    with pytest.raises(ValueError, match="needs finite seconds"):
        Cost("measured", 1.0, 1.0)


def test_what_the_pass_is_told_of_a_cost():
    cost = Cost("measured", 2.0, 1.0, 3.0, load=0.5, unverified=True, message="not verified: why")
    assert cost.flags == ("noisy", "busy", "unverified")
    assert Cost.estimated(1.0, "by shapes").flags == ("estimated",)
    assert {*cost.flags, "estimated"} == {*FLAGS}
    told = PartCost("measured", 2.0, "not verified: why", cost.flags)
    assert told.is_usable and told.Summary() == "measured 2 s (not verified: why)"
    failed = PartCost("timeout", None, "60 s")
    assert failed.is_failure and failed.Summary() == "timeout: 60 s"
    assert not PartCost("unknown", None, "").is_failure
    assert Cost.given(1.0).flags == (), "who tells no samples is believed"


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
    for make in (
        lambda: Cost("slow"),
        lambda: Cost.failed("slow", ""),
        lambda: PartCost("slow", None, ""),
    ):
        with pytest.raises(ValueError, match="unknown cost status 'slow'; one of unknown, meas"):
            make()


def test_a_status_is_one_of_an_enum_and_its_text_in_json():
    for status in ("measured", CostStatus.MEASURED):
        cost = Cost(status, 1.0)
        assert cost.status is CostStatus.MEASURED and Cost.from_json(cost.to_json()) == cost
        assert json.loads(json.dumps(cost.to_json()))["status"] == "measured"
        assert PartCost(status, 1.0, "").status is CostStatus.MEASURED


@pytest.mark.parametrize(
    "cost",
    [Cost.unknown(), Cost.estimated(2e-3, "bytes"), Cost.measured([1e-3] * 8, 2e-4)]
    + [Cost.measured([1e-3, 2e-3] * 8), Cost.measured([1e-3])]
    + [Cost.failed(s, "why") for s in ("timeout", "wrong_result", "unsupported")],
)
def test_json_round_trip(cost):
    assert Cost.from_json(json.loads(json.dumps(cost.to_json(), allow_nan=False))) == cost


def test_json_of_something_else_is_refused():
    for fields in ({"status": "measured", "price": 1}, {"seconds": 1.0}):
        with pytest.raises(ValueError, match="not a cost"):
            Cost.from_json(fields)
