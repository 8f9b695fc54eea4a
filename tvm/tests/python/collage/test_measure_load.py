# SPDX-License-Identifier: Apache-2.0
"""Costs from a busy machine: said once, where something was measured here."""

import logging
import os

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from tvm.relay.collage.measure import estimator as module
from tvm.relay.collage.measure.load import load_per_core, warn_if_busy


def test_the_load_is_by_the_cpus_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert load_per_core() == 0.75


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


def test_without_anything_to_measure_nothing_is_asked(monkeypatch, caplog):
    monkeypatch.setattr(module, "load_per_core", lambda: pytest.fail("asked for the load"))
    with measure.MeasuredCostEstimator(fake_options()) as it:
        assert it.estimate([]) == []
    assert not caplog.records
