# SPDX-License-Identifier: Apache-2.0
"""Where candidates are measured: here, or on devices elsewhere. Test: test_measure_estimator.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from .candidate import CandidateModule
from .comparison import Comparison, compare
from .interleave import Contestant
from .pool import Job, OnReply, WorkerPool, drive
from .spent import phase

if TYPE_CHECKING:
    from ..placement import Machine


class Runner(Protocol):
    """Runs measuring jobs, and says when builds may run beside them."""

    is_here: bool
    """Does it use this machine, so that nothing else should?"""

    def machine(self) -> Machine | None:
        """What a placement says about where it was measured; None for this machine."""

    def check(self, candidates: Iterable[CandidateModule]) -> None:
        """Raise a CollageError for candidates that cannot run where they would be measured."""

    def submit(self, job: Job, on_reply: OnReply) -> None:
        """Queue a measuring job; on_reply(reply) may submit more."""

    def drive(self, builds: WorkerPool) -> None:
        """Run the builds, and the measuring jobs that their replies submit, to the end."""

    def compare(self, contestants: Sequence[Contestant], *args, **options) -> list[Comparison]:
        """measure.compare, where candidates are measured."""

    def require(self, modules: Sequence[str]) -> None:
        """Have what measures import these modules too, beside those that builds import."""

    def close(self) -> None:
        """Let go of what measuring holds; it is taken again when next needed."""


class LocalRunner:
    """Measures here, one candidate at a time, when all builds have ended."""

    is_here = True

    def __init__(self) -> None:
        self._queue: list[tuple[Job, OnReply]] = []

    def machine(self) -> Machine | None:
        return None

    def check(self, candidates: Iterable[CandidateModule]) -> None:
        """A backend says by itself whether it runs here."""

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

    def compare(self, contestants: Sequence[Contestant], *args, **options) -> list[Comparison]:
        return compare(contestants, *args, **options)

    def require(self, modules: Sequence[str]) -> None:
        """The estimator's own workers do."""

    def close(self) -> None:
        """The estimator's own workers measure."""
