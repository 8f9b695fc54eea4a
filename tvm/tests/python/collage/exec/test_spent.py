# SPDX-License-Identifier: Apache-2.0
"""Where time goes, by phase: on a clock that the test turns."""

import threading

import pytest
from tvm.relay.collage.exec.pool import Job, WorkerPool
from tvm.relay.collage.exec.spent import add_workers, phase, recording


@pytest.fixture
def clock(monkeypatch):
    """A clock whose wall seconds are twice its CPU seconds."""

    class Clock:
        now = 0.0

        def sleep(self, seconds):
            self.now += seconds

    turned = Clock()
    monkeypatch.setattr("time.perf_counter", lambda: 2 * turned.now)
    monkeypatch.setattr("time.process_time", lambda: turned.now)
    return turned


def test_phases_do_not_overlap_and_add_up_to_the_whole(clock):
    with recording() as found:
        clock.sleep(1)
        with phase("build"):
            clock.sleep(2)
            with phase("store"):
                clock.sleep(4)
            clock.sleep(8)
        with phase("store"):
            clock.sleep(16)
    assert found.phases == {
        "other": [2, 1],
        "build": [20, 10],
        "build/store": [8, 4],
        "store": [32, 16],
    }
    assert sum(wall for wall, _ in found.phases.values()) == 2 * clock.now


def test_an_exception_ends_its_phases(clock):
    with recording() as found:
        with pytest.raises(ValueError), phase("build"), phase("store"):
            clock.sleep(1)
            raise ValueError
        clock.sleep(3)
    assert found.phases["build/store"] == [2, 1] and found.phases["other"] == [6, 3]


def test_nothing_is_recorded_outside_a_recording_or_by_another_thread(clock):
    with phase("build"):
        add_workers({"run": [1.0, 1.0]})
    with recording() as found:
        thread = threading.Thread(target=lambda: add_workers({"run": [1.0, 1.0]}))
        thread.start()
        thread.join()
    assert found.workers == {} and set(found.phases) == {"other"}


def test_a_recording_inside_another_is_its_own(clock):
    with recording() as outer, phase("build"):
        with recording() as inner, phase("compile"):
            clock.sleep(1)
        add_workers(inner.phases)
    assert "compile" not in outer.phases and outer.phases["build"] == [2, 1]
    assert outer.workers["compile"] == [2, 1]


def test_nonsense_of_a_worker_is_left_out():
    with recording() as found:
        for said in (None, 7, {"a": 1.0}, {"b": ["x", "y"]}, {"c": [1.0]}, {"d": [1.0, 0.5]}):
            add_workers(said)
    assert found.workers == {"d": [1.0, 0.5]}


def test_workers_tell_what_they_spent_and_failures_too():
    jobs = [
        Job("call", {"function": "builtins:sorted", "arguments": {}}, 60.0),  # a TypeError
        Job("call", {"function": "time:process_time", "arguments": {}}, 60.0),
    ]
    with recording() as found, WorkerPool(1) as pool, phase("measure"):
        replies = pool.run(jobs)
    assert [reply.outcome for reply in replies] == ["failed", "ok"]
    wall, cpu = found.workers["call"]
    assert wall > 0 and cpu > 0
    assert found.phases["measure/worker start"][0] > 0 and "measure" in found.phases
