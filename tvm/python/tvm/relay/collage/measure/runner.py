# SPDX-License-Identifier: Apache-2.0
"""Where candidates are measured: here, or on devices elsewhere. Test: test_measure_estimator.py."""

from __future__ import annotations

from typing import Protocol

from .pool import Job, OnReply, WorkerPool, drive
from .spent import phase


class Runner(Protocol):
    """Runs measuring jobs, and says when builds may run beside them."""

    def submit(self, job: Job, on_reply: OnReply) -> None:
        """Queue a measuring job; on_reply(reply) may submit more."""

    def drive(self, builds: WorkerPool) -> None:
        """Run the builds, and the measuring jobs that their replies submit, to the end."""

    def close(self) -> None:
        """Let go of what measuring holds; it is taken again when next needed."""


class LocalRunner:
    """Measures here, one candidate at a time, when all builds have ended."""

    def __init__(self) -> None:
        self._queue: list[tuple[Job, OnReply]] = []

    def submit(self, job: Job, on_reply: OnReply) -> None:
        self._queue.append((job, on_reply))

    def drive(self, builds: WorkerPool) -> None:
        try:
            with phase("build"):
                drive(builds)
            while self._queue:
                queue, self._queue = self._queue, []
                for job, on_reply in queue:
                    builds.submit(job, on_reply)
                with phase("measure"):
                    drive(builds, concurrency=1)
        finally:
            self._queue.clear()

    def close(self) -> None:
        pass
