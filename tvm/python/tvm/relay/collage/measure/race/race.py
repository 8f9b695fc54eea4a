# SPDX-License-Identifier: Apache-2.0
"""Contestants end to end: each in its own process, woken one at a time, in rounds of random order.

Two runtimes in one process share caches, pools and spinning threads; contestants measured one
after the other see different machines. Interleaved rounds give paired samples, which
comparison.py compares. Test: measure/race/test_race.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import statistics as _stdlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...costs.cost import Cost, CostStatus
from ...costs.failure import failed_cost
from ...exec.launch import WorkerStartError, make_scratch
from ...exec.machine_fault import RESOURCES
from ...exec.pool import SpareWorkers
from ...exec.process import WorkerOptions, WorkerProcess
from ...exec.reply import Reply
from ...exec.resolve import path_of
from ...machine.cpu_lock import OnWait, cpus_for_measuring
from ...machine.load import LoadMeter
from .library_contestant import library_contestant
from .rounds import RoundOptions, run_rounds

_logger = logging.getLogger(__name__)

# Timed runs of one wake.
RUNS_PER_WAKE = 3
# Runs for this long, at least one, go before them and are discarded: the caches hold another
# contestant's data, and a scheduler may keep the threads of a process that has slept on one CPU
# until they have been busy for some 50 ms (docs/measuring.md).
WARM_SECONDS = 0.06
# So many open their libraries at the same time, which takes seconds where weights are laid out.
_OPENED_AT_ONCE = 2
# A request may take this many times what its runs took at the opening, over the limit given.
_SLOWER_THAN_FIRST = 5.0


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A name, and what its own process calls to get an object with run() and outputs(): see
    contestant.Runnable."""

    name: str
    factory: str  # "module:function"
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # its JSON keywords
    # Variables of its process over the driver's, set before anything is imported.
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_library(
        cls,
        name: str,
        library: str,
        inputs: str,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Contestant:
        """Return the contestant that is a library file on the inputs in an .npz file (arrays by
        name); `options` are those of library_contestant."""
        arguments = {"library": library, "inputs": inputs, **options}
        return cls(name, path_of(library_contestant), arguments, environment or {})


@dataclasses.dataclass
class Samples:
    """The record of one contestant. Whoever fails or leaves is gone for good, so the seconds are
    those of the first rounds."""

    name: str
    seconds: list[float] = dataclasses.field(default_factory=list)  # of each round
    outputs: list[np.ndarray] = dataclasses.field(default_factory=list, repr=False)  # of one run
    failure: Cost | None = None
    left: str = ""  # why it left without having failed
    memory_bytes: int = 0  # the most that its opening and first runs took, 0: not known
    load: float = 0.0  # what others took of the CPUs in the rounds, as costs have it

    def cost(self) -> Cost:
        """Return the median with its interval over the rounds, or the failure."""
        if self.failure is not None:
            return self.failure
        cost = Cost.measured(self.seconds, by_quartile=False).with_remark(self.left)
        return dataclasses.replace(cost, load=self.load)


# From what all did before any was timed: the failures of those that are not to be timed, by name.
Judge = Callable[[Mapping[str, Samples]], Mapping[str, Cost]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaceOptions(RoundOptions):
    """Options of opening and waking contestants, and of their rounds."""

    open_timeout: float = 300.0  # seconds
    # Seconds that a request may take besides five times what its runs took at the opening by the
    # wall clock.
    run_timeout: float = 60.0
    sample_seconds: float = 2e-3  # what is timed at once spans so long
    warm_seconds: float = WARM_SECONDS  # a contestant runs so long, once at least, before it is
    runs: int = RUNS_PER_WAKE  # timed so many times, of which the median counts
    # Of a contestant that takes long fewer are timed, so that they take no longer than this.
    timed_seconds: float | None = None
    imports: Sequence[str] = ()  # modules of every process, for the backends that they register
    # Where processes come from and go back to; without it they are started here and killed.
    spares: SpareWorkers | None = None
    on_wait: OnWait | None = None  # told of waiting for others that measure on these CPUs


def race(
    contestants: Sequence[Contestant],
    options: RaceOptions | None = None,
    judge: Judge | None = None,
) -> dict[str, Samples]:
    """Return what each contestant did, by name: one sample a round, in rounds of random order.

    A contestant that fails, hangs or dies stops there with its failure; the others go on. Whom
    `judge` fails, when all have given their outputs, is not timed. While one runs the others sleep
    in a read.
    ValueError for two contestants of one name, MachineError where no process or temporary folder
    can be made.
    """
    options = options or RaceOptions()
    if len({c.name for c in contestants}) != len(contestants) or options.rounds < 1:
        raise ValueError("contestants need names of their own, and at least 1 round")
    course = _Course(contestants, options)
    with contextlib.ExitStack() as held:
        held.callback(course.kill)
        held.enter_context(cpus_for_measuring(options.on_wait))
        course.open(contestants)
        for name, failure in (judge(course.results) if judge is not None else {}).items():
            course.fail(name, failure)
        course.run()
    return course.results


class _Course:
    """The processes of the contestants that still take part, and what each did."""

    def __init__(self, contestants: Sequence[Contestant], options: RaceOptions) -> None:
        self.results = {c.name: Samples(c.name) for c in contestants}
        self._options = options
        self._started_with = {
            c.name: WorkerOptions(options.imports, c.environment) for c in contestants
        }
        self._workers: dict[str, WorkerProcess] = {}
        self._numbers: dict[str, int] = {}  # runs that are timed at once
        self._runs: dict[str, int] = {}  # so many times a wake
        self._run_seconds: dict[str, float] = {}  # at the opening, by the wall clock

    def open(self, contestants: Sequence[Contestant]) -> None:
        """Have every contestant load, run and give its outputs."""
        options, spares = self._options, self._options.spares
        start = WorkerProcess if spares is None else spares.take
        for name, started_with in self._started_with.items():
            self._workers[name] = start(started_with)
        for name in list(self._workers):  # all start at the same time
            self._ask(name, "ping", {}, seconds=options.run_timeout)
        with make_scratch() as folder:
            files = {c.name: os.path.join(folder, f"{i}.npz") for i, c in enumerate(contestants)}
            running = [each for each in contestants if each.name in self._workers]
            for first in range(0, len(running), _OPENED_AT_ONCE):
                several = running[first : first + _OPENED_AT_ONCE]
                for each in several:
                    request = {"factory": each.factory, "arguments": dict(each.arguments)}
                    self._send(each.name, "open", request, seconds=self._options.open_timeout)
                for each in several:
                    self._answer(each.name, "open")
                for each in several:
                    if each.name in self._workers:
                        self._try(each.name, files[each.name])

    def _try(self, name: str, file: str) -> None:
        """Run one that is open, by itself, and have it give its outputs."""
        tried = self._ask(name, "probe", {}, seconds=self._options.open_timeout)
        if tried is None:
            return
        self._run_seconds[name] = tried["wall_seconds"]
        self.results[name].memory_bytes = tried["memory_bytes"]
        seconds = max(tried["seconds"], 1e-7)
        number = self._numbers[name] = max(1, math.ceil(self._options.sample_seconds / seconds))
        timed = (self._options.timed_seconds or math.inf) / (number * seconds)
        self._runs[name] = max(1, int(min(timed, self._options.runs)))
        self._ask(name, "outputs", {"file": file}, seconds=self._limit(name, 1))
        if name in self._workers:
            with np.load(file, allow_pickle=False) as outputs:
                self.results[name].outputs = [outputs[key] for key in outputs.files]

    def fail(self, name: str, failure: Cost) -> None:
        """Take out a contestant whose outputs are wrong."""
        if name in self._workers:
            self.results[name].failure = failure
            self._dismiss(name)

    def run(self) -> None:
        """Time all that are left, in rounds."""
        pids = [worker.pid for worker in self._workers.values()]  # of those that leave, too
        meter = LoadMeter(lambda: pids)
        meter.begin()
        run_rounds(list(self._workers), self._sample, self._leave, options=self._options)
        load = meter.load()
        for result in self.results.values():
            result.load = load
        for name in list(self._workers):
            self._dismiss(name)

    def kill(self) -> None:
        """End the processes that are left."""
        for worker in self._workers.values():
            worker.kill()

    def _sample(self, name: str) -> float | None:
        """Return the median of one wake, or None when it failed."""
        runs, number = self._runs[name], self._numbers[name]
        warm_seconds = self._options.warm_seconds
        wake = {"runs": runs, "number": number, "warm_seconds": warm_seconds}
        allowed = warm_seconds + self._limit(name, (runs + 1) * number)
        seconds = self._ask(name, "time", wake, seconds=allowed)
        if seconds is None:
            return None
        self.results[name].seconds.append(_stdlib.median(seconds))
        return self.results[name].seconds[-1]

    def _leave(self, name: str, reason: str) -> None:
        self.results[name].left = reason
        self._dismiss(name)

    def _limit(self, name: str, count: int) -> float:
        """Return the seconds that so many runs may take."""
        return self._options.run_timeout + _SLOWER_THAN_FIRST * count * self._run_seconds[name]

    def _ask(self, name: str, command: str, arguments: dict[str, Any], seconds: float) -> Any:
        """Return the value of a request, or None after noting the failure."""
        self._send(name, command, arguments, seconds)
        return self._answer(name, command)

    def _send(self, name: str, command: str, arguments: dict[str, Any], seconds: float) -> None:
        self._workers[name].send(command, arguments, seconds)

    def _answer(self, name: str, command: str) -> Any:
        """Return the value of the request that was sent, or None after noting the failure."""
        try:
            reply = self._workers[name].answer()
        except WorkerStartError as error:
            reply = Reply("died", message=str(error), fault=RESOURCES)
        if reply.outcome == "ok":
            return reply.value
        failure = failed_cost(reply, command, CostStatus.RUN_FAILED)
        self.results[name].failure = failure
        _logger.warning("%s fails and is left out: %s", name, failure.Summary())
        self._workers.pop(name).kill()
        return None

    def _dismiss(self, name: str) -> None:
        worker, spares = self._workers.pop(name), self._options.spares
        if spares is None:
            worker.kill()
        else:
            spares.give(self._started_with[name], worker)
