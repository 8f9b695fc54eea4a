# SPDX-License-Identifier: Apache-2.0
"""A function in a fork of this process, whose end is data.

As harness/child.py, for functions that take less time than a fresh process takes to import TVM. The
modules that they need are imported before, and this process runs nothing of theirs: a fork has none
of the threads that native libraries have started. Several threads may each wait for a fork.
Test: bench/test_forked.py.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from . import child

_LOG_TAIL = 200


class Ended(NamedTuple):
    """What the function answered, or how its process ended without: `failure` says why, `is_late`
    that it was killed at the limit."""

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
    It answers what JSON holds; what it writes is thrown away, but for the last line where it
    fails."""
    with tempfile.TemporaryDirectory(prefix="collage-bench-", ignore_cleanup_errors=True) as folder:
        given = (function, arguments, folder, os.getpid())
        process = multiprocessing.get_context("fork").Process(target=_main, args=given)
        process.start()
        try:
            process.join(limit)
            is_late = process.is_alive()
        finally:
            _end_group(process)
        if is_late:
            return Ended(None, f"took longer than {limit:g} s", True)
        if process.exitcode == 0:
            value = json.loads(_answer(folder).read_text())
            return Ended(value, "", False)
        lines = _log(folder).read_text(errors="replace").split("\n")
        last = [f": {line[:_LOG_TAIL]}" for line in lines if line.strip()][-1:]
        why = "".join([_code_text(process.exitcode or 0), *last])
        return Ended(None, why, False)


def _main(function: Callable[..., Any], arguments: Any, folder: str, parent: int) -> None:
    child.die_with(parent)
    os.setsid()
    os.environ["TMPDIR"] = tempfile.tempdir = folder  # what is left goes with it
    with _log(folder).open("w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        try:
            _answer(folder).write_text(json.dumps(function(*arguments)))
        except Exception:  # noqa: BLE001 - the log tells of it
            traceback.print_exc(file=log)
            log.flush()
            os._exit(1)
    os._exit(0)  # Python's own end would wait for threads that a fork does not have


def _end_group(process: Any) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # one that had not yet a group of its own
    process.join()


def _code_text(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _log(folder: str) -> Path:
    return Path(folder) / "log.txt"


def _answer(folder: str) -> Path:
    return Path(folder) / "answer.json"
