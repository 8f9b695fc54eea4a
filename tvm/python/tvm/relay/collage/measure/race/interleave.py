# SPDX-License-Identifier: Apache-2.0
"""Contestants end to end: each in its own process, woken one at a time, in an order drawn anew each
round. Test: measure/race/test_interleave.py.

Two runtimes in one process share caches, pools and spinning threads; contestants measured one
after the other see different machines. Interleaved rounds give paired samples, which
comparison.compare compares.
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
from ...exec.contestant import library_contestant
from ...exec.launch import WorkerStartError, make_scratch
from ...exec.machine_fault import RESOURCES
from ...exec.process import WorkerOptions, WorkerProcess
from ...exec.reply import Reply
from ...exec.resolve import path_of
from ...exec.spares import SpareWorkers
from ...machine.cpu_lock import OnWait, cpus_for_measuring
from ...machine.load import LoadMeter
from .rounds import Further, Race, run_rounds

_logger = logging.getLogger(__name__)

# Timed runs of one wake.
RUNS_PER_WAKE = 3
# Runs for this long, at least one, go before them and are discarded: the caches hold another
# contestant's data, and a scheduler may keep the threads of a process that has slept on one CPU
# until they have been busy for some 50 ms (docs/measuring.md).
WARM_SECONDS = 0.06
# A request may take this many times what its runs took at the opening, over the limit given.
_SLOWER_THAN_FIRST = 5.0


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A name and a factory ("module:function" with JSON keyword arguments) that its own process
    calls to get an object with run() and outputs(); see contestant.Runnable.

    environment: variables of its process over the driver's, set before anything is imported.
    """

    name: str
    factory: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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
        """A library file on the inputs in an .npz file (arrays by name); `options` are those of
        library_contestant."""
        arguments = {"library": library, "inputs": inputs, **options}
        return cls(name, path_of(library_contestant), arguments, environment or {})


@dataclasses.dataclass
class Samples:
    """What one contestant did: seconds of each round, outputs of one run, or how it failed.

    Whoever fails or leaves is gone for good, so the seconds are those of the first rounds. `left`
    is why it did without having failed. memory_bytes: the most that its opening and first runs
    took, 0 where that is not known. load: what others took of the CPUs in the rounds, as costs have
    it.
    """

    name: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    outputs: list[np.ndarray] = dataclasses.field(default_factory=list, repr=False)
    failure: Cost | None = None
    left: str = ""
    memory_bytes: int = 0
    load: float = 0.0

    def cost(self) -> Cost:
        """Median with its interval over the rounds, or the failure."""
        if self.failure is not None:
            return self.failure
        cost = Cost.measured(self.seconds, by_quartile=False)
        text = "; ".join(text for text in (cost.message, self.left) if text)
        return dataclasses.replace(cost, message=text, load=self.load)


def measure_interleaved(
    contestants: Sequence[Contestant],
    rounds: int = 30,
    *,
    seed: int = 0,
    open_timeout: float = 300.0,
    run_timeout: float = 60.0,
    sample_seconds: float = 2e-3,
    warm_seconds: float = WARM_SECONDS,
    runs: int = RUNS_PER_WAKE,
    give_up_ratio: float | None = None,
    race: Race | None = None,
    stays: Sequence[str] = (),
    further: Further | None = None,
    seconds: float = math.inf,
    spares: SpareWorkers | None = None,
    judge: Callable[[Mapping[str, Samples]], Mapping[str, Cost]] | None = None,
    imports: Sequence[str] = (),
    on_round: Callable[[int, int], None] | None = None,
    on_wait: OnWait | None = None,
) -> dict[str, Samples]:
    """One sample a round of each contestant, in rounds of random order; by name.

    A contestant that fails, hangs or dies stops there with its failure; the others go on. Whom
    `judge` fails, when all have given their outputs, is not timed. rounds.run_rounds says what
    give_up_ratio, race, stays, further, seconds and on_round mean. While one runs the others sleep
    in a read. run_timeout: seconds that a request may take besides five times what its runs took at
    the opening by the wall clock. warm_seconds: a contestant runs so long, once at least, before
    it is timed, then `runs` times, of which the median counts.
    imports: modules that every process imports, for the backends that they register. spares: where
    processes come from and go back to, which are started here and killed otherwise. on_wait is told
    of waiting for others that measure on these CPUs.
    ValueError for two contestants of one name, MachineError where no process or temporary folder
    can be made.
    """
    results = {c.name: Samples(c.name) for c in contestants}
    if len(results) != len(contestants) or rounds < 1:
        raise ValueError("contestants need names of their own, and at least 1 round")
    started_with = {c.name: WorkerOptions(imports, c.environment) for c in contestants}
    workers: dict[str, WorkerProcess] = {}
    numbers: dict[str, int] = {}
    run_seconds: dict[str, float] = {}

    def limit(name: str, count: int) -> float:
        return run_timeout + _SLOWER_THAN_FIRST * count * run_seconds[name]

    def ask(name: str, command: str, arguments: dict[str, Any], seconds: float) -> Any:
        """The value of a request, or None after noting the failure."""
        try:
            reply = workers[name].call(command, arguments, seconds)
        except WorkerStartError as error:
            reply = Reply("died", message=str(error), fault=RESOURCES)
        if reply.outcome == "ok":
            return reply.value
        failure = failed_cost(reply, command, CostStatus.RUN_FAILED)
        results[name].failure = failure
        _logger.warning("%s fails and is left out: %s", name, failure.Summary())
        workers.pop(name).kill()
        return None

    def sample(name: str) -> float | None:
        """The median of one wake, or None when it failed."""
        wake = {"runs": runs, "number": numbers[name], "warm_seconds": warm_seconds}
        allowed = warm_seconds + limit(name, (runs + 1) * numbers[name])
        seconds = ask(name, "time", wake, allowed)
        if seconds is None:
            return None
        results[name].seconds.append(_stdlib.median(seconds))
        return results[name].seconds[-1]

    def dismiss(name: str) -> None:
        if spares is None:
            workers.pop(name).kill()
        else:
            spares.give(started_with[name], workers.pop(name))

    def leave(name: str, reason: str) -> None:
        results[name].left = reason
        dismiss(name)

    held = contextlib.ExitStack()
    try:
        held.enter_context(cpus_for_measuring(on_wait))
        with make_scratch() as folder:
            for name, options in started_with.items():
                start = WorkerProcess if spares is None else spares.take
                workers[name] = start(options)
            for name in list(workers):  # all start at the same time
                ask(name, "ping", {}, run_timeout)
            for i, contestant in enumerate(contestants):
                name = contestant.name
                if name not in workers:
                    continue
                request = {"factory": contestant.factory, "arguments": dict(contestant.arguments)}
                opened = ask(name, "open", request, open_timeout)
                if opened is None:
                    continue
                run_seconds[name] = opened["wall_seconds"]
                results[name].memory_bytes = opened["memory_bytes"]
                numbers[name] = max(1, math.ceil(sample_seconds / max(opened["seconds"], 1e-7)))
                file = os.path.join(folder, f"outputs_{i}.npz")
                ask(name, "outputs", {"file": file}, limit(name, 1))
                if name in workers:
                    with np.load(file, allow_pickle=False) as outputs:
                        results[name].outputs = [outputs[key] for key in outputs.files]
        for name, failure in (judge(results) if judge is not None else {}).items():
            if name in workers:
                results[name].failure = failure
                dismiss(name)
        pids = [worker.pid for worker in workers.values()]  # of those that leave, too
        meter = LoadMeter(lambda: pids)
        meter.begin()
        run_rounds(
            list(workers),
            sample,
            rounds,
            leave=leave,
            seed=seed,
            give_up_ratio=give_up_ratio,
            race=race,
            stays=stays,
            further=further,
            seconds=seconds,
            on_round=on_round,
        )
        load = meter.load()
        for result in results.values():
            result.load = load
        for name in list(workers):
            dismiss(name)
    finally:
        for worker in workers.values():
            worker.kill()
        held.close()
    return results
