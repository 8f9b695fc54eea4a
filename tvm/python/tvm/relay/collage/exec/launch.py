# SPDX-License-Identifier: Apache-2.0
"""A worker process is forked or started, and killed with all that it started.
Test: exec/test_pool.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from ..errors import MachineError
from .clean_process import ForkedWorker, WorkerForks
from .scratch import ScratchFolder

Started = subprocess.Popen | ForkedWorker

forks = WorkerForks()


class WorkerStartError(MachineError):
    """No worker process could be started: the environment, not a candidate, is broken."""


def make_scratch() -> ScratchFolder:
    """Make a temporary folder; MachineError where none can be made."""
    try:
        return ScratchFolder()
    except OSError as error:
        raise MachineError(str(error)) from None


def start_ahead() -> None:
    """Begin with what the first worker process waits for most, beside what this process does."""
    forks.start_ahead(_variables())


def _variables() -> dict[str, str]:
    """Return the variables that all workers have, but for those of one worker."""
    return {"GOMP_SPINCOUNT": "1000", **os.environ}


def start_worker(
    environment: Mapping[str, str], scratch: ScratchFolder, seconds: float
) -> tuple[Started, int]:
    """Start the process, with pipes as its stdin and stdout; return it and the descriptor of its
    replies. Fork it where that is the same, which may take so many seconds.

    `environment` is set over the driver's own. WorkerStartError closes `scratch`.
    """
    replies, worker_replies = os.pipe()
    own = {**_variables(), "TMPDIR": scratch.path}
    process: Started | None
    try:
        process = forks.fork(own, environment, replies=worker_replies, seconds=seconds)
        if process is None:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # a user's json.py in the current folder must not stand for Python's own
                    "-m",
                    f"{__package__}.worker",
                    *map(str, (worker_replies, os.getpid())),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(worker_replies,),
                start_new_session=True,
                env={**own, **environment},
            )
    except BaseException as error:  # a Ctrl-C, too, while TVM is imported
        os.close(replies)
        scratch.close()
        if isinstance(error, OSError):
            raise WorkerStartError(f"cannot start a worker process: {error}") from None
        raise
    finally:
        os.close(worker_replies)
    return process, replies


def kill_worker(process: Started, replies: int, scratch: ScratchFolder, owner: int) -> None:
    """Kill a worker's whole process group and free what it had."""
    if os.getpid() != owner:  # a fork of the driver must not end the driver's workers
        return
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    os.close(replies)
    scratch.close()
