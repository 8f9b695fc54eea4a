# SPDX-License-Identifier: Apache-2.0
"""A function in a fork, whose answer or end is data, whatever it does."""

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bench_children import ends
from harness import forked


def answer(value):
    return {"value": value, "process": os.getpid(), "folder": tempfile.gettempdir()}


def end_by_a_signal():
    os.write(2, b"double free\n\n")
    os.kill(os.getpid(), signal.SIGKILL)  # of others pytest writes a stack


def end_early():
    os._exit(3)


def raise_an_error():
    raise ValueError("no such operator: Moa")


def hang(file):
    Path(file).write_text(str(subprocess.Popen(["sleep", "60"]).pid))
    time.sleep(60)


def test_the_answer_is_of_another_process_whose_files_go_with_it():
    ended = forked.run(answer, 7, limit=20)
    assert ended.value["value"] == 7 and not ended.failure and not ended.is_late
    assert ended.value["process"] != os.getpid()
    assert ended.value["folder"] != tempfile.gettempdir()
    assert not os.path.exists(ended.value["folder"])


def test_what_a_package_imports_late_is_imported(tmp_path, monkeypatch):
    package = tmp_path / "late_package"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/module.py"):
        (package / name).write_text("")
    (package / "__main__.py").write_text("raise SystemExit(1)")
    monkeypatch.syspath_prepend(tmp_path)
    forked.import_all(importlib.import_module("late_package"))
    assert "late_package.inner.module" in sys.modules


@pytest.mark.parametrize(
    "function, failure",
    [
        (end_by_a_signal, "killed by SIGKILL: double free"),
        (end_early, "exited with code 3"),
        (raise_an_error, "ValueError: no such operator: Moa"),
    ],
)
def test_an_end_without_an_answer_says_how(function, failure):
    ended = forked.run(function, limit=20)
    assert (ended.value, ended.failure, ended.is_late) == (None, failure, False)


def test_one_that_hangs_is_killed_with_all_that_it_started(tmp_path):
    file = tmp_path / "pid.txt"
    ended = forked.run(hang, str(file), limit=1.0)
    assert ended.is_late and ended.failure == "took longer than 1 s"
    assert ends(int(file.read_text()))


def test_threads_wait_for_a_fork_each():
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda value: forked.run(answer, value, limit=20), range(6)))
    assert [ended.value["value"] for ended in found] == list(range(6))
    assert sys.stdout.writable()  # a fork's streams are its own
