# SPDX-License-Identifier: Apache-2.0
"""A function in a fresh process, ours or stock TVM's, whose end is data.

The function is named "module:name"; its arguments and its answer are JSON. One that yields tells
what it has found so far, which stays known where the process dies or hangs later. Run as a program
this file is that process, which has nothing of TVM before the function imports it.
Test: bench/test_child.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_BENCHMARKS = str(Path(__file__).resolve().parents[1])
_LOG_TAIL = 300
# Variables of a process without Collage.
STOCK = {"COLLAGE_DISABLE": "1"}
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a process: what it answered (each value that it yielded, or the one that it
    returned), why it failed, if it did, and the seconds that it took."""

    values: list[Any]
    failure: str
    seconds: float

    @property
    def value(self) -> Any:
        """Return the last value; RuntimeError where the process failed."""
        if self.failure:
            raise RuntimeError(self.failure)
        return self.values[-1]


def call(function: str, arguments: Mapping[str, Any], **settings: Any) -> Any:
    """Call the function in such a process and return its value; RuntimeError where it fails."""
    return run(function, arguments, **settings).value


def run(
    function: str,
    arguments: Mapping[str, Any],
    *,
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    python: str = sys.executable,
) -> Ended:
    """Call the function in a process that is killed, with all that it started, after `limit`
    seconds, and that finds the modules which this one finds; another `python` those of its own
    environment and the benchmarks. Who terminates this process meanwhile ends both, and temporary
    folders of either are removed.

    The variables of `environment` are set over ours (STOCK: without Collage), and no schedules are
    downloaded. What the process writes goes to `log`, or where this process writes.
    """
    with (
        tempfile.TemporaryDirectory(prefix="collage-bench-", ignore_cleanup_errors=True) as folder,
        log.open("w") if log else contextlib.nullcontext() as stream,
        _exiting_when_terminated(),
    ):
        answer = Path(folder) / "answer.jsonl"
        request = {"function": function, "arguments": dict(arguments), "answer": str(answer)}
        path = sys.path if python == sys.executable else [_BENCHMARKS]
        request |= {"path": [os.path.abspath(item) for item in path], "parent": os.getpid()}
        variables = {"TOPHUB_LOCATION": "NONE", **os.environ}
        variables.pop("COLLAGE_DISABLE", None)
        variables |= environment or {}
        # What a process leaves that is killed goes with the folder.
        variables["TMPDIR"] = folder
        began = time.perf_counter()
        command = [python, "-P", __file__, json.dumps(request)]
        given = {"env": variables, "stdout": stream, "stderr": stream}
        try:
            process = subprocess.Popen(command, **given, start_new_session=True)
        except OSError as error:  # no such interpreter
            return Ended([], str(error), 0.0)
        try:
            code = process.wait(limit)
            why = f"ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            why = f"took longer than {limit:g} s"
        finally:
            _end_group(process)
        seconds = time.perf_counter() - began
        told = _told(answer)
    values = [each["value"] for each in told if "value" in each]
    errors = [each["error"] for each in told if "error" in each]
    if why and not errors and log:
        last = (log.read_text(errors="replace").strip() or "no output").splitlines()[-1]
        why = f"{why}: {last[-_LOG_TAIL:]}"
    return Ended(values, errors[0] if errors else why, seconds)


@contextlib.contextmanager
def _exiting_when_terminated() -> Iterator[None]:
    """SIGTERM raises SystemExit in the block, so that what is open is closed. Of other threads than
    the first Python has no handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: Any) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(answer: Path) -> list[dict[str, Any]]:
    """Return the lines that were written to their end."""
    lines = answer.read_text().splitlines(keepends=True) if answer.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _end_group(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of them have ended
    process.wait()


def die_with(parent: int) -> None:
    """End this process with its parent, as exec/worker.py does, which is TVM's."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main(request: dict[str, Any]) -> int:
    """Call the function and write what it answers, or the last line of its error. Ends with whoever
    started this, however that ends."""
    die_with(request["parent"])
    sys.path[:] = [*request["path"], *sys.path]
    with open(request["answer"], "a") as stream:

        def tell(**line: Any) -> None:
            stream.write(json.dumps(line) + "\n")
            stream.flush()

        try:
            module, _, name = request["function"].partition(":")
            found = getattr(importlib.import_module(module), name)(**request["arguments"])
            for value in found if inspect.isgenerator(found) else [found]:
                tell(value=value)
        except Exception as error:  # noqa: BLE001 - whoever started this says what becomes of it
            traceback.print_exc()
            lines = [line for line in str(error).splitlines() if line.strip()]
            tell(error=f"{type(error).__name__}: {lines[-1].strip() if lines else ''}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
