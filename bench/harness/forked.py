# SPDX-License-Identifier: Apache-2.0
"""A function in a fork of this process, whose end is data.

As harness/child.py, for functions that take less time than a fresh process takes to import TVM. The
modules that they need are imported before, and this process runs nothing of theirs: a fork has none
of the threads that native libraries have started. Several threads may each wait for a fork.
Test: bench/test_forked.py.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tvm.relay.collage.exec.forks import run_in_forks

_LOG_TAIL = 200


class Ended(NamedTuple):
    """The end of a fork: what the function answered, or how its process ended without: `failure`
    says why, `is_late` that it was killed at the limit."""

    value: Any
    failure: str
    is_late: bool


def import_all(package: ModuleType) -> None:
    """Import each module of a package, also those that it imports late: no fork has to."""
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not each.name.endswith(".__main__"):
            importlib.import_module(each.name)


def run(function: Callable[..., Any], *arguments: Any, limit: float) -> Ended:
    """Call the function in a fork that is killed, with all that it started, after `limit` seconds.
    It answers what JSON holds; what it writes is thrown away, but for the last line where it dies.
    """
    with tempfile.TemporaryDirectory(prefix="collage-bench-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log.txt")

        def task() -> Any:
            os.environ["TMPDIR"] = tempfile.tempdir = folder  # what is left goes with it
            with log.open("w") as stream:
                for number in (1, 2):
                    os.dup2(stream.fileno(), number)
            return function(*arguments)

        reply = run_in_forks({"": task}, lambda left: limit)[""]
        if reply.outcome == "ok":
            return Ended(reply.value, "", False)
        if reply.outcome == "timeout":
            return Ended(None, f"took longer than {limit:g} s", True)
        if reply.outcome == "failed":
            return Ended(None, reply.message, False)
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        last = [line[:_LOG_TAIL] for line in lines if line.strip()][-1:]
        return Ended(None, ": ".join([reply.message, *last]), False)
