# SPDX-License-Identifier: Apache-2.0
"""Persistent workers that outlive the jobs that hang or crash. Test: test_measure_pool.py."""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

from .process import Reply, WorkerOptions, WorkerProcess, wait

_logger = logging.getLogger(__name__)

# A job whose worker dies gets one more, fresh worker: the first death may have been another's doing
# (out of memory, a library left in a bad state by the job before).
ATTEMPTS = 2


@dataclasses.dataclass(frozen=True)
class Job:
    """One request for any worker, with the seconds that it may take."""

    command: str
    arguments: dict[str, Any]
    seconds: float


class WorkerPool:
    """Up to `size` workers, started when first needed and again when they are gone."""

    def __init__(self, size: int = 2, options: WorkerOptions | None = None) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least 1 worker, not {size}")
        self.size = size
        self.restarts = 0
        self._options = options or WorkerOptions()
        self._idle: list[WorkerProcess] = []

    def run(
        self,
        jobs: Sequence[Job],
        concurrency: int | None = None,
        on_reply: Callable[[int, Reply], None] | None = None,
    ) -> list[Reply]:
        """Run the jobs, at most `concurrency` at a time; replies in the order of the jobs.

        on_reply(index, reply) is called as each ends. A reply "died" means that the job killed its
        worker twice, "timeout" that it hung once. An exception (Ctrl-C, WorkerStartError, one of
        on_reply) kills the busy workers and goes on.
        """
        limit = min(self.size, concurrency or self.size)
        replies: list[Reply | None] = [None] * len(jobs)
        attempts = [0] * len(jobs)
        waiting = collections.deque(range(len(jobs)))
        busy: dict[WorkerProcess, int] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < limit:
                    worker = self._take()
                    index = waiting.popleft()
                    busy[worker] = index
                    worker.send(jobs[index].command, jobs[index].arguments, jobs[index].seconds)
                wait(busy)
                for worker, index in list(busy.items()):
                    reply = worker.poll()
                    if reply is None:
                        continue
                    del busy[worker]
                    self._release(worker)
                    attempts[index] += 1
                    if reply.outcome == "died" and attempts[index] < ATTEMPTS:
                        _logger.info("a worker died (%s); trying once more", reply.message)
                        waiting.appendleft(index)
                        continue
                    replies[index] = reply
                    if on_reply is not None:
                        on_reply(index, reply)
        except BaseException:
            for worker in busy:
                worker.kill()
            raise
        return [reply for reply in replies if reply is not None]

    def close(self) -> None:
        """Kill all workers; the pool may be used again and then starts new ones."""
        while self._idle:
            self._idle.pop().kill()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            worker.kill()
            self.restarts += 1
        return WorkerProcess(self._options)

    def _release(self, worker: WorkerProcess) -> None:
        if worker.is_alive:
            self._idle.append(worker)
        else:
            worker.kill()
            self.restarts += 1
