# SPDX-License-Identifier: Apache-2.0
"""Costs from a busy machine: said once, where something was measured here."""

import logging
import math
import os

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from tvm.relay.collage.measure import estimator as module
from tvm.relay.collage.measure import load as loads
from tvm.relay.collage.measure.load import load_per_core, warn_if_busy

pytestmark = pytest.mark.usefixtures("forked_workers")

# Runnable on average, those now, and the load of four cores: what our own last search left in the
# average does not count, nor does a moment.
LOADS = [(3.0, 9.0, 0.75), (6.0, 0.0, 0.0), (6.0, 5.0, 1.25), (6.0, 9.0, 1.5)]


@pytest.mark.parametrize(("average", "now", "load"), LOADS)
def test_the_load_is_by_the_cpus_that_this_process_may_use(average, now, load, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 1.0, 1.0))
    monkeypatch.setattr(loads, "_running_now", lambda: now)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert load_per_core() == load


def test_what_runs_now_is_without_the_process_that_asks(tmp_path):
    path = tmp_path / "stat"
    path.write_text("cpu  1 2 3\nprocs_running 4\nprocs_blocked 0\n")
    assert loads._running_now(path) == 3.0
    assert loads._running_now(tmp_path / "none") == math.inf
    path.write_text("cpu  1 2 3\n")
    assert loads._running_now(path) == math.inf


@pytest.mark.parametrize(
    ("load", "measured", "is_said"), [(2.0, 5, True), (1.0, 5, False), (2.0, 0, False)]
)
def test_a_busy_machine_is_said_where_costs_came_of_it(load, measured, is_said, caplog):
    assert warn_if_busy(load, measured) == is_said
    assert bool(caplog.records) == is_said
    if is_said:
        text = caplog.records[0].getMessage()
        assert "2.0 processes a core" in text and "5 costs" in text and "collage doctor" in text


@pytest.mark.parametrize("load", [0.1, 3.0])
def test_an_estimator_looks_before_it_measures_and_tells_at_its_end(load, monkeypatch, caplog):
    loads = iter([load])  # once: its own workers raise it
    monkeypatch.setattr(module, "load_per_core", lambda: next(loads))
    with caplog.at_level(logging.WARNING), measure.MeasuredCostEstimator(fake_options()) as it:
        it.estimate([fake_candidate("a")])
        it.estimate([fake_candidate("a"), fake_candidate("b")])
        assert not caplog.records
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (load > 1)
    assert all("2 costs" in record.getMessage() for record in caplog.records)


def test_costs_from_a_busy_machine_carry_its_load(monkeypatch):
    monkeypatch.setattr(module, "load_per_core", lambda: 3.0)
    with measure.MeasuredCostEstimator(fake_options(run_timeout=4, build_timeout=4)) as it:
        batch = [fake_candidate("a"), fake_candidate("b", "raise"), fake_candidate("c", "hang")]
        measured, failed, late = it.estimate(batch)
        assert (measured.load, failed.load, late.load) == (3.0, 0.0, 3.0)
        assert (late.status, late.is_busy, failed.is_busy) == ("timeout", True, False)
        assert it.counts()["busy"] == 2
    assert ", machine busy (3.0 a core)" in measured.Summary()
    assert late.Summary().endswith(", machine busy (3.0 a core)")


def test_without_anything_to_measure_nothing_is_asked(monkeypatch, caplog):
    monkeypatch.setattr(module, "load_per_core", lambda: pytest.fail("asked for the load"))
    with measure.MeasuredCostEstimator(fake_options()) as it:
        assert it.estimate([]) == []
    assert not caplog.records
