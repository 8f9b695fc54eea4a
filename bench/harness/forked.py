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
import os
import pkgutil
import select
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from . import child

_ANSWER, _LOG = "answer.json", "log.txt"
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
    It answers what JSON holds; what it writes is thrown away, but for the last line where it
    fails."""
    with tempfile.TemporaryDirectory(prefix="collage-bench-", ignore_cleanup_errors=True) as folder:
        parent = os.getpid()
        process = os.fork()
        if not process:
            _answer(function, arguments, Path(folder), parent)
        handle = os.pidfd_open(process)
        try:
            is_late = not select.select([handle], [], [], limit)[0]
        finally:
            os.close(handle)
            with contextlib.suppress(ProcessLookupError):  # all that it started has ended
                os.killpg(process, signal.SIGKILL)
            os.kill(process, signal.SIGKILL)  # one that had not yet a group of its own
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if is_late:
            return Ended(None, f"took longer than {limit:g} s", True)
        if not code:
            return Ended(json.loads(Path(folder, _ANSWER).read_text()), "", False)
        lines = Path(folder, _LOG).read_text(errors="replace").split("\n")
        last = [f": {line[:_LOG_TAIL]}" for line in lines if line.strip()][-1:]
        return Ended(None, "".join([_code_text(code), *last]), False)


def _answer(function: Callable[..., Any], arguments: Any, folder: Path, parent: int) -> NoReturn:
    """Write what the function answers, and end this process, which is the fork. Python's own end
    would wait for threads that a fork does not have."""
    code = 1
    try:
        child.die_with(parent)
        os.setsid()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)  # what is left goes with it
        with Path(folder, _LOG).open("w") as log:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            try:
                Path(folder, _ANSWER).write_text(json.dumps(function(*arguments)))
                code = 0
            except Exception:  # noqa: BLE001 - the log tells of it
                traceback.print_exc(file=log)
    finally:
        os._exit(code)


def _code_text(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
