# SPDX-License-Identifier: Apache-2.0
"""The clean process seen from the driver, and the workers that it forks: 0.1 s of CPU, not the 2 s
of an import of TVM. Its own code: clean.py. Test: exec/test_clean.py.

There is one at a time, started when the first worker is asked for or shortly before, in the
conditions that the driver's own children would have then. A worker is started as a process of its
own instead
- where a fork would not be what is asked for: in another environment than the driver's;
- where the driver would not be its parent as it should: for another thread than the main one, whose
  end is the worker's, and in a fork of the driver;
- on other systems than Linux on x86-64, and once clean processes have died twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

from .spent import phase

# Variables that nothing reads while TVM is imported: they may differ from worker to worker.
READ_LATE: tuple[str, ...] = ("TMPDIR",)
_MOST_DEATHS = 2
_LONGEST_ANSWER = 64
_ENDING_SECONDS = 2.0
# What a child has of its parent besides its variables, by lines of /proc/self/status and files.
_LINES = (
    *("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn"),
    *("NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed"),
)
_FILES = ("limits", "cgroup")


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The variables and the rest that a process has from the driver for good."""

    variables: Mapping[str, str]  # but those that are read late
    others: tuple[str, ...]  # such as its CPUs and limits

    @classmethod
    def of_driver(cls, variables: Mapping[str, str]) -> Conditions:
        """Return those of a child that the driver starts now with these variables."""
        here = Path("/proc/self")
        status = here.joinpath("status").read_text().splitlines()
        lines = (line for line in status if line.partition(":")[0] in _LINES)
        files = (here.joinpath(name).read_text() for name in _FILES)
        priority = str(os.getpriority(os.PRIO_PROCESS, 0))
        return cls(_without_late(variables), (sys.executable, priority, *lines, *files))


def _without_late(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in READ_LATE}


class CleanProcess:
    """A started clean process. It ends with the driver, however that ends, or with this object."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # as workers that are started
                    "-m",
                    f"{__package__}.clean",
                    *map(str, (theirs.fileno(), os.getpid())),
                ],
                # What it prints while it is started, a worker that is started prints as well.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=conditions.variables,
            )
        self.close = weakref.finalize(self, _end, self._process, self._socket, os.getpid())

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(
        self, variables: Mapping[str, str | None], descriptors: list[int], seconds: float
    ) -> int:
        """Return the id of a new worker, a child of this process. ConnectionError when the clean
        process has died, TimeoutError when it does not answer within so many seconds, of which the
        first answer needs those of an import of TVM; it is gone after any exception."""
        try:
            self._socket.settimeout(seconds)
            message = json.dumps(variables).encode()
            socket.send_fds(self._socket, [message], descriptors)
            answer = self._socket.recv(_LONGEST_ANSWER)
            if not answer:
                raise ConnectionResetError("the clean process has died")
            if answer == b"0":
                raise BlockingIOError("the clean process cannot fork")
            return int(answer)
        except BaseException:
            self.close()
            raise


def _end(process: subprocess.Popen, answers: socket.socket, owner: int) -> None:
    """Kill a clean process, and a worker of which nobody has heard."""
    if os.getpid() != owner:  # a fork of the driver must not end the driver's
        return
    process.kill()
    process.wait()
    answers.settimeout(_ENDING_SECONDS)
    with answers, contextlib.suppress(OSError):
        # A worker that was forked at the last moment answers before it lets go of the socket.
        while answer := answers.recv(_LONGEST_ANSWER):
            if pid := int(answer):
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


class ForkedWorker:
    """A worker of a clean process; as much of subprocess.Popen as a worker needs."""

    def __init__(
        self,
        clean: CleanProcess,
        variables: Mapping[str, str | None],
        *,
        replies: int,
        seconds: float,
    ) -> None:
        self.returncode: int | None = None
        with contextlib.ExitStack() as theirs:
            requests, to_worker = os.pipe()
            theirs.callback(os.close, requests)
            self.stdin = os.fdopen(to_worker, "wb", 0)
            from_worker, output = os.pipe()
            theirs.callback(os.close, output)
            self.stdout = os.fdopen(from_worker, "rb", 0)
            folder = os.open(".", os.O_PATH)
            theirs.callback(os.close, folder)
            self.pid = clean.fork(variables, [requests, output, replies, folder], seconds)

    def wait(self) -> int:
        """Return its exit code when it has ended; 0 where somebody else has waited for it."""
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                self.returncode = 0
        return self.returncode


class WorkerForks:
    """The clean process of this driver."""

    def __init__(self) -> None:
        self.clean: CleanProcess | None = None
        self._driver = os.getpid()
        self._deaths = 0

    def fork(
        self, own: Mapping[str, str], over: Mapping[str, str], *, replies: int, seconds: float
    ) -> ForkedWorker | None:
        """Return a forked worker; None where one has to be started (see above).

        `own`: variables of the driver's children. `over`: those that this one has over them.
        """
        if not self._may_fork():
            return None
        variables = {**own, **over}
        try:
            conditions = Conditions.of_driver(own)
            if _without_late(variables) != conditions.variables:
                return None
            late = {name: variables.get(name) for name in READ_LATE}
            with phase("worker start"):
                return self._fork(conditions, late, replies=replies, seconds=seconds)
        except OSError:  # no descriptor, no process: whoever starts one instead says so
            return None

    def start_ahead(self, own: Mapping[str, str]) -> None:
        """Start the clean process, if there is none, and do not wait for it."""
        if self.clean is None and self._may_fork() and self._deaths < _MOST_DEATHS:
            with contextlib.suppress(OSError):  # as of `fork`
                self.clean = CleanProcess(Conditions.of_driver(own))

    def _may_fork(self) -> bool:
        return (
            (sys.platform, platform.machine()) == ("linux", "x86_64")
            and sys.implementation.name == "cpython"
            and os.getpid() == self._driver
            and threading.current_thread() is threading.main_thread()
        )

    def _fork(
        self,
        conditions: Conditions,
        late: Mapping[str, str | None],
        *,
        replies: int,
        seconds: float,
    ) -> ForkedWorker | None:
        while self._deaths < _MOST_DEATHS:
            if self.clean is None or self.clean.conditions != conditions:
                self.close()
                self.clean = CleanProcess(conditions)
            try:
                return ForkedWorker(self.clean, late, replies=replies, seconds=seconds)
            except (ConnectionError, TimeoutError):
                self._deaths += 1
            finally:
                if not self.clean.close.alive:
                    self.clean = None
        return None

    def close(self) -> None:
        """End the clean process; the next worker starts another one."""
        if self.clean is not None:
            self.clean.close()
            self.clean = None
