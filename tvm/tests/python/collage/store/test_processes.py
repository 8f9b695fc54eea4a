# SPDX-License-Identifier: Apache-2.0
"""Several processes at one store, and processes that are killed in the middle of it."""

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import time

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from store_files import make_version_1
from store_rows import row
from tvm.relay.collage.store import CostStore, StoredCosts
from tvm.relay.collage.store.schema import check_version

# Forked children start at once; nothing of SQLite is open in the parent when they are made.
FORK = multiprocessing.get_context("fork")


def hash_of(writer, number):
    return f"{writer:08x}{number:08x}"


def write_rows(path, writer, count, pipe=None):
    """Put rows of one's own, telling each when it is committed."""
    with CostStore(path) as store:
        for number in range(count):
            store.put(row(candidate=hash_of(writer, number), minute=number % 60))
            if pipe is not None:
                os.write(pipe, number.to_bytes(4, "big"))


def run_all(target, arguments):
    children = [FORK.Process(target=target, args=each) for each in arguments]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0] * len(children)


def test_four_processes_create_and_fill_one_store(tmp_path):
    path = tmp_path / "costs.sqlite"
    run_all(write_rows, [(path, writer, 100) for writer in range(4)])
    with CostStore(path) as store:
        assert len(store.rows()) == 400 and store.problems() == []


def test_many_processes_open_a_new_store_at_the_same_moment(tmp_path):
    for attempt in range(2):
        path = tmp_path / str(attempt) / "costs.sqlite"
        run_all(write_rows, [(path, writer, 1) for writer in range(8)])
        with CostStore(path) as store:
            assert len(store.rows()) == 8


def test_a_file_that_another_process_makes_meanwhile_is_not_taken_for_another_programs(tmp_path):
    """Between the two numbers by which a store is known."""
    path = tmp_path / "costs.sqlite"

    class Overtaken(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement == "PRAGMA user_version":
                other = sqlite3.connect(path, timeout=0, isolation_level=None)
                with contextlib.closing(other), contextlib.suppress(sqlite3.OperationalError):
                    check_version(other, path, True)
            return super().execute(statement, *values)

    slow = sqlite3.connect(path, isolation_level=None, factory=Overtaken)
    with contextlib.closing(slow):
        check_version(slow, path, True)
    with CostStore(path) as store:
        assert store.rows() == [] and store.problems() == []


def test_many_processes_migrate_one_store(tmp_path):
    path = tmp_path / "costs.sqlite"
    make_version_1(path, count=5)
    run_all(write_rows, [(path, writer + 1, 5) for writer in range(4)])
    with CostStore(path) as store:
        assert len(store.rows()) == 25 and store.problems() == []


def kill_while_writing(path, writer, seconds):
    """Numbers that a child had committed when it was killed."""
    reader, pipe = os.pipe()
    child = FORK.Process(target=write_rows, args=(path, writer, 1 << 20, pipe))
    child.start()
    os.close(pipe)
    first = os.read(reader, 4)
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    data = first
    while block := os.read(reader, 1 << 16):
        data += block
    os.close(reader)
    assert child.exitcode == -signal.SIGKILL
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data) // 4 * 4, 4)]


@pytest.mark.parametrize(
    "kills", [10, pytest.param(100, marks=pytest.mark.slow("a hundred killed processes, not ten"))]
)
def test_kill_9_loses_no_committed_row(tmp_path, kills):
    path = tmp_path / "costs.sqlite"
    generator = random.Random(0)
    committed = []
    for writer in range(kills):
        numbers = kill_while_writing(path, writer, generator.random() * 0.03)
        committed += [hash_of(writer, number) for number in numbers]
        if writer % 20 == 0:
            with CostStore(path) as store:
                assert store.problems() == []
    with CostStore(path) as store:
        assert store.problems() == []
        kept = {each.key.candidate for each in store.rows()}
    assert len(committed) > kills and set(committed) <= kept
    # The kill may come between a commit and the telling of it: one row a writer at most.
    assert len(kept) <= len(committed) + kills


def test_kill_9_while_the_file_is_made(tmp_path):
    generator = random.Random(0)
    for attempt in range(15):
        path = tmp_path / str(attempt)
        child = FORK.Process(target=write_rows, args=(path, 0, 1 << 20))
        child.start()
        time.sleep(generator.random() * 0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        write_rows(path, 1, 3)
        with CostStore(path) as store:
            assert len(store.rows(candidate=f"{1:08x}")) == 3 and store.problems() == []


def test_kill_9_beside_another_writer(tmp_path):
    path = tmp_path / "costs.sqlite"
    other = FORK.Process(target=write_rows, args=(path, 99, 1000))
    other.start()
    committed = []
    for writer in range(5):
        numbers = kill_while_writing(path, writer, 0.01)
        committed += [hash_of(writer, number) for number in numbers]
    other.join(120)
    assert other.exitcode == 0
    with CostStore(path) as store:
        assert store.problems() == []
        kept = {each.key.candidate for each in store.rows()}
    assert set(committed) <= kept
    assert sum(each.startswith(f"{99:08x}") for each in kept) == 1000


def search(path, log, count):
    """A search with candidates 0, 1, ...; each measurement is noted in the log as it ends."""
    options = fake_options(workers=1, batch=2)
    costs = StoredCosts(CostStore(path), options, lambda _: "7")
    with measure.MeasuredCostEstimator(options, store=costs) as estimator:
        estimator.estimate([fake_candidate(f"{i:016x}", log=log) for i in range(count)])


@pytest.mark.usefixtures("forked_workers")
def test_two_searches_share_a_store(tmp_path):
    path, log = tmp_path / "costs.sqlite", tmp_path / "log"
    run_all(search, [(path, str(log), 12)] * 2)
    measured = log.read_text().count("measure")
    with CostStore(path) as store:
        assert len(store.rows()) == 12 and store.problems() == []
    run_all(search, [(path, str(log), 12)] * 2)
    assert log.read_text().count("measure") == measured


@pytest.mark.usefixtures("forked_workers")
def test_kill_9_of_a_search_loses_at_most_the_measurement_under_way(tmp_path):
    path, log = tmp_path / "costs.sqlite", tmp_path / "log"
    log.touch()

    def measured():
        return log.read_text().count("measure")

    for stop_at in (3, 8, 15):
        child = FORK.Process(target=search, args=(path, str(log), 400))
        child.start()
        while measured() < stop_at and child.is_alive():
            time.sleep(0.001)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with CostStore(path) as store:
            assert store.problems() == []
            lost = measured() - len(store.rows())
        assert 0 <= lost <= (3, 8, 15).index(stop_at) + 1
    # What is kept is not measured again.
    with CostStore(path) as store:
        kept = len(store.rows())
    before = measured()
    with contextlib.closing(FORK.Process(target=search, args=(path, str(log), kept))) as child:
        child.start()
        child.join(60)
        assert child.exitcode == 0
    assert measured() == before
