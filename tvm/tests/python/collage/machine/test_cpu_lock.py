# SPDX-License-Identifier: Apache-2.0
"""Searches take turns on the CPUs that they share; locks go with their process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from tree import child_environment
from tvm.relay.collage.machine import cpu_lock
from tvm.relay.collage.machine.cpu_lock import cpus_for_building, cpus_for_measuring, shared_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cpu_lock.VARIABLE, str(tmp_path))
    monkeypatch.setattr(cpu_lock, "said", {})
    return tmp_path


@contextlib.contextmanager
def other_process(what):
    """A fork that does `what(tell)` and is killed at the end; its id, and what reads its words."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            what(lambda text: os.write(write, text.encode()))
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(write)
    try:
        yield pid, lambda: os.read(read, 99).decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)


def hold(kind):
    def what(tell):
        with kind():
            tell("held")
            time.sleep(60)

    return what


class Stop(Exception):
    pass


def is_free(kind):
    """Whether it is to be had at once."""

    def stop(text):
        raise Stop(text)

    try:
        with kind(stop):
            return True
    except Stop:
        return False


def test_time_that_others_took_is_told(folder):
    before = cpu_lock.seconds_waited()
    with cpus_for_measuring():
        assert cpu_lock.seconds_waited() == before
    with other_process(hold(cpus_for_measuring)) as (pid, tells):
        assert tells() == "held"
        began = time.monotonic()
        with cpus_for_measuring(lambda _: os.kill(pid, signal.SIGKILL)):
            took = time.monotonic() - began
    assert 0 < cpu_lock.seconds_waited() - before <= took


@pytest.mark.parametrize(
    ("theirs", "ours", "free"),
    [
        (cpus_for_measuring, cpus_for_measuring, False),
        (cpus_for_measuring, cpus_for_building, False),
        (cpus_for_building, cpus_for_measuring, False),
        (cpus_for_building, cpus_for_building, True),
    ],
)
def test_who_may_be_beside_whom_and_a_death_sets_free(folder, theirs, ours, free):
    with other_process(hold(theirs)) as (pid, tells):
        assert tells() == "held" and is_free(ours) == free
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert is_free(ours), "the files that are left are no locks"
    assert list(folder.iterdir())


def test_a_forked_process_that_lives_on_holds_nothing(folder):
    """As a worker of a search does."""
    with contextlib.ExitStack() as forks:
        with cpus_for_measuring():
            _, tells = forks.enter_context(other_process(lambda tell: tell("forked")))
            assert tells() == "forked"
        assert is_free(cpus_for_measuring)
        _, tells = forks.enter_context(other_process(hold(cpus_for_measuring)))
        assert tells() == "held"


def test_a_fork_that_outlives_a_killed_search_holds_nothing(folder):
    """As of a user's program, which forks while a thread of it searches."""

    def search(tell):
        def fork():
            if os.fork() == 0:
                tell(str(os.getpid()))
                time.sleep(60)
                os._exit(1)

        with cpus_for_measuring():
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
            time.sleep(60)

    with other_process(search) as (pid, tells):
        fork = int(tells())
        try:
            assert not is_free(cpus_for_measuring)
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert is_free(cpus_for_measuring)
        finally:
            os.kill(fork, signal.SIGKILL)


def test_a_fork_that_leaves_the_block_lets_nothing_of_the_search_go(folder):
    with contextlib.ExitStack() as block:
        block.enter_context(cpus_for_measuring())

        def leave(tell):
            block.close()
            tell(f"free: {is_free(cpus_for_measuring)}")

        with other_process(leave) as (_, tells):
            assert tells() == "free: False"
    assert is_free(cpus_for_measuring)


def test_blocks_in_blocks_take_nothing_and_other_threads_wait(folder):
    seen = []
    with cpus_for_measuring(), cpus_for_building(), cpus_for_measuring():
        thread = threading.Thread(target=lambda: seen.append(is_free(cpus_for_measuring)))
        thread.start()
        thread.join()
    assert seen == [False] and is_free(cpus_for_measuring)


def test_processes_on_cores_of_their_own_do_not_wait(folder, monkeypatch):
    monkeypatch.setattr(cpu_lock, "cores_of", lambda cpus: {"0": [0], "1": [1]})
    with other_process(hold(cpus_for_measuring)) as (_, tells):
        assert tells() == "held"
        monkeypatch.setattr(cpu_lock, "cores_of", lambda cpus: {"2": [2], "10": [10]})
        assert is_free(cpus_for_measuring)
        monkeypatch.setattr(cpu_lock, "cores_of", lambda cpus: {"1": [65]})  # a hyper-thread of 1
        assert not is_free(cpus_for_measuring)


def test_whoever_waits_to_measure_is_not_passed_by_builds(folder):
    def wait_to_measure(tell):
        with cpus_for_measuring(lambda text: tell("waits")):
            pass

    with other_process(hold(cpus_for_building)) as (_, building):
        assert building() == "held" and is_free(cpus_for_building)
        with other_process(wait_to_measure) as (_, waiting):
            assert waiting().startswith("waits")
            assert not is_free(cpus_for_building)


def test_who_came_first_is_served_first(folder):
    served, told = os.pipe()

    def wait(number):
        def what(tell):
            with cpus_for_measuring(lambda text: tell("waits")):
                os.write(told, bytes([number]))

        return what

    with contextlib.ExitStack() as block, contextlib.ExitStack() as waiters:
        block.enter_context(cpus_for_measuring())
        for number in range(6):
            _, tells = waiters.enter_context(other_process(wait(number)))
            assert tells().startswith("waits")
        killed, tells = waiters.enter_context(other_process(wait(99)))
        assert tells().startswith("waits")
        os.kill(killed, signal.SIGKILL)
        _, tells = waiters.enter_context(other_process(wait(6)))
        assert tells().startswith("waits")
        block.close()
        order = b"".join(os.read(served, 1) for _ in range(7))
    assert [*order] == [*range(7)]
    for end in (served, told):
        os.close(end)


def test_who_takes_them_again_and_again_passes_nobody_by(folder):
    def wait(tell):
        with cpus_for_measuring(lambda text: tell("waits")):
            tell("served")

    with contextlib.ExitStack() as block:
        with cpus_for_measuring():
            _, tells = block.enter_context(other_process(wait))
            assert tells().startswith("waits")
        with cpus_for_measuring():
            assert "served" in tells(), "it had its turn before ours"


def test_nothing_is_left_of_a_queue(folder):
    with other_process(hold(cpus_for_measuring)) as (_, tells):
        assert tells() == "held" and not is_free(cpus_for_measuring)
    with other_process(hold(cpus_for_measuring)) as (_, tells):
        assert tells() == "held"

        def wait(tell):
            with cpus_for_measuring(lambda text: tell("waits")):
                pass

        with other_process(wait) as (_, waiting):
            assert waiting().startswith("waits")
    assert any(".queue-" in file.name for file in folder.iterdir()), "of a process that was killed"
    assert is_free(cpus_for_measuring)
    assert not any(".queue-" in file.name for file in folder.iterdir())


SEARCH = """
import os, sys
os.environ[sys.argv[2]] = sys.argv[3]
from measure_fakes import fake_candidate, fake_options, measure

options = fake_options(workers=1, batch=2, measure_step="measure_fakes:timed_measure")
batch = [fake_candidate(str(k), log=sys.argv[1]) for k in range(6)]
with measure.MeasuredCostEstimator(options) as estimator:
    assert all(cost.status == "measured" for cost in estimator.estimate(batch))
"""


def test_two_searches_at_once_never_measure_at_once(folder):
    """Each is a process with a worker; in a batch's turn, with its builds done, nobody else's."""
    logs = [folder / f"log{k}" for k in range(2)]
    command = [sys.executable, "-c", SEARCH]
    searches = [
        subprocess.Popen(
            [*command, str(log), cpu_lock.VARIABLE, str(folder)], env=child_environment()
        )
        for log in logs
    ]
    assert [search.wait(120) for search in searches] == [0, 0]
    lines = [log.read_text().splitlines() for log in logs]
    spans = [sorted(json.loads(line) for line in each if line[0] == "[") for each in lines]
    assert [len(each) for each in spans] == [6, 6]
    # A turn is a batch of two.
    turns = [[each[k][0], each[k + 1][1]] for each in spans for k in (0, 2, 4)]
    turns.sort()
    for (_, end), (begin, _) in zip(turns, turns[1:], strict=False):
        assert end <= begin


@pytest.mark.usefixtures("forked_workers")
def test_waiting_is_told_by_progress(folder):
    told = []

    class Progress(measure.Progress):
        def on_wait(self, text):
            told.append(text)
            raise Stop

    with (
        other_process(hold(cpus_for_measuring)) as (_, tells),
        measure.MeasuredCostEstimator(fake_options(), progress=Progress()) as estimator,
    ):
        assert tells() == "held"
        with pytest.raises(Stop):
            estimator.estimate([fake_candidate("a")])
    assert told[0].startswith("waiting for another search that uses CPU ")


def test_the_folder_is_everybodys_or_another_is_taken(tmp_path):
    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)
    found = shared_folder((str(tmp_path / "none"), str(private), str(shared)))
    assert found.parent == shared and found.stat().st_mode & 0o7777 == 0o1777
    assert shared_folder((str(shared),)) == found
    with pytest.raises(OSError, match="is a folder that all users may write to"):
        shared_folder((str(private),))
    found.rmdir()
    found.symlink_to(private)
    with pytest.raises(OSError, match="is a folder that all users"):
        shared_folder((str(shared),))


def test_without_locks_it_goes_on_and_says_so_once(folder, monkeypatch, caplog):
    monkeypatch.setenv(cpu_lock.VARIABLE, str(folder / "none" / "at" / "all"))
    for _ in range(2):
        with cpus_for_measuring():
            pass
    [record] = caplog.records
    assert "another search at the same time" in record.getMessage()
    monkeypatch.setenv(cpu_lock.VARIABLE, cpu_lock.NO_LOCKS)
    with cpus_for_measuring(), other_process(hold(cpus_for_measuring)) as (_, tells):
        assert tells() == "held"
