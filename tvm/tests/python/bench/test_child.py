# SPDX-License-Identifier: Apache-2.0
"""A benchmark's function in a process of its own: what it finds there, and how its end is data."""

import os
import signal
import subprocess
import sys
import venv

import pytest
from bench_children import ends, is_running
from harness import child


def test_it_answers_with_our_modules_and_variables(monkeypatch):
    monkeypatch.setenv("COLLAGE_DISABLE", "0")
    monkeypatch.delenv("TOPHUB_LOCATION", raising=False)
    names = ["COLLAGE_DISABLE", "TOPHUB_LOCATION", "CODE"]
    given = {"names": names}
    ours = child.call("bench_children:answer", given, environment={"CODE": "7"})
    assert ours == {
        **{"COLLAGE_DISABLE": None, "TOPHUB_LOCATION": "NONE", "CODE": "7"},
        "tvm": False,
    }
    stock = child.call("bench_children:answer", given, environment=child.STOCK)
    assert stock["COLLAGE_DISABLE"] == "1"


@pytest.mark.parametrize(
    "how, told, failure",
    [
        ("fine", 3, ""),
        ("raises", 1, "ValueError: no such operator: Moa"),
        ("dies", 2, "ended with 3: no output"),
    ],
)
def test_what_was_told_before_a_failure_stays(tmp_path, how, told, failure):
    ended = child.run("bench_children:fail", {"how": how}, log=tmp_path / "log.txt")
    assert len(ended.values) == told and ended.failure == failure and ended.seconds > 0
    if failure:
        with pytest.raises(RuntimeError, match=failure):
            _ = ended.value
    assert ended.values[0] == {"stage": "import", "model": {"nodes": 3}}


def test_one_that_hangs_is_killed_with_all_that_it_started(tmp_path):
    log = tmp_path / "log.txt"
    ended = child.run("bench_children:fail", {"how": "hangs"}, limit=3.0, log=log)
    grandchild = int(log.read_text())
    assert ended.failure == f"took longer than 3 s: {grandchild}"
    assert ended.values[-1] == {"stage": "measure"}
    assert ends(grandchild)


def test_another_interpreter_has_the_benchmarks_and_its_own_modules(tmp_path):
    venv.create(tmp_path, symlinks=True)
    python = str(tmp_path / "bin/python")
    found = child.call("harness.tables:milliseconds", {"seconds": 2e-3}, python=python)
    assert found == "2.000"
    log = tmp_path / "log.txt"
    ended = child.run("models:find", {"names": "bert"}, python=python, log=log)
    assert ended.failure == "ModuleNotFoundError: No module named 'onnx'"
    ended = child.run("models:find", {"names": "bert"}, python=str(tmp_path / "python"))
    assert "No such file" in ended.failure and not ended.values


def test_what_is_not_there_is_named():
    with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
        child.call("no_such_module:name", {})


WAITING = "import sys; sys.path[:] = {path!r}; from harness import child; child.run({name!r}, {{}})"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_benchmark_that_is_ended_leaves_no_child_and_if_it_can_no_folder(how, tmp_path):
    """What the benchmarks build and search in; they measure in workers of the package."""
    code = WAITING.format(path=sys.path, name="bench_children:wait")
    # Tests that run in the background ignore that signal, and would pass this on.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + code
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    pipes["env"] = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as driver:
        waiting = int(driver.stdout.readline())
        assert is_running(waiting)
        driver.send_signal(how)
        driver.wait(timeout=30)
    assert ends(waiting)
    assert bool(list(tmp_path.iterdir())) == (how == signal.SIGKILL)
