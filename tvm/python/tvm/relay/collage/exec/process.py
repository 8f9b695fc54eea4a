# SPDX-License-Identifier: Apache-2.0
"""One worker process seen from the driver: start, send, poll, kill. Test: exec/test_pool.py.

A worker leads its own session, so that killing its group takes along what a candidate forked, and
Ctrl-C reaches the driver alone. It dies with the thread that started it (PR_SET_PDEATHSIG), or when
this object is collected or the interpreter ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import selectors
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..machine.memory import default_limit, resident_bytes
from .launch import WorkerStartError, kill_worker, make_scratch, start_worker
from .machine_fault import MEMORY, fault_of_death, kills_for_memory
from .reply import Reply, Unsupported, how_it_ended, parse_reply
from .spent import add_workers, phase

# How often a wait looks for a death that no descriptor showed (a forked child may hold them open).
_DEATH_CHECK_SECONDS = 0.25
_ENDING_SECONDS = 2.0
_STDERR_TAIL = 2000
# Replies are a few KB: whoever writes this much writes no reply.
_LONGEST_REPLY = 256 << 20


@dataclasses.dataclass(frozen=True)
class WorkerOptions:
    """Options of worker processes."""

    # modules that a worker imports at its start; what they register (backends, schedules) is there
    # for all candidates
    imports: Sequence[str] = ()
    # variables set over the driver's own
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # of one worker, which is killed when it holds more; 0 for four fifths of the machine's
    # (memory.py)
    memory_limit_bytes: int = 0
    startup_seconds: float = 120.0  # how long a start (the import of TVM) may take


class WorkerProcess:
    """A started worker that answers one request at a time. poll() never blocks."""

    def __init__(self, options: WorkerOptions | None = None) -> None:
        self._options = options = options or WorkerOptions()
        # What a killed candidate leaves there goes with the worker.
        self._scratch = scratch = make_scratch()
        self._process, replies = start_worker(options.environment, scratch, options.startup_seconds)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin = self._process.stdin.fileno()
        self._stderr = self._process.stdout.fileno()
        self._replies = replies
        for fd in (self._stdin, self._stderr, self._replies):
            os.set_blocking(fd, False)
        self._open = {self._stderr, self._replies}
        self.kill = weakref.finalize(
            self, kill_worker, self._process, replies, scratch, os.getpid()
        )
        self._memory_limit = options.memory_limit_bytes or default_limit()
        self._ids = itertools.count()
        self._kills = 0
        self._to_send = b""
        self._received = b""
        self._tail = b""
        self._awaited: int | None = None
        self._queued: tuple[str, dict[str, Any], float] | None = None
        self._is_starting = True
        self._deadline = 0.0
        start = {"path": [*map(os.path.abspath, sys.path)], "imports": [*options.imports]}
        self._issue("ping", start, options.startup_seconds)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self.kill.alive and not self._has_exited()

    def send(self, command: str, arguments: dict[str, Any], seconds: float) -> None:
        """Begin a request that may take so many seconds once the worker is ready for it."""
        if self._is_starting:
            self._queued = (command, arguments, seconds)
        else:
            self._issue(command, arguments, seconds)

    def call(self, command: str, arguments: dict[str, Any], seconds: float) -> Reply:
        """send and wait for the reply."""
        self.send(command, arguments, seconds)
        return self.answer()

    def answer(self) -> Reply:
        """Wait for the reply to what was sent."""
        while True:
            reply = self.poll()
            if reply is not None:
                return reply
            wait([self])

    def poll(self) -> Reply | None:
        """Move bytes; the reply when the request has ended, after which a worker that timed out or
        died is gone. Raises WorkerStartError when the worker did not come up."""
        self._write()
        self._read()
        line, newline, rest = self._received.partition(b"\n")
        if newline:
            self._received = rest
            return self._on_line(line)
        if self._memory() > self._memory_limit:
            text = f"it held {self._memory() / 1e9:.2f} GB of memory"
            self.kill()
            limit = f"{self._memory_limit / 1e9:.2f} GB (measure option memory_limit_bytes)"
            text += f", more than its limit of {limit}"
            return self._on_end("died", text + self._printed(), fault=MEMORY)
        if self._has_exited():
            self._read()
            # With what it left in its folder, which is removed as it is killed.
            fault = fault_of_death(self._exit_code(), self._scratch.path, self._kills)
            self.kill()
            text = how_it_ended(self._process.returncode) + self._printed()
            return self._on_end("died", text, fault=fault, code=self._process.returncode)
        if time.monotonic() > self._deadline:
            if self._replies not in self._open:
                self.kill()
                return self._on_end("died", "it closed the worker's reply channel")
            self.kill()
            return self._on_end("timeout", "no answer within its time limit" + self._printed())
        return None

    def _issue(self, command: str, arguments: dict[str, Any], seconds: float) -> None:
        self._awaited = next(self._ids)
        request = {"id": self._awaited, "command": command, "arguments": arguments}
        self._to_send = json.dumps(request).encode() + b"\n"
        self._tail = b""
        self._kills = kills_for_memory()
        self._deadline = time.monotonic() + seconds

    def _on_line(self, line: bytes) -> Reply | None:
        reply = parse_reply(line)
        if reply is None or reply["id"] != self._awaited:
            self.kill()
            return self._on_end("died", "it wrote over the worker's reply channel")
        add_workers(reply.get("spent"))
        if not reply["ok"]:
            return self._on_end("failed", reply["message"], reply["type"], fault=reply["fault"])
        if self._is_starting:
            self._is_starting = False
            if self._queued is not None:
                self._issue(*self._queued)
                self._queued = None
            return None
        self._awaited = None
        return Reply("ok", reply["value"])

    def _on_end(
        self, outcome: str, message: str, kind: str = "", fault: str = "", code: int | None = None
    ) -> Reply:
        if self._is_starting:
            self.kill()
            modules = ", ".join(["tvm", *self._options.imports])
            raise WorkerStartError(
                f"a worker process did not come up ({outcome}): {message}. It imports {modules}: "
                f"try `{sys.executable} -c 'import {modules}'`, and look at its memory limit "
                f"({self._memory_limit} bytes)"
            )
        self._awaited = None
        return Reply(outcome, None, kind, message=message, fault=fault, code=code)

    def _write(self) -> None:
        while self._to_send:
            try:
                self._to_send = self._to_send[os.write(self._stdin, self._to_send) :]
            except BlockingIOError:
                return
            except OSError:  # it died: seen by its exit
                self._to_send = b""

    def _read(self) -> None:
        if self._stderr in self._open:
            self._tail = (self._tail + self._read_from(self._stderr))[-_STDERR_TAIL:]
        if self._replies in self._open:
            self._received += self._read_from(self._replies)
            if len(self._received) > _LONGEST_REPLY:
                self._received = b"too long\n"

    def _read_from(self, fd: int) -> bytes:
        """Read what can be read now, at most a few MB so that a babbler cannot hold the driver."""
        parts = []
        for _ in range(64):
            try:
                part = os.read(fd, 1 << 16)
            except OSError:  # nothing now, or closed by kill
                break
            if not part:
                self._open.discard(fd)
                if fd == self._replies:  # it ends, or it closed what it should not have
                    self._deadline = min(self._deadline, time.monotonic() + _ENDING_SECONDS)
                break
            parts.append(part)
        return b"".join(parts)

    def _printed(self) -> str:
        """Return the end of what the worker printed, to go after a message."""
        lines = self._tail.decode(errors="replace").strip().splitlines()[-3:]
        return "; it printed: " + " | ".join(lines)[-300:] if lines else ""

    def _memory(self) -> int:
        return 0 if self._process.returncode is not None else resident_bytes(self._process.pid)

    def _has_exited(self) -> bool:
        return self._exit_code() is not None

    def _exit_code(self) -> int | None:
        """Return Popen.returncode, None while it runs; it stays unreaped, so that its process
        group's id stays its own. 0 for one that somebody else has reaped."""
        if self._process.returncode is not None:
            return self._process.returncode
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            ended = os.waitid(os.P_PID, self._process.pid, flags)
        except ChildProcessError:
            return 0
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def wait(workers: Iterable[WorkerProcess]) -> None:
    """Sleep until one of the workers may have something new for poll()."""
    workers = list(workers)
    is_start = bool(workers) and all(worker._is_starting for worker in workers)
    with (
        phase("worker start") if is_start else contextlib.nullcontext(),
        selectors.DefaultSelector() as selector,
    ):
        seconds = _DEATH_CHECK_SECONDS
        for worker in workers:
            if worker._has_exited():
                return
            seconds = min(seconds, worker._deadline - time.monotonic())
            if worker._replies not in worker._open:
                seconds = min(seconds, 0.01)
            for fd in worker._open:
                selector.register(fd, selectors.EVENT_READ)
            if worker._to_send:
                selector.register(worker._stdin, selectors.EVENT_WRITE)
        selector.select(max(0.0, seconds) + 0.001)


def ask_own(cannot: str, seconds: float, commands: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return what a process of its own answers to the last of the commands, each with its
    arguments, which may take so many seconds each. Unsupported says why there is no answer: the
    text `cannot` goes before what it failed of otherwise."""
    worker, value = WorkerProcess(), None
    try:
        for command, arguments in commands.items():
            value = value_of(worker.call(command, dict(arguments), seconds), cannot)
    finally:
        worker.kill()
    return value


def value_of(reply: Reply, cannot: str) -> Any:
    """Return the value of a reply, or raise Unsupported as `ask_own` does."""
    if reply.outcome == "ok":
        return reply.value
    why = reply.message.removeprefix(f"{Unsupported.__name__}: ")
    raise Unsupported(why if reply.type == Unsupported.__name__ else f"{cannot}: {why}")
