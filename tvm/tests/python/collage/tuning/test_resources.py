# SPDX-License-Identifier: Apache-2.0
"""Seconds shared by tasks."""

import contextlib

import pytest
from tuning_fakes import WAIT, waiting_clock
from tvm.relay.collage.tuning import resources
from tvm.relay.collage.tuning.resources import Budget


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


@pytest.mark.parametrize("is_timed_here", [True, False])
def test_tasks_whose_kernels_run_on_a_device_leave_these_cpus_to_other_builds(
    is_timed_here, monkeypatch
):
    taken = []
    for name in ("cpus_for_measuring", "cpus_for_building"):
        monkeypatch.setattr(
            resources, name, lambda _, name=name: taken.append(name) or contextlib.nullcontext()
        )
    with Budget(10.0, is_timed_here).spending():
        pass
    assert taken == ["cpus_for_measuring" if is_timed_here else "cpus_for_building"]
