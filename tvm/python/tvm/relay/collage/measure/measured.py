# SPDX-License-Identifier: Apache-2.0
"""Costs of candidates by measuring them in worker processes. Test: measure/test_measured.py.

Costs are looked for in memory, then in the store if there is one, then measured. The memory cache:
key CandidateModule.key() (the estimator's options are fixed for its life, so they are no part of
it); failures are kept as well, but for faults of the machine, which are measured again when asked
for again; it lives as long as the estimator. `hits` counts candidates answered
by it or by an equal one of the same call, `stored` those answered by the store, `misses` those
measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..candidate.candidate import CandidateModule
from ..costs.cost import Cost, CostStatus
from ..costs.failure import FaultCount, failed_cost
from ..exec.launch import make_scratch
from ..exec.pool import Job, OnReply, WorkerPool
from ..exec.process import WorkerOptions
from ..exec.reply import Reply
from ..exec.time_limit import TimeIsUpError
from ..machine.compiler import require_compiler
from ..machine.load import warn_if_busy
from ..relay_util.external import TVM_BACKEND
from .options import MeasureOptions
from .progress import Progress
from .protocols import KeptCosts, Stored
from .runner import LocalRunner, Runner
from .steps import (
    better,
    build_job,
    cost_of,
    measure_job,
    reference_job,
    reference_of,
    with_doubt,
)

_logger = logging.getLogger(__name__)

# Of the weights in the libraries of a batch, which lie side by side in a temporary folder, often
# one in memory: each region of a large net has nearly all weights of the net.
_BATCH_BYTES = 1 << 30

_Item = tuple[str, CandidateModule]


class MeasuredCostEstimator:
    """Builds candidates in up to `workers` processes at once and measures them one by one.

    Batches alternate: while one worker measures, none builds (on devices both go on at once). A
    candidate that hangs, dies or raises costs itself a failure, never the others. Workers start
    when something is to be measured. Close it (or use `with`) to end them and close the store; they
    also end with the object and with the interpreter.
    """

    def __init__(
        self,
        options: MeasureOptions | None = None,
        *,
        progress: Progress | None = None,
        store: KeptCosts | None = None,
        runner: Runner | None = None,
        check: Callable[[], None] = lambda: None,
        **changes: Any,
    ) -> None:
        """`changes` are MeasureOptions by name: MeasuredCostEstimator(workers=2). `runner`: where
        candidates are measured, this machine by default; it is closed with the estimator. `check`:
        what it raises ends all that is being built and measured."""
        self.options = dataclasses.replace(options or MeasureOptions(), **changes)
        self.hits = self.stored = self.misses = 0
        self._store = store
        self._progress = progress or Progress()
        self._cache: dict[str, Cost] = {}
        self._to_verify: set[str] = set()
        self._faults = FaultCount()
        self._numbers = itertools.count()
        self._check = check
        self._pool = self._new_pool()
        self.runner: Runner = runner or LocalRunner(self._progress.on_wait)
        # What others took of the CPUs while costs were measured that are known by that.
        self._loads: list[float] = []

    def estimate(self, candidates: Sequence[CandidateModule]) -> list[Cost]:
        """Return costs in the order of the candidates. An interrupt keeps what is measured already.
        When the time of the search is over, what is not known by then is TVM's at a guess, and
        nobody else's: so a plan can be made of what is known.

        Raises WorkerStartError when no worker process comes up, MachineError when the machine keeps
        candidates from being built or run, and the runner's CollageErrors.
        """
        keys = [candidate.key() for candidate in candidates]
        for key in keys:
            if key in self._cache and self._cache[key].status == CostStatus.MACHINE_FAULT:
                del self._cache[key]
        new = {k: c for k, c in zip(keys, candidates, strict=True) if k not in self._cache}
        self._to_verify |= {key for key, candidate in new.items() if candidate.verify}
        hits = len(keys) - len(new)
        stored = self._take_from_store(new)
        todo = [item for item in new.items() if item[0] not in self._cache]
        self.runner.check(candidate for _, candidate in todo)
        self.hits += hits
        self.stored += stored
        self.misses += len(todo)
        if todo and not self.options.compiler:
            require_compiler()
        self._progress.begin(len(todo), hits, stored)
        try:
            with make_scratch() as folder:
                for batch in _batches(todo, self.options.batch):
                    self._measure_batch(batch, folder)
        except TimeIsUpError as error:
            self.misses -= sum(key not in self._cache for key, _ in todo)
            _logger.info("%s", error)
        finally:
            self._progress.end()
        return [self._cache.get(key) or self._given_up(new[key]) for key in keys]

    def _given_up(self, candidate: CandidateModule) -> Cost:
        """Return what stands for a cost that there was no time for. The guess is as much as
        anything that was measured takes: what was measured elsewhere is chosen before it."""
        why = "the time limit left no time to measure it"
        if candidate.backend != TVM_BACKEND:
            return Cost.failed(CostStatus.TIMEOUT, why)
        known = [cost.seconds for cost in self._cache.values() if cost.is_usable]
        return Cost.estimated(max((each for each in known if each), default=1e-3), why)

    def searching(self) -> contextlib.AbstractContextManager[None]:
        """Return a block that shows a search at work, also between its questions."""
        return self._progress.searching()

    def hidden(self) -> contextlib.AbstractContextManager[None]:
        """Return a block that does not show a search at work, as it shows something else."""
        return self._progress.hidden()

    def run_measuring(self, job: Job) -> tuple[Reply, Callable[[Cost], Cost]]:
        """Return the reply to a job that takes time and needs no build, and what notes in a cost of
        it what others took of the CPUs meanwhile."""
        answers: list[tuple[Reply, Callable[[Cost], Cost]]] = []

        def on_reply(reply: Reply) -> None:
            load = self.runner.load()
            answers.append((reply, functools.partial(_with_load, load=load)))

        self.runner.submit(job, on_reply)
        self.runner.drive(self._pool)
        return answers[0]

    def look_up(self, trials: Sequence[Stored]) -> list[Cost | None]:
        """Return what the store knows of trials, in their order; None where it knows nothing."""
        if self._store is None or not trials:
            return [None] * len(trials)
        return self._store.look_up(trials, functools.cache(self.runner.is_quiet))

    def known(self, candidates: Sequence[CandidateModule]) -> list[Cost | None]:
        """Return the costs that need no measuring, None for the others."""
        stored = self.look_up(candidates)
        pairs = zip(candidates, stored, strict=True)
        return [self._cache.get(candidate.key()) or cost for candidate, cost in pairs]

    def keep(self, trial: Stored, cost: Cost) -> None:
        """Have the store, if there is one, keep a trial's cost."""
        if self._store is not None:
            self._store.keep(trial, cost)

    def require(self, modules: Sequence[str]) -> None:
        """Have workers import these modules too; ones that lack any end. Costs are kept."""
        new = [name for name in modules if name not in self.options.imports]
        if new:
            self._pool.close()
            self.runner.require(new)
            imports = (*self.options.imports, *new)
            self.options = dataclasses.replace(self.options, imports=imports)
            self._pool = self._new_pool()

    def close(self) -> None:
        self._progress.close()
        self._pool.close()
        self.runner.close()
        warn_if_busy(self._loads, self.misses)
        self._loads = []
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> MeasuredCostEstimator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def counts(self) -> dict[str, Any]:
        """Count how many costs came from where, and how many of the distinct ones failed, are
        noisy, are from a busy machine, were verified (outputs compared with TVM's), or could not be
        although that was asked."""
        failed = Counter(cost.status for cost in self._cache.values() if cost.is_failure)
        to_verify = [self._cache[key] for key in self._to_verify & self._cache.keys()]
        doubtful = sum(cost.unverified for cost in to_verify)
        return {
            "measured": self.misses,
            "from_store": self.stored,
            "from_memory": self.hits,
            "failed": dict(sorted(failed.items())),
            "noisy": sum(cost.is_noisy for cost in self._cache.values()),
            "busy": sum(cost.is_busy for cost in self._cache.values()),
            "verified": sum(cost.is_usable for cost in to_verify) - doubtful,
            "not_verified": doubtful,
        }

    def Summary(self) -> str:
        failed = sum(cost.is_failure for cost in self._cache.values())
        counts = f"{self.misses} measured, {self.hits} from memory"
        if self._store is None:
            return f"{counts}, {failed} failed"
        return f"{counts}, {self.stored} stored, {failed} failed; store: {self._store.Summary()}"

    def _take_from_store(self, new: dict[str, CandidateModule]) -> int:
        """Put what the store knows into memory; how many costs that is."""
        found = zip(new, self.look_up(list(new.values())), strict=True)
        costs = {key: cost for key, cost in found if cost is not None}
        self._cache.update(costs)
        return len(costs)

    def _new_pool(self) -> WorkerPool:
        return WorkerPool(
            self.options.workers,
            WorkerOptions(
                imports=self.options.imports,
                memory_limit_bytes=self.options.memory_limit_bytes,
                startup_seconds=self.options.startup_timeout,
            ),
            self._check,
        )

    def _measure_batch(self, batch: Sequence[_Item], folder: str) -> None:
        for item in batch:
            # A name of its own: a worker that cannot unload a library (C++'s unique symbols, a
            # backend that keeps it) would be given that one again for the same name.
            file = os.path.join(folder, f"candidate_{next(self._numbers)}.so")
            self._pool.submit(build_job(self.options, item[1], file), self._on_built(item, file))
        self.runner.drive(self._pool)

    def _on_built(self, item: _Item, library: str) -> OnReply:
        """Return what follows a build's reply: a reference if the candidate is to be verified, then
        a measurement, or two if the first is noisy. Outputs that are not the reference's may be the
        better ones: they are compared once more, with what 64 bits give."""
        candidate = item[1]
        kept: Cost | None = None
        retries = self.options.noisy_retries
        doubt = ""
        is_exact = False

        def on_built(reply: Reply) -> None:
            self._progress.on_built()
            if reply.outcome != "ok":
                cost = _with_load(
                    failed_cost(reply, "build", CostStatus.COMPILE_FAILED), self.runner.load()
                )
                self._record(item, cost, reply)
            elif candidate.verify:
                build = reply.value
                job = reference_job(self.options, candidate, reference_of(library))
                self._pool.submit(job, lambda reply: on_reference(build, reply))
            else:
                measure(reply.value, None)

        def on_reference(build: Any, reply: Reply) -> None:
            nonlocal doubt
            if reply.outcome == "ok":
                measure(build, reply.value["tolerance"])
            elif reply.fault:
                self._record(item, failed_cost(reply, "reference", CostStatus.MACHINE_FAULT), reply)
            else:
                doubt = reply.message
                measure(build, None)

        def measure(build: Any, tolerance: Any) -> None:
            job = measure_job(self.options, candidate, library, build=build, tolerance=tolerance)
            self.runner.submit(job, lambda reply: on_measured(job, reply))

        def on_measured(job: Job, reply: Reply) -> None:
            nonlocal kept, retries, is_exact
            # Neither is the candidate's doing.
            is_lost = reply.outcome == "lost" or bool(reply.fault)
            if kept is None or not is_lost:
                cost = with_doubt(cost_of(reply), doubt)
                kept = better(kept, _with_load(cost, self.runner.load()))
            if kept.status == CostStatus.WRONG_RESULT and not is_exact:
                is_exact = True
                exact = reference_job(self.options, candidate, reference_of(library), exact=True)
                self._pool.submit(exact, functools.partial(on_exact, job, reply))
                return
            if kept.is_noisy and retries > 0 and not is_lost:
                retries -= 1
                self.runner.submit(job, lambda reply: on_measured(job, reply))
            else:
                end(kept, reply)

        def on_exact(job: Job, before: Reply, reply: Reply) -> None:
            nonlocal kept
            tolerance = reply.value["tolerance"] if reply.outcome == "ok" else None
            if tolerance is None or not tolerance[0]:  # whole numbers have no rounding
                end(cost_of(before), before)
                return
            kept = None
            measure(job.arguments["arguments"]["build"], tolerance)

        def end(cost: Cost, last: Reply) -> None:
            _remove(library)
            _remove(reference_of(library))
            self._record(item, cost, last)

        return on_built

    def _record(self, item: _Item, cost: Cost, last: Reply) -> None:
        """Note a candidate's cost, which its last reply led to; the store keeps what is its own."""
        key, candidate = item
        is_kept = cost.status != CostStatus.MACHINE_FAULT and (
            last.outcome != "lost" or cost.is_usable
        )
        if cost.is_busy:
            self._loads.append(cost.load)
        self._cache[key] = cost
        if self._store is not None and is_kept:
            self._store.keep(candidate, cost)
        self._progress.on_cost(cost)
        _logger.debug("%s: %s", candidate.Summary(), cost.Summary())
        self._faults.add(last, cost)


def _batches(todo: Sequence[_Item], most: int) -> Iterator[list[_Item]]:
    """Yield items in their order, up to `most` at once whose weights fit; one that is larger is
    alone."""
    batch, held = list[_Item](), 0
    for item in todo:
        size = item[1].weight_bytes
        if batch and (len(batch) == most or held + size > _BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += size
    if batch:
        yield batch


def _with_load(cost: Cost, load: float) -> Cost:
    """Return the cost with what others took of the CPUs meanwhile, where that may have made it
    so."""
    if load and (cost.is_usable or cost.status == CostStatus.TIMEOUT):
        return dataclasses.replace(cost, load=load)
    return cost


def _remove(file: str) -> None:
    try:
        os.remove(file)
    except FileNotFoundError:
        pass
