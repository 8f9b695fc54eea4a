# SPDX-License-Identifier: Apache-2.0
"""What others take of the CPUs that this process may use: counters, batches, the warning."""

import logging
import os
import subprocess
import sys

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from tvm.relay.collage.machine.load import (
    LoadMeter,
    Usage,
    load_between,
    load_by_average,
    read_usage,
    warn_if_busy,
)
from tvm.relay.collage.measure.runner import LocalRunner

STAT = """cpu  9000 0 0 0 0 0 0 0 0 0
cpu0 100 10 20 5000 7 1 2 300 50 0
cpu1 200 0 0 5000 0 0 0 0 0 0
cpu2 9000 0 0 0 0 0 0 0 0 0
procs_running 4
"""


def put(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def two_cpus(monkeypatch, tmp_path):
    """Of a machine whose third CPU is another's; a clock tick is 10 ms there."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("tvm.relay.collage.machine.load.ticks", lambda: 100)
    monkeypatch.setattr(os, "times", lambda: (1.0, 0.5, 2.0, 0.5, 77.0))
    put(tmp_path, "proc/stat", STAT)
    return tmp_path


def test_counters_are_those_of_the_allowed_cpus_without_idle_time_and_with_stolen(two_cpus):
    put(two_cpus, "proc/7/stat", "7 (a (b) c) S 1 7 7 0 -1 4194304 9 9 0 0 100 20 30 5 20 0 1 0 9")
    found = read_usage([7, 8], str(two_cpus))
    assert found.worked == pytest.approx((100 + 10 + 20 + 1 + 2 + 300 + 200) / 100)
    assert found.own == pytest.approx(1.0 + 0.5 + 2.0 + 0.5 + 1.55), "8 has ended"


@pytest.mark.parametrize(
    "text", ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n"]
)
def test_counters_that_do_not_tell_of_each_cpu_are_none(two_cpus, text):
    put(two_cpus, "proc/stat", text)
    assert read_usage([], str(two_cpus)) is None
    assert read_usage([], str(two_cpus / "none")) is None


@pytest.mark.parametrize(
    ("cpus", "threads", "worked", "own", "load"),
    [
        (2, "2", 2.0, 2.0, 0.0),
        (2, "2", 2.0, 1.8, 0.0),  # what a system does by itself
        (2, "2", 2.0, 1.5, 0.25),  # half of one of two CPUs
        (2, "1", 2.0, 1.0, 0.0),  # the other CPU is free for others
        (2, "1", 2.0, 0.5, 0.75),
        (4, "2", 3.9, 2.0, 0.0),
        (2, "2", 2.0, 2.1, 0.0),  # the counters' grain
        (2, "2", 3.0, 0.0, 1.0),
    ],
)
def test_others_disturb_where_they_take_more_than_is_free(
    monkeypatch, cpus, threads, worked, own, load
):
    cores = {str(cpu): [cpu] for cpu in range(cpus)}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)))
    monkeypatch.setattr("tvm.relay.collage.machine.load.cores_of", lambda given: cores)
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    found = load_between(Usage(10.0, 100.0, 50.0), Usage(11.0, 100.0 + worked, 50.0 + own))
    assert found == pytest.approx(load)


def test_a_meter_tells_of_the_time_since_it_was_asked(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    usages = [(0.0, 0, 0), (0.1, 0.2, 0), (0.15, 0, 0), (1.1, 2.2, 2), (1.2, 9, 2), (2.1, 4.2, 3)]
    asked = []

    def read(workers):
        asked.append(list(workers))
        return Usage(*usages[len(asked) - 1])

    meter = LoadMeter(lambda: [5], read)
    assert meter.load() == 0.0 and asked == []
    assert meter.look() == pytest.approx(1.0)
    assert meter.load() == pytest.approx(1.0), "too soon for another answer"
    assert meter.load() == 0.0
    assert meter.load() == 0.0, "too soon again"
    assert meter.load() == pytest.approx(0.5)
    assert asked == [[5]] * 6


def test_a_meter_begins_without_a_look_while_our_own_work_runs(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    usages = iter([Usage(0.0, 0.0, 0.0), Usage(1.0, 2.0, 1.0)])
    meter = LoadMeter(read=lambda workers: next(usages))
    meter.begin()
    assert meter.load() == pytest.approx(0.5)


@pytest.mark.parametrize(("average", "load"), [(3.0, 0.0), (4.0, 0.0), (6.0, 1.0)])
def test_without_counters_the_average_of_the_last_minute_counts(monkeypatch, average, load):
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert load_by_average() == LoadMeter(read=lambda workers: None).look() == load


def test_a_process_that_computes_on_our_cpus_is_seen_and_a_worker_of_ours_is_not():
    """On this very machine; CPU time of a child that is told as a worker is our own."""
    code = "import time; t = time.time() + 60\nwhile time.time() < t: pass"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as child:
        try:
            first, told = read_usage([]), read_usage([child.pid])
            if first is None:
                pytest.skip("this kernel has no counters of CPUs")
            while read_usage([child.pid]).own - told.own < 0.3:
                pass
            last, later = read_usage([]), read_usage([child.pid])
        finally:
            child.kill()
    others = (last.worked - first.worked) - (last.own - first.own)
    rest = (later.worked - told.worked) - (later.own - told.own)
    assert others > 0 and others - rest > 0.1


@pytest.mark.parametrize(("loads", "is_said"), [([0.4, 0.75], True), ([], False)])
def test_a_busy_machine_is_said_where_costs_came_of_it(loads, is_said, caplog):
    assert warn_if_busy(loads, 5) == is_said
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == is_said
    for word in ("2 of 5 costs", "up to 75 % of the CPUs", "collage doctor"):
        assert all(word in text for text in texts)


@pytest.mark.usefixtures("forked_workers")
def test_each_batch_has_the_load_of_its_own_time(monkeypatch, caplog):
    """A neighbour comes with the second batch and has gone by the third."""
    loads = iter([0.0, 0.6, 0.0])
    now = {}
    monkeypatch.setattr(LoadMeter, "look", lambda self: now.update(load=next(loads)))
    monkeypatch.setattr(LoadMeter, "load", lambda self: now.get("load", 0.0))
    options = fake_options(batch=1, run_timeout=4, workers=1)
    with caplog.at_level(logging.WARNING), measure.MeasuredCostEstimator(options) as it:
        costs = it.estimate([fake_candidate(name) for name in "abc"])
        assert not caplog.records and it.counts()["busy"] == 1
    assert [cost.load for cost in costs] == [0.0, 0.6, 0.0]
    assert ", machine busy (others took 60%)" in costs[1].Summary()
    [record] = caplog.records
    assert "1 of 3 costs" in record.getMessage()


@pytest.mark.usefixtures("forked_workers")
def test_of_failures_a_timeout_alone_may_be_the_loads_doing(monkeypatch):
    monkeypatch.setattr(LocalRunner, "load", lambda self: 0.5)
    with measure.MeasuredCostEstimator(fake_options(run_timeout=2, build_timeout=4)) as it:
        failed, late = it.estimate([fake_candidate("b", "raise"), fake_candidate("c", "hang")])
    assert (failed.load, late.load, late.status) == (0.0, 0.5, "timeout")
    assert late.Summary().endswith(", machine busy (others took 50%)")


def test_without_anything_to_measure_nothing_is_asked(monkeypatch, caplog):
    monkeypatch.setattr(LoadMeter, "look", lambda self: pytest.fail("asked for the load"))
    with measure.MeasuredCostEstimator(fake_options()) as it:
        assert it.estimate([]) == []
    assert not caplog.records
