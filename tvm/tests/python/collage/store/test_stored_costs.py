# SPDX-License-Identifier: Apache-2.0
"""A search's use of the store, on fakes: order of look-ups, reasons of misses, failures, faults."""

import logging
from types import SimpleNamespace

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from store_rows import FAKE_ENVIRONMENT, sql
from tvm.relay.collage.measure import WorkerProcess
from tvm.relay.collage.measure.runner import LocalRunner
from tvm.relay.collage.store import CostStore, StoredCosts, stored_costs

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "costs.sqlite"


def estimator(
    path, *, retry_failed=False, environment=FAKE_ENVIRONMENT, version="7", progress=None, **changes
):
    options = fake_options(workers=1, **changes)
    how = {"retry_failed": retry_failed, "environment": environment}
    costs = StoredCosts(CostStore(path), options, lambda backend: version, **how)
    return measure.MeasuredCostEstimator(options, store=costs, progress=progress)


def no_worker(*_):
    raise AssertionError("a worker process is started")


def test_memory_then_store_then_workers_and_each_is_counted(path):
    batch = [fake_candidate(name) for name in ("a", "b", "a")]
    with estimator(path) as first:
        first.estimate(batch)
        assert (first.misses, first.hits, first.stored) == (2, 1, 0)
    with estimator(path) as second:
        costs = second.estimate([*batch, fake_candidate("c", 3e-3)])
        assert (second.misses, second.hits, second.stored) == (1, 1, 2)
        assert [cost.seconds for cost in costs] == [1e-3, 1e-3, 1e-3, 3e-3]
        second.estimate(batch)
        assert (second.misses, second.hits, second.stored) == (1, 4, 2)
        assert second.Summary() == (
            "1 measured, 4 from memory, 2 stored, 0 failed; store: missed 1: 1 never measured"
        )


def test_a_stored_cost_is_the_whole_cost(path):
    noisy = fake_candidate("n", run=[[1.0, 2.0] * 4] * 2, counter=str(path) + ".counter")
    batch = [noisy, fake_candidate("bad", "raise")]
    with estimator(path) as first:
        measured = first.estimate(batch)
    with estimator(path) as second:
        assert second.estimate(batch) == measured
    assert measured[0].rounds == 8 and measured[0].low < measured[0].high and measured[0].is_noisy
    assert measured[1].status == "run_failed" and "no kernel" in measured[1].message


def test_a_warm_run_starts_no_worker(path, monkeypatch):
    batch = [fake_candidate(str(i)) for i in range(5)]
    with estimator(path) as first:
        first.estimate(batch)
    monkeypatch.setattr(WorkerProcess, "__init__", no_worker)
    with estimator(path) as second:
        assert len(second.estimate(batch)) == 5
        with pytest.raises(AssertionError, match="a worker process is started"):
            second.estimate([fake_candidate("new")])


def test_progress_tells_stored_from_memory(path):
    seen = []

    class Seen(measure.Progress):
        def begin(self, *counts):
            seen.append(counts)
            super().begin(*counts)

    with estimator(path) as first:
        first.estimate([fake_candidate("a")])
    with estimator(path, progress=Seen()) as second:
        second.estimate([fake_candidate(name) for name in ("a", "b", "b")])
    assert seen == [(1, 1, 1)]


def reasons(path, batch, **more):
    """Why the second estimator measures; what it measures."""
    with estimator(path, **more) as again:
        costs = again.estimate(batch)
        return dict(again._store.miss_reasons), costs


# A module that workers import is told by its backend's version: others' costs stay.
CHANGES = {
    "": {"imports": ("colorsys",)},
    "threads": {"environment": FAKE_ENVIRONMENT._replace(threads="4")},
    "cpu": {"environment": FAKE_ENVIRONMENT._replace(cpu="other")},
    "backend_version": {"version": "8"},
    "threads, tvm": {"environment": FAKE_ENVIRONMENT._replace(threads="4", tvm="0.20")},
}


@pytest.mark.parametrize("parts", CHANGES)
def test_a_miss_says_which_part_of_the_key_differs(path, parts):
    with estimator(path) as first:
        first.estimate([fake_candidate("a", "raise")])
    missed, _ = reasons(path, [fake_candidate("a")], **CHANGES[parts])
    assert missed == ({f"other {parts}": 1} if parts else {})


def test_failures_are_retried_only_when_asked(path):
    with estimator(path) as first:
        first.estimate([fake_candidate("a", "raise"), fake_candidate("b")])
    batch = [fake_candidate("a"), fake_candidate("b", "raise")]
    with estimator(path) as again:
        again.estimate(batch)
        assert again.Summary().endswith("1 failed; store: missed none; 1 known failures")
    missed, costs = reasons(path, batch)
    assert missed == {} and [cost.status for cost in costs] == ["run_failed", "measured"]
    missed, costs = reasons(path, batch, retry_failed=True)
    assert missed == {"failed or noisy, to retry": 1}
    assert [cost.status for cost in costs] == ["measured", "measured"]
    assert reasons(path, batch)[1] == costs, "the new cost took the failure's place"


def test_noisy_costs_are_measured_again_when_asked(path):
    runs = [[1.0, 2.0] * 4] * 2 + [[1.0] * 8]
    batch = [fake_candidate("a", run=runs, counter=str(path) + ".counter")]
    with estimator(path) as first:
        assert first.estimate(batch)[0].is_noisy
    assert reasons(path, batch)[0] == {}
    missed, [cost] = reasons(path, batch, retry_failed=True)
    assert missed == {"failed or noisy, to retry": 1} and not cost.is_noisy


def test_costs_from_a_busy_machine_are_measured_again_once_it_is_quiet(path, monkeypatch):
    """On one that is always busy they serve: no search measures what the last one did."""
    load, looked = {"now": 0.5}, []

    def is_quiet(_):
        looked.append(load["now"])
        return not load["now"]

    monkeypatch.setattr(LocalRunner, "load", lambda self: load["now"])
    monkeypatch.setattr(LocalRunner, "is_quiet", is_quiet)
    batch = [fake_candidate("a"), fake_candidate("b", "raise")]
    with estimator(path) as first:
        assert [cost.load for cost in first.estimate(batch)] == [0.5, 0.0]
    for _ in range(2):
        missed, [cost, _] = reasons(path, batch)
        assert missed == {} and cost.load == 0.5
    load["now"] = 0.0
    missed, [cost, _] = reasons(path, batch)
    assert missed == {"measured on a busy machine, which is quiet now": 1} and cost.load == 0.0
    looked.clear()
    for load["now"] in (0.0, 0.5):
        missed, [cost, _] = reasons(path, batch)
        assert missed == {} and cost.load == 0.0, "the new cost took the busy one's place"
    assert not looked, "the machine is looked at only where that decides"


def test_a_timeout_counts_for_limits_up_to_its_own(path):
    with estimator(path, run_timeout=4, build_timeout=4) as first:
        assert first.estimate([fake_candidate("slow", "hang")])[0].status == "timeout"
    batch = [fake_candidate("slow")]
    assert reasons(path, batch, run_timeout=2, build_timeout=2)[1][0].status == "timeout"
    missed, [cost] = reasons(path, batch, run_timeout=30, build_timeout=30)
    assert missed == {"measured with less time": 1} and cost.status == "measured"


WIDE = [1.0, 1.1] * 4


@pytest.mark.parametrize(
    "samples, before, now, is_hit",
    [(WIDE, 0.3, 0.3, True), (WIDE, 0.3, 0.1, True), (WIDE, 0.1, 0.3, False)]
    + [([1.0] * 8, 0.1, 0.3, True)],
)
def test_a_hasty_measurement_does_not_serve_a_careful_search(path, samples, before, now, is_hit):
    batch = [fake_candidate("a", run=[samples] * 2, counter=str(path) + ".counter")]
    with estimator(path, budget_seconds=before) as first:
        first.estimate(batch)
    missed, _ = reasons(path, batch, budget_seconds=now)
    assert missed == ({} if is_hit else {"measured with less time": 1})


def test_costs_of_a_backend_without_version_are_not_kept(path):
    for _ in range(2):
        missed, _ = reasons(path, [fake_candidate("a")], version=None)
        assert missed == {"its backend has no version": 1}
    with CostStore(path) as store:
        assert store.rows() == []


def limit_pages(estimator, more):
    """Leave room for so many more pages, as on a disk that fills up."""
    connection = estimator._store._store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + more}")


def long_name(i):
    return f"{i:04}" + "x" * 3000


def test_a_full_disk_is_one_warning_and_what_waits_is_written_later(path, caplog):
    names = [long_name(i) for i in range(6)]
    with estimator(path) as full:
        limit_pages(full, 1)
        costs = full.estimate([fake_candidate(name) for name in names])
        assert [cost.status for cost in costs] == ["measured"] * 6, "nothing is lost"
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert str(path) in record.getMessage() and "the disk is full" in record.getMessage()
        assert "free space" in record.getMessage() and "the search goes on" in record.getMessage()
        with CostStore(path) as other:
            assert len(other.rows()) < 6 and other.problems() == []
        limit_pages(full, 1000)
    with CostStore(path) as other:
        assert len(other.rows()) == 6, "written when the store is closed"


def test_what_waits_is_written_after_a_rest(path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stored_costs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with estimator(path) as full:
        limit_pages(full, 0)
        full.estimate([fake_candidate(long_name(i)) for i in range(2)])
        limit_pages(full, 1000)
        full.estimate([fake_candidate(long_name(2))])
        with CostStore(path) as other:
            assert other.rows() == [], "it rests"
        now[0] += stored_costs.REST_SECONDS
        full.estimate([fake_candidate(long_name(3))])
        with CostStore(path) as other:
            assert len(other.rows()) == 4


def test_a_search_does_not_wait_each_time_for_a_file_that_is_held(path, monkeypatch, caplog):
    monkeypatch.setattr("tvm.relay.collage.store.connect.BUSY_SECONDS", 0.5)
    with estimator(path) as waiting:
        puts, put = [], CostStore.put
        monkeypatch.setattr(CostStore, "put", lambda self, row: (puts.append(row), put(self, row)))
        with sql(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            costs = waiting.estimate([fake_candidate(str(i)) for i in range(5)])
            assert [cost.status for cost in costs] == ["measured"] * 5 and len(puts) == 1
            holder.execute("ROLLBACK")
    with CostStore(path) as store:
        assert len(store.rows()) == 5
    [record] = caplog.records
    assert "another process holds the file" in record.getMessage()


def test_what_is_never_written_is_counted_at_the_end(path, caplog):
    with estimator(path) as full:
        limit_pages(full, 0)
        full.estimate([fake_candidate(long_name(i)) for i in range(3)])
    record = caplog.records[-1]
    assert record.levelname == "ERROR" and "3 measured costs could not be kept" in record.message


def test_a_table_that_vanishes_under_a_search_does_not_end_it(path, caplog):
    with estimator(path) as running:
        with sql(path) as other:
            other.execute("DROP TABLE cost")
        [cost] = running.estimate([fake_candidate("a")])
        assert cost.status == "measured" and dict(running._store.miss_reasons) == {
            "store out of reach": 1
        }
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "no such table" in warnings[0].getMessage()
