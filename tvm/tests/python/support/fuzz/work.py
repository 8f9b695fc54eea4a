# SPDX-License-Identifier: Apache-2.0
"""Runs graphs in forked processes, so that a crash is a finding and not the end.

The parent has imported TVM and must not run kernels: a fork takes no threads along.
Test: backends/test_fuzz.py.
"""

import dataclasses
import os
import pickle
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Of one graph in one placement; building takes TVM a few seconds on a busy machine.
SECONDS = 120.0


@dataclasses.dataclass(frozen=True)
class Died:
    """How a process ended while it did a task."""

    reason: str


class _Child:
    """One forked process that does tasks in order."""

    def __init__(self, do: Callable[[Any], Any], tasks: list, environment: dict[str, str]):
        self.tasks, self.began = tasks, time.monotonic()
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.reader)
            self._work(do, writer, environment)
        os.close(writer)
        self._buffer = b""

    def _work(self, do, writer, environment):
        """Never returns."""
        try:
            os.environ.update(environment)
            # TVM's C++ warns of its schedules there, and nobody reads it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for task in self.tasks:
                data = pickle.dumps(do(task))
                os.write(writer, struct.pack("<q", len(data)) + data)
        except BaseException:  # noqa: BLE001 - the parent says that this process died
            print(traceback.format_exc(), flush=True)
            os._exit(70)
        os._exit(0)

    def answers(self) -> Iterator[Any]:
        """What has come since; ends with None when the process has ended."""
        data = os.read(self.reader, 1 << 20)
        self._buffer += data
        while len(self._buffer) >= 8:
            (size,) = struct.unpack("<q", self._buffer[:8])
            if len(self._buffer) < 8 + size:
                break
            yield pickle.loads(self._buffer[8 : 8 + size])
            self._buffer = self._buffer[8 + size :]
            self.began = time.monotonic()
        if not data:
            yield None

    def end(self) -> str:
        """How it ended; "" for well."""
        os.close(self.reader)
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        return f"exit status {os.WEXITSTATUS(status)}" if status else ""


def run(
    do: Callable[[Any], Any],
    chunks: Iterable[tuple[list, dict[str, str]]],
    jobs: int,
    seconds: float = SECONDS,
) -> Iterator[tuple[Any, Any]]:
    """Yield (task, what do(task) returned or Died). chunks: (tasks, environment) of one process."""
    waiting = iter(chunks)
    children: list[_Child] = []
    again: list[tuple[list, dict[str, str]]] = []
    environments: dict[int, dict[str, str]] = {}
    try:
        while True:
            while len(children) < jobs:
                chunk = again.pop() if again else next(waiting, None)
                if chunk is None:
                    break
                child = _Child(do, *chunk)
                environments[child.pid] = chunk[1]
                children.append(child)
            if not children:
                return
            ready, _, _ = select.select([child.reader for child in children], [], [], 1.0)
            for child in list(children):
                if child.reader not in ready:
                    if time.monotonic() - child.began > seconds:
                        os.kill(child.pid, signal.SIGKILL)
                    continue
                for answer in child.answers():
                    if answer is not None:
                        yield child.tasks.pop(0), answer
                        continue
                    children.remove(child)
                    is_late = time.monotonic() - child.began > seconds
                    how = child.end()
                    environment = environments.pop(child.pid)
                    if child.tasks:
                        how = f"no answer in {seconds:.0f} s" if is_late else how
                        yield child.tasks.pop(0), Died(how or "it ended early")
                        if child.tasks:
                            again.append((child.tasks, environment))
    finally:
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            child.end()
