# SPDX-License-Identifier: Apache-2.0
"""Seconds shared by tasks."""

import pytest
from tuning_fakes import WAIT, waiting_clock
from tvm.relay.collage.tuner.budget import Budget


def test_a_task_gets_twice_its_share_thirty_seconds_at_least_and_no_more_than_is_left():
    assert Budget(600.0).limit(10) == 120.0
    assert Budget(600.0).limit(1000) == 30.0
    assert Budget(600.0).limit(1) == 600.0
    assert Budget(7.0).limit(3) == 7.0
    assert Budget(-1.0).limit(3) == 0.0 and Budget(-1.0).is_spent


def test_what_a_block_takes_is_taken_off_but_waiting_for_the_cpus(monkeypatch):
    now, told = waiting_clock(monkeypatch), []
    found = Budget(10.0)
    with pytest.raises(RuntimeError), found.spending(told.append):
        now[0] += 4.0
        raise RuntimeError
    assert found.left == 6.0 and told == [WAIT]
