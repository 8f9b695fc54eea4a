# SPDX-License-Identifier: Apache-2.0
"""Resources of the steps of a search: seconds, which several tasks share, and workers, whose
kernels run here or on a device. Tests: tuning/test_resources.py, rpc/test_devices.py."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of
from ..machine.cpu_lock import OnWait, cpus_for_building, cpus_for_measuring
from .trial import with_device

# One task may take so many times its equal share of the time left, and always so many seconds.
_SHARES, _LEAST_SECONDS = 2.0, 30.0


class Budget:
    """Seconds that tasks share: one that hangs must not use up what others are due, and waiting for
    the CPUs, which another search may have, is nobody's time."""

    def __init__(self, seconds: float, is_timed_here: bool = True) -> None:
        """is_timed_here: tasks time kernels on these CPUs, beside which nothing else may run."""
        self.left = seconds  # may be below 0 where the last task took longer than it was given
        self._is_timed_here = is_timed_here

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def limit(self, tasks_left: int) -> float:
        """Return the seconds for the next of so many tasks."""
        fair = _SHARES * self.left / tasks_left
        return max(0.0, min(self.left, max(fair, _LEAST_SECONDS)))

    @contextlib.contextmanager
    def spending(self, on_wait: OnWait | None = None) -> Iterator[None]:
        """Have the CPUs for the block, whose seconds are taken off; on_wait is told of waits."""
        cpus = cpus_for_measuring if self._is_timed_here else cpus_for_building
        with cpus(on_wait):
            start = time.monotonic()
            try:
                yield
            finally:
                self.left -= time.monotonic() - start


class Workers(Protocol):
    """Whatever runs the steps of a search: a WorkerPool, or DeviceTrials."""

    def run(self, jobs: Sequence[Job], concurrency: int | None = None) -> list[Reply]:
        """Return the replies to jobs, in their order."""
        ...


@dataclasses.dataclass(frozen=True)
class DeviceTrials:
    """The devices of a key in place of a pool of workers, for the steps of a search."""

    # Gives the reply to a call in the worker here that has a device; its function gets as `run`
    # what has the device reply to a job.
    call: Callable[[Job], Reply]
    cpu: str  # as in a store's key
    threads: str  # likewise
    num_threads: int  # TVM's there
    compiler: str = ""  # links for the devices; "" for the usual one

    def run(self, jobs: Sequence[Job], concurrency: int | None = None) -> list[Reply]:
        """Do what WorkerPool.run does, one job at a time. A reply "lost" means that the device was
        lost, which says nothing of the job. DeviceError when there is no device."""
        del concurrency
        return [self.call(self._on_device(job)) for job in jobs]

    def _on_device(self, job: Job) -> Job:
        call = call_of(
            with_device,
            call=job.arguments,
            compiler=self.compiler,
            num_threads=self.num_threads,
        )
        return dataclasses.replace(job, arguments=call)
