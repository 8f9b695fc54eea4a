# SPDX-License-Identifier: Apache-2.0
"""Which model's schedules promise most."""

import math

import pytest
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel
from tvm.relay.collage.tuning.transfer.sources import scores, shares


def kernel(kind, workload="", operations=1.0, calls=1):
    return AnsorKernel(workload or kind, "name", kind, (), (1,), operations, calls)


def test_shares_are_of_measured_time_with_the_number_of_calls():
    kernels = [kernel("a", "a1", 9.0, calls=2), kernel("a", "a2"), kernel("b")]
    seconds = {"a1": 1.0, "a2": 2.0, "b": 4.0}
    assert shares(kernels, seconds) == {"a": 0.5, "b": 0.5}
    # Where a time is missing, of operations.
    assert shares(kernels, {"a1": 1.0}) == {"a": pytest.approx(0.95), "b": pytest.approx(0.05)}
    assert shares([], {}) == {}
    assert shares([kernel("a", operations=0.0)], {}) == {"a": 0.0}


def test_a_score_is_the_share_times_the_root_of_the_number_of_kernels():
    share = {"a": 0.75, "b": 0.25, "c": 0.0}
    models = {
        "few": [kernel("a")],
        "many": [kernel("a")] * 4 + [kernel("b")],
        "other": [kernel("d")] * 100,
    }
    found = scores(share, models)
    assert list(found) == ["many", "few", "other"]
    assert found == {"many": 0.75 * 2 + 0.25, "few": 0.75, "other": 0.0}
    assert scores({"a": 1.0}, {"x": [kernel("a")] * 9}) == {"x": math.sqrt(9)}
