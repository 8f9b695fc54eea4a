# SPDX-License-Identifier: Apache-2.0
"""Persistent workers that outlive the jobs that hang or crash.
Test: exec/test_pool.py, exec/test_spares.py.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from .process import WorkerOptions, WorkerProcess, wait
from .reply import Reply

_logger = logging.getLogger(__name__)

# A job whose worker dies, or that fails by a fault of the machine, gets one more try: the first
# death may have been another's doing (out of memory, a library left in a bad state by the job
# before), and a fault may have passed.
ATTEMPTS = 2
# For a worker to free what it has opened.
_CLOSE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Job:
    """One request for any worker, with the seconds that it may take."""

    command: str
    arguments: dict[str, Any]
    seconds: float
    # paths in the arguments that a worker on another machine needs copies of
    files: tuple[str, ...] = ()


OnReply = Callable[[Reply], None]


@dataclasses.dataclass
class Task:
    """A submitted job; attempts: how often it ran."""

    job: Job
    on_reply: OnReply
    attempts: int = 0


class WorkerPool:
    """Up to `size` workers, started when first needed and again when they are gone."""

    def __init__(
        self,
        size: int = 2,
        options: WorkerOptions | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """check: called again and again while there is work; what it raises ends all of it."""
        if size < 1:
            raise ValueError(f"a pool needs at least 1 worker, not {size}")
        self.size, self.check = size, check
        self._options = options or WorkerOptions()
        self._idle: list[WorkerProcess] = []
        self._waiting: collections.deque[Task] = collections.deque()
        self._busy: dict[WorkerProcess, Task] = {}

    def submit(self, job: Job, on_reply: OnReply) -> None:
        """Queue a job for drive(); on_reply(reply) is called when it ends and may submit more.

        A reply "died" means that the job killed its worker twice, "timeout" that it hung once.
        """
        self._waiting.append(Task(job, on_reply))

    def run(
        self,
        jobs: Sequence[Job],
        concurrency: int | None = None,
        on_reply: Callable[[int, Reply], None] | None = None,
    ) -> list[Reply]:
        """Run the jobs, at most `concurrency` at a time; replies in the order of the jobs.

        on_reply(index, reply) is called as each ends.
        """
        replies: dict[int, Reply] = {}

        def end(index: int, reply: Reply) -> None:
            replies[index] = reply
            if on_reply is not None:
                on_reply(index, reply)

        for index, job in enumerate(jobs):
            self.submit(job, functools.partial(end, index))
        drive(self, concurrency=concurrency)
        return [replies[index] for index in range(len(jobs))]

    def close(self) -> None:
        """Kill all workers; the pool may be used again and then starts new ones."""
        while self._idle:
            self._idle.pop().kill()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._busy)

    @property
    def pids(self) -> list[int]:
        """Return the ids of the workers' processes."""
        return [worker.pid for worker in (*self._idle, *self._busy)]

    def _start(self, concurrency: int | None) -> None:
        """Give waiting jobs to workers."""
        limit = min(self.size, concurrency or self.size)
        while self._waiting and len(self._busy) < limit:
            worker = self._take()
            task = self._waiting.popleft()
            self._busy[worker] = task
            self._send(worker, task.job)

    def _send(self, worker: WorkerProcess, job: Job) -> None:
        worker.send(job.command, job.arguments, job.seconds)

    def _collect(self) -> None:
        """End the jobs that have a reply."""
        for worker, task in list(self._busy.items()):
            reply = worker.poll()
            if reply is not None:
                del self._busy[worker]
                task.attempts += 1
                self._end(worker, task, reply)

    def _end(self, worker: WorkerProcess, task: Task, reply: Reply) -> None:
        """Hand the reply over, or try once more."""
        self._release(worker)
        if (reply.outcome == "died" or reply.fault) and task.attempts < ATTEMPTS:
            _logger.info("a worker %s (%s); trying once more", reply.outcome, reply.message)
            self._waiting.appendleft(task)
        else:
            task.on_reply(reply)

    def _abort(self) -> None:
        """Kill the busy workers and forget the jobs."""
        for worker in self._busy:
            worker.kill()
        self._busy.clear()
        self._waiting.clear()

    def _take(self) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            worker.kill()
        return WorkerProcess(self._options)

    def _release(self, worker: WorkerProcess) -> None:
        if worker.is_alive:
            self._idle.append(worker)
        else:
            worker.kill()


def drive(*pools: WorkerPool, concurrency: int | None = None) -> None:
    """Run all that is submitted to the pools, and what their replies submit, to the end.

    At most `concurrency` jobs of each pool run at a time. An exception (Ctrl-C, WorkerStartError,
    one of on_reply) kills the busy workers, forgets the other jobs and goes on.
    """
    while any(pool.has_work for pool in pools):
        step(*pools, concurrency=concurrency)


def step(*pools: WorkerPool, concurrency: int | None = None) -> None:
    """Drive for a moment: start what may start, take the replies there are."""
    try:
        for pool in pools:
            pool.check()
            pool._start(concurrency)
        wait([worker for pool in pools for worker in pool._busy])
        for pool in pools:
            pool._collect()
    except BaseException:
        for pool in pools:
            pool._abort()
        raise


class SpareWorkers:
    """Workers kept for the next comparison, as their start takes seconds where they are not
    forked: with nothing open, by the options that they were started with."""

    def __init__(self) -> None:
        self.idle: list[tuple[WorkerOptions, WorkerProcess]] = []

    def take(self, options: WorkerOptions) -> WorkerProcess:
        """Take a worker with these options, started if there is none."""
        for entry in self.idle:
            if entry[0] == options and entry[1].is_alive:
                self.idle.remove(entry)
                return entry[1]
        return WorkerProcess(options)

    def give(self, options: WorkerOptions, worker: WorkerProcess) -> None:
        """Keep a worker that has answered what it was asked; one that cannot close what it has
        opened is killed."""
        if worker.call("close", {}, _CLOSE_SECONDS).outcome == "ok":
            self.idle.append((options, worker))
        else:
            worker.kill()

    def close(self) -> None:
        """Kill them all."""
        while self.idle:
            self.idle.pop()[1].kill()

    def __enter__(self) -> SpareWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkersAhead(SpareWorkers):
    """Workers that start while something else goes on, for one comparison: each serves one
    contestant, since what a process draws at its start, and the memory that it holds, are to be the
    contestant's own."""

    def start(self, options: WorkerOptions, count: int) -> None:
        """Start so many, and have them import what they are to, without waiting for them."""
        for _ in range(count):
            worker = WorkerProcess(options)
            worker.poll()  # sends what it is to import
            self.idle.append((options, worker))

    def give(self, options: WorkerOptions, worker: WorkerProcess) -> None:
        """End a worker that has served."""
        worker.kill()
