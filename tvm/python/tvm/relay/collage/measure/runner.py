# SPDX-License-Identifier: Apache-2.0
"""The place where candidates are measured: here, or on devices elsewhere.
Test: measure/test_measured.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..candidate.candidate import CandidateModule
from ..exec.pool import Job, OnReply, WorkerPool, drive
from ..exec.spent import phase
from ..machine.cpu_lock import OnWait, cpus_for_building, cpus_for_measuring
from ..machine.environment import MachineTraits
from ..machine.load import LoadMeter
from .race.comparison import Comparison, RightOutputs, compared
from .race.race import Contestant, RaceOptions


class Runner(Protocol):
    """Runs measuring jobs, and says when builds may run beside them."""

    is_here: bool
    """Does it use this machine, so that nothing else should?"""

    def load(self) -> float:
        """Return the share of the CPUs that others took since it was last asked, where that
        disturbs."""

    def is_quiet(self) -> bool:
        """Return whether nobody disturbs what would be measured now."""

    def machine(self) -> MachineTraits | None:
        """Return what a placement says about where it was measured; None for this machine."""

    def check(self, candidates: Iterable[CandidateModule]) -> None:
        """Raise a CollageError for candidates that cannot run where they would be measured."""

    def submit(self, job: Job, on_reply: OnReply) -> None:
        """Queue a measuring job; on_reply(reply) may submit more."""

    def drive(self, builds: WorkerPool) -> None:
        """Run the builds, and the measuring jobs that their replies submit, to the end."""

    def compare(
        self, contestants: Sequence[Contestant], right: RightOutputs, options: RaceOptions
    ) -> list[Comparison]:
        """Compare as race.comparison.compared does, where candidates are measured."""

    def require(self, modules: Sequence[str]) -> None:
        """Have what measures import these modules too, beside those that builds import."""

    def close(self) -> None:
        """Let go of what measuring holds; it is taken again when next needed."""


class LocalRunner:
    """Measures here, one candidate at a time, when all builds have ended, and nobody else's search
    builds or measures on these CPUs. `on_wait` is told of waiting for that."""

    is_here = True

    def __init__(self, on_wait: OnWait | None = None) -> None:
        self._queue: list[tuple[Job, OnReply]] = []
        self._on_wait = on_wait
        self._builds: WorkerPool | None = None
        self._meter = LoadMeter(lambda: self._builds.pids if self._builds else ())

    def load(self) -> float:
        return self._meter.load()

    def is_quiet(self) -> bool:
        return self._meter.look() == 0

    def machine(self) -> MachineTraits | None:
        return None

    def check(self, candidates: Iterable[CandidateModule]) -> None:
        """Do nothing: a backend says by itself whether it runs here."""

    def submit(self, job: Job, on_reply: OnReply) -> None:
        self._queue.append((job, on_reply))

    def drive(self, builds: WorkerPool) -> None:
        self._builds = builds
        try:
            with phase("build"), cpus_for_building(self._on_wait):
                drive(builds)
            while self._queue:
                queue, self._queue = self._queue, []
                with phase("measure"), cpus_for_measuring(self._on_wait):
                    self._meter.look()
                    for job, on_reply in queue:
                        builds.submit(job, on_reply)
                    drive(builds, concurrency=1)
        finally:
            self._queue.clear()

    def compare(
        self, contestants: Sequence[Contestant], right: RightOutputs, options: RaceOptions
    ) -> list[Comparison]:
        return compared(contestants, right, options)

    def require(self, modules: Sequence[str]) -> None:
        """Do nothing: the estimator's own workers import them."""

    def close(self) -> None:
        """Do nothing: the estimator's own workers measure."""
