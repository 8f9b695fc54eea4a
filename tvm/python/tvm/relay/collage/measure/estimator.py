# SPDX-License-Identifier: Apache-2.0
"""Costs of candidates by measuring them in worker processes. Test: test_measure_estimator.py.

Costs are looked for in memory, then in the store if there is one, then measured. The memory cache:
key CandidateModule.key() (the estimator's options are fixed for its life, so they are no part of
it); failures are kept as well; it lives as long as the estimator. `hits` counts candidates answered
by it or by an equal one of the same call, `stored` those answered by the store, `misses` those
measured.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .candidate import CandidateModule
from .cost import Cost
from .failure import failed_cost
from .options import MeasureOptions
from .pool import Job, WorkerPool
from .process import Reply, WorkerOptions
from .progress import Progress

_logger = logging.getLogger(__name__)

# Backends whose candidates TVM itself compiles: their border layout transforms are timed apart.
_TVM_BACKEND = "tvm"


class BatchEstimator(Protocol):
    """Whatever answers a cost for each candidate of a batch, in order."""

    def estimate(self, candidates: Sequence[CandidateModule]) -> list[Cost]: ...


class KeptCosts(Protocol):
    """Costs that outlive the estimator: store.StoredCosts."""

    def look_up(self, candidates: Sequence[CandidateModule]) -> list[Cost | None]: ...

    def keep(self, candidate: CandidateModule, cost: Cost) -> None: ...

    def close(self) -> None: ...

    def Summary(self) -> str: ...


class FunctionCostEstimator:
    """Costs by a function of the user's: seconds, a Cost, or an exception, which fails just that
    candidate as unsupported."""

    def __init__(self, function: Callable[[CandidateModule], float | Cost]) -> None:
        self._function = function

    def estimate(self, candidates: Sequence[CandidateModule]) -> list[Cost]:
        return [self._one(candidate) for candidate in candidates]

    def _one(self, candidate: CandidateModule) -> Cost:
        try:
            answer = self._function(candidate)
            return answer if isinstance(answer, Cost) else Cost.estimated(float(answer))
        except Exception as error:  # noqa: BLE001 - the user's function: failures are data
            return Cost.failed("unsupported", f"cost function: {type(error).__name__}: {error}")


class MeasuredCostEstimator:
    """Builds candidates in up to `workers` processes at once and measures them one by one.

    Batches alternate: while one worker measures, none builds. A candidate that hangs, dies or
    raises costs itself a failure, never the others. Workers start when something is to be measured.
    Close it (or use `with`) to end them and close the store; they also end with the object and with
    the interpreter.
    """

    def __init__(
        self,
        options: MeasureOptions | None = None,
        *,
        progress: Progress | None = None,
        store: KeptCosts | None = None,
        **changes: Any,
    ) -> None:
        """`changes` are MeasureOptions by name: MeasuredCostEstimator(workers=2)."""
        self.options = dataclasses.replace(options or MeasureOptions(), **changes)
        self.hits = self.stored = self.misses = 0
        self._store = store
        self._progress = progress or Progress()
        self._cache: dict[str, Cost] = {}
        self._pool = self._new_pool()

    def estimate(self, candidates: Sequence[CandidateModule]) -> list[Cost]:
        """Costs in the order of the candidates. An interrupt keeps what is measured already.

        Raises WorkerStartError when no worker process comes up.
        """
        keys = [candidate.key() for candidate in candidates]
        new = {k: c for k, c in zip(keys, candidates, strict=True) if k not in self._cache}
        hits = len(keys) - len(new)
        stored = self._take_from_store(new)
        todo = [item for item in new.items() if item[0] not in self._cache]
        self.hits += hits
        self.stored += stored
        self.misses += len(todo)
        self._progress.begin(len(todo), hits, stored)
        try:
            with tempfile.TemporaryDirectory(prefix="collage-measure-") as folder:
                for start in range(0, len(todo), self.options.batch):
                    self._measure_batch(todo[start : start + self.options.batch], folder)
        finally:
            self._progress.end()
        return [self._cache[key] for key in keys]

    def require(self, modules: Sequence[str]) -> None:
        """Have workers import these modules too; ones that lack any end. Costs are kept."""
        new = [name for name in modules if name not in self.options.imports]
        if new:
            self._pool.close()
            imports = (*self.options.imports, *new)
            self.options = dataclasses.replace(self.options, imports=imports)
            self._pool = self._new_pool()

    def close(self) -> None:
        self._pool.close()
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> MeasuredCostEstimator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def Summary(self) -> str:
        failed = sum(cost.is_failure for cost in self._cache.values())
        counts = f"{self.misses} measured, {self.hits} from memory"
        if self._store is None:
            return f"{counts}, {failed} failed"
        return f"{counts}, {self.stored} stored, {failed} failed; store: {self._store.Summary()}"

    def _take_from_store(self, new: dict[str, CandidateModule]) -> int:
        """Put what the store knows into memory; how many costs that is."""
        if self._store is None or not new:
            return 0
        found = zip(new, self._store.look_up(list(new.values())), strict=True)
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
        )

    def _measure_batch(self, batch: Sequence[tuple[str, CandidateModule]], folder: str) -> None:
        libraries = [os.path.join(folder, f"candidate_{i}.so") for i in range(len(batch))]
        built: list[tuple[int, Any]] = []

        def on_built(index: int, reply: Reply) -> None:
            self._progress.on_built()
            if reply.outcome == "ok":
                built.append((index, reply.value))
            else:
                self._record(batch[index], failed_cost(reply, "build", "compile_failed"))

        self._pool.run(
            [self._build_job(c, file) for (_, c), file in zip(batch, libraries, strict=True)],
            on_reply=on_built,
        )

        # No build is in flight any more: run() returned.
        built.sort(key=lambda item: item[0])
        jobs = {i: self._measure_job(batch[i][1], libraries[i], value) for i, value in built}
        costs: dict[int, Cost] = {}
        for attempt in range(1 + self.options.noisy_retries):
            todo = [i for i in jobs if i not in costs or costs[i].is_noisy]
            is_last = attempt == self.options.noisy_retries

            def on_measured(at: int, reply: Reply, todo=todo, is_last=is_last) -> None:
                index = todo[at]
                costs[index] = _better(costs.get(index), _cost_of(reply))
                if is_last or not costs[index].is_noisy:
                    self._record(batch[index], costs[index])

            self._pool.run([jobs[i] for i in todo], concurrency=1, on_reply=on_measured)
        for index in jobs:
            _remove(libraries[index])

    def _record(self, item: tuple[str, CandidateModule], cost: Cost) -> None:
        key, candidate = item
        self._cache[key] = cost
        if self._store is not None:
            self._store.keep(candidate, cost)
        self._progress.on_cost(cost)
        _logger.debug("%s: %s", candidate.Summary(), cost.Summary())

    def _build_job(self, candidate: CandidateModule, library: str) -> Job:
        arguments = {
            "candidate": candidate.to_json(),
            "library": library,
            "builder": self.options.builder,
            "seed": self.options.seed,
        }
        return _call(self.options.build_step, arguments, self.options.build_timeout)

    def _measure_job(self, candidate: CandidateModule, library: str, build: Any) -> Job:
        arguments = {
            "library": library,
            "build": build,
            "split_borders": candidate.backend == _TVM_BACKEND,
            "seed": self.options.seed,
            "budget_seconds": self.options.budget_seconds,
            "interval_width": self.options.interval_width,
            "sample_seconds": self.options.sample_seconds,
        }
        return _call(self.options.measure_step, arguments, self.options.run_timeout)


def _call(function: str, arguments: dict[str, Any], seconds: float) -> Job:
    return Job("call", {"function": function, "arguments": arguments}, seconds)


def _cost_of(reply: Reply) -> Cost:
    """The cost that a measuring step's reply stands for."""
    if reply.outcome != "ok":
        return failed_cost(reply, "run", "run_failed")
    return Cost.measured(reply.value["samples"], reply.value.get("border_seconds", 0.0))


def _better(before: Cost | None, after: Cost) -> Cost:
    """Of two measurements the one known better; a failure stays one."""
    if before is None or not after.is_usable or after.spread < before.spread:
        return after
    return before


def _remove(file: str) -> None:
    try:
        os.remove(file)
    except FileNotFoundError:
        pass
