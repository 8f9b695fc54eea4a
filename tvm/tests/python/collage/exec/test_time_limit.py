# SPDX-License-Identifier: Apache-2.0
"""How much time of a limit is left, by shares of it."""

import math

import pytest
from tvm.relay.collage.exec import time_limit
from tvm.relay.collage.exec.time_limit import NO_LIMIT, TimeIsUpError, TimeLimit


def test_shares_end_one_after_the_other_and_waiting_is_not_counted(monkeypatch):
    now, waited = 100.0, 5.0
    monkeypatch.setattr(time_limit, "seconds_waited", lambda: waited)
    limit = TimeLimit(10.0, lambda: now)
    assert limit.is_set and limit.left() == 10.0 and limit.left(0.5) == 5.0
    now += 6.0
    assert limit.left() == 4.0
    limit.check(0.7)
    with pytest.raises(TimeIsUpError, match="limit of 10 s"):
        limit.check(0.5)
    waited += 6.0
    assert limit.left(0.5) == 5.0
    limit.check(0.5)


def test_without_a_limit_there_is_time_for_ever():
    assert not NO_LIMIT.is_set and NO_LIMIT.left(0.1) == math.inf
    NO_LIMIT.check(0.1)


def test_phases_follow_each_other():
    shares = [
        getattr(time_limit, name)
        for name in (
            "PREPARED",
            "FIRST_ANSWER",
            "KERNELS",
            "TRANSITIONS",
            "ASKED",
            "SEARCHED",
            "WHOLE_PLANS",
            "BUILT",
        )
    ]
    assert shares[0] > 0 and shares == sorted(set(shares)) and shares[-1] < 1
