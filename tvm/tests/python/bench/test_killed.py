# SPDX-License-Identifier: Apache-2.0
"""Whole benchmarks that are killed or interrupted, while they build and while they measure: no
process of theirs goes on, and Ctrl-C leaves no folder either."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tree

PROGRAM = str(tree.SUPPORT / "bench_program.py")
# A variable that all that a benchmark starts inherits, whoever its parent is then.
MARK = "COLLAGE_TEST_BENCH"
QUICK = ["--rounds", "100000"]
ZOO = ["zoo", "--models", "two_inputs", "--backends", "dnnl", *QUICK]
SLOW = pytest.mark.slow("a net built by a whole benchmark")
# What the command lines of the processes of interest have in them.
CHILD, WORKER = "harness/child.py", "collage.exec."


def marked(mark):
    """Command lines of the processes that have the mark and run, by their numbers."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                command = (folder / "cmdline").read_bytes()
                found[int(folder.name)] = command.replace(b"\0", b" ").decode()
    return found


def until(is_so, seconds, driver=None):
    """Whether it is so within so many seconds; AssertionError when the driver ends before."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        assert driver is None or driver.poll() is None, "the benchmark ended by itself"
        time.sleep(0.05)
    return is_so()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill_9", "ctrl_c"])
@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        pytest.param([*ZOO, "--record"], [CHILD, WORKER], id="zoo"),
        pytest.param(
            [*ZOO, "--depth", "minutes", "--record"], [CHILD, WORKER], id="minutes", marks=SLOW
        ),
    ],
)
def test_no_process_goes_on(arguments, there, how, tmp_path):
    mark, scratch = str(tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    folders = [tree.ROOT / "bench", tree.ROOT / "demos"]
    variables = {MARK: mark, "TMPDIR": str(scratch)}
    figures = [str(tmp_path / "figures")] if arguments[-1] == "--record" else []
    with open(tmp_path / "log.txt", "w") as log:
        driver = subprocess.Popen(
            [sys.executable, PROGRAM, *arguments, *figures],
            env=tree.child_environment(*folders, **variables),
            stdout=log,
            stderr=log,
            start_new_session=True,  # as a terminal gives one to each command
        )

    def is_moment():
        lines = [line for pid, line in marked(mark).items() if pid != driver.pid]
        return all(any(word in line for line in lines) for word in there)

    try:
        assert until(is_moment, 200, driver), (tmp_path / "log.txt").read_text()
        assert len(marked(mark)) > len(there), "the benchmark itself, and those"
        if how == signal.SIGKILL:
            driver.kill()
        else:
            os.killpg(driver.pid, how)  # a terminal's Ctrl-C reaches the whole group
        assert driver.wait(timeout=30) != 0
        assert until(lambda: not marked(mark), 60), marked(mark)
        if how == signal.SIGINT:
            # A folder's lock file that stands alone goes with the next one that is made.
            assert [file for file in scratch.iterdir() if file.suffix != ".lock"] == []
    finally:
        driver.kill()
        driver.wait()
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
