# SPDX-License-Identifier: Apache-2.0
"""Tasks in forks: each has its reply, whatever the others do."""

import gc
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import tvm_forks
from tvm.relay.collage.exec.forks import run_in_forks, run_side_by_side

FOREVER = 600.0


def raises(error):
    raise error


def hang():
    time.sleep(FOREVER)


def replies(seconds=lambda left: math.inf, **tasks):
    found = run_in_forks(tasks, seconds)
    return {name: (reply.outcome, reply.value) for name, reply in found.items()}


def test_values_come_back_in_turn_and_nothing_changes_here():
    seen, told = [], []
    tasks = {"a": lambda: seen.append(1) or [1, "x"], "b": lambda: len(seen)}
    found = run_in_forks(tasks, lambda left: 10.0 * left, lambda *step: told.append(step))
    assert [(name, reply.value) for name, reply in found.items()] == [("a", [1, "x"]), ("b", 1)]
    assert seen == [] and told == [("a", 0), ("b", 1)]


class Told:
    """In a circle, which only a collection of garbage ends, and writes a file at its end."""

    def __init__(self, file):
        self._file, self.itself = file, self

    def __del__(self):
        self._file.touch()


def test_a_fork_leaves_the_garbage_of_its_parent(tmp_path):
    """A session's end waits for threads, which a fork has none of."""
    gc.disable()
    try:
        Told(tmp_path / "ended")
        assert replies(a=lambda: gc.collect() and None or True)["a"] == ("ok", True)
        assert not (tmp_path / "ended").exists()
    finally:
        gc.enable()
    gc.collect()
    assert (tmp_path / "ended").exists()


def test_an_exception_is_an_answer():
    found = run_in_forks({"a": lambda: raises(ValueError("why")), "b": lambda: 2}, lambda _: 9.0)
    assert (found["a"].outcome, found["a"].type) == ("failed", "ValueError")
    assert found["a"].message == "ValueError: why" and found["b"].value == 2


def test_who_hangs_is_killed_with_what_it_started_and_the_others_go_on(tmp_path):
    file = tmp_path / "pid"

    def start():
        file.write_text(str(subprocess.Popen(["sleep", str(FOREVER)]).pid))
        hang()

    seconds = {3: 9.0, 2: 0.5, 1: 9.0}.get
    found = replies(seconds, a=lambda: 1, b=start, c=lambda: 3)
    assert found == {"a": ("ok", 1), "b": ("timeout", None), "c": ("ok", 3)}
    until = time.monotonic() + 10
    while Path(f"/proc/{file.read_text()}/exe").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{file.read_text()}/exe").exists()


def test_no_time_is_a_timeout():
    assert replies(lambda left: -1.0, a=hang, b=hang) == {k: ("timeout", None) for k in "ab"}


def test_who_crashes_dies_alone():
    tasks = {"a": lambda: os.kill(os.getpid(), signal.SIGKILL), "b": lambda: 2}
    found = run_in_forks(tasks, lambda _: 9.0)
    assert (found["a"].outcome, found["a"].message) == ("died", "killed by SIGKILL")
    assert found["b"].value == 2


def test_an_interrupt_leaves_no_fork(monkeypatch):
    fork, forks = os.fork, []
    monkeypatch.setattr(os, "fork", lambda: forks.append(fork()) or forks[-1])

    def interrupt(name, done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_forks({"a": hang}, lambda _: FOREVER, interrupt)
    assert len(forks) == 1 and not Path(f"/proc/{forks[0]}").exists()


def test_what_was_printed_before_is_printed_once():
    code = (
        "from tvm.relay.collage.exec.forks import run_in_forks\n"
        "print('once')\n"
        "print(run_in_forks({'a': lambda: 1}, lambda _: 9.0)['a'].value)"
    )
    done = tvm_forks.run(code)
    assert done.stdout == "once\n1\n"


def meet(folder, own, other):
    """Return once the other is at work, too."""
    (folder / own).touch()
    while not (folder / other).exists():
        time.sleep(0.01)
    return own


def test_so_many_are_at_work_at_once_and_each_has_its_reply(tmp_path):
    told = []
    tasks = {
        "a": lambda: meet(tmp_path, "a", "b"),
        "b": lambda: meet(tmp_path, "b", "a"),
        "c": lambda: raises(ValueError("why")),
        "d": lambda: os.kill(os.getpid(), signal.SIGKILL),
    }
    found = run_side_by_side(tasks, 2, on_task=lambda *step: told.append(step))
    assert {name: reply.outcome for name, reply in found.items()} == {
        "a": "ok",
        "b": "ok",
        "c": "failed",
        "d": "died",
    }
    assert (found["a"].value, found["c"].message) == ("a", "ValueError: why")
    assert [name for name, _ in told] == ["a", "b", "c", "d"] and told[:2] == [("a", 0), ("b", 0)]


def test_nobody_waits_for_what_is_not_awaited(tmp_path):
    """It has its reply if it is there by then, and else it is killed."""
    tasks = {"a": lambda: meet(tmp_path, "a", "b"), "b": lambda: meet(tmp_path, "b", "a")}
    found = run_side_by_side({"quick": lambda: 1} | tasks, 3, unawaited=["quick", "slow"])
    assert {name: reply.value for name, reply in found.items()} == {"quick": 1, "a": "a", "b": "b"}
    found = run_side_by_side({"a": lambda: 2, "slow": hang}, 2, unawaited=["slow"])
    assert {name: reply.value for name, reply in found.items()} == {"a": 2}
    assert run_side_by_side({"slow": hang}, 2, unawaited=["slow"]) == {}


def test_patience_ends_once_there_is_something(tmp_path):
    """Till then all are awaited; a failure is nothing."""
    tasks = {"fails": lambda: raises(ValueError("why")), "a": lambda: time.sleep(0.5), "b": hang}
    found = run_side_by_side(tasks, 3, patience=0.1)
    assert {name: reply.outcome for name, reply in found.items()} == {"fails": "failed", "a": "ok"}


def test_when_time_is_up_those_at_work_and_those_that_wait_have_a_timeout():
    found = run_side_by_side({"a": lambda: 1, "b": hang, "c": hang}, 1, seconds=0.5)
    assert {name: reply.outcome for name, reply in found.items()} == {
        "a": "ok",
        "b": "timeout",
        "c": "timeout",
    }
    assert found["c"].message == "it did not end within 0 s"


def test_an_interrupt_leaves_no_fork_of_several(monkeypatch):
    fork, forks = os.fork, []
    monkeypatch.setattr(os, "fork", lambda: forks.append(fork()) or forks[-1])

    def interrupt(name, done):
        if name == "c":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_side_by_side({name: hang for name in "abc"}, 3, on_task=interrupt)
    assert len(forks) == 2 and not any(Path(f"/proc/{each}").exists() for each in forks)
