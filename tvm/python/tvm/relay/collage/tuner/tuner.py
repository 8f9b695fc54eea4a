# SPDX-License-Identifier: Apache-2.0
"""Tuning inside estimation (RFC 0062, appendix E): kernels of TVM's candidates that have no record.

A task is searched once, however many candidates have it; the log is the memory: what it has enough
trials of is not searched again. A record counts only where it made a candidate faster than TVM's
default schedule. Nothing is built or run in this process. Test: tuner/test_tuner.py.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tvm

from ..candidate.candidate import CandidateModule
from ..costs.cost import Cost
from ..exec.pool import Job, WorkerPool
from ..exec.reply import Reply
from ..machine.cpu_lock import OnWait
from ..messages.progress import OnStep, steps_untold, waiting
from ..transfer.kernel import Kernel
from ..transfer.log import Source
from ..tuning.logs import Line, best_lines, lines_of, read_log, records_of
from ..tuning.records import TuningRecords
from .budget import Budget
from .device import DEVICE_SECONDS, DeviceTrials, Workers
from .step import is_idle
from .transfer import TRIAL_SECONDS, Transfer, TransferError, Trial, best_of, outcomes

_logger = logging.getLogger(__name__)
_STEP = f"{__package__}.step"

Estimate = Callable[[Sequence[CandidateModule]], list[Cost]]
# A candidate with these records: the same function, as candidate_module makes it.
WithRecords = Callable[[TuningRecords], CandidateModule]


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """kind: of KINDS. trials: of each task. seconds: for all searches together. log: a file.
    model: the searcher's cost model, xgb or random. patience: trials without a gain after which a
    task's search ends, 0 for none. extract_seconds: for one candidate's tasks.
    list_step, tune_step: what a worker does; tests put fakes there. sources: Ansor's schedules that
    each task tries first, if they are of its class. known: trials that count beside the log's.
    serves: whether there may be any for a module but for these workloads, where no others are to be
    made."""

    kind: str
    trials: int
    log: Path
    seconds: float = 600.0
    model: str = "xgb"
    seed: int = 0
    patience: int = 0
    extract_seconds: float = 60.0
    list_step: str = f"{_STEP}:list_tasks"
    tune_step: str = f"{_STEP}:tune_task"
    sources: Sequence[Source] = ()
    known: Sequence[Line] = ()
    serves: Callable[[tvm.IRModule, Container[str]], bool] = lambda mod, judged: True


class Tuner:
    """Of one search and one host target. `records` are those that a build may use by now.

    searched, known, failed: tasks tuned here, found in the log, and given up, with the reason.
    slower: workloads whose record lost to the default schedule. transferred: by workload, the
    trials of other kernels' schedules that were made here.
    """

    def __init__(
        self,
        options: TuneOptions,
        target: Any,
        workers: WorkerPool,
        given: TuningRecords | None = None,
        progress: Callable[[], AbstractContextManager[OnStep]] = steps_untold,
        device: DeviceTrials | None = None,
    ) -> None:
        """`given` are records in force already: what they serve is not tuned. `progress` gives what
        is told of each task of a call of tune(). `device`: where kernels run, if not in workers."""
        self.kind = options.kind
        self.records = TuningRecords()
        self.searched: dict[str, str] = {}
        self.known: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.slower: dict[str, str] = {}
        self.transferred: dict[str, list[Trial]] = {}
        self._options, self._workers = options, workers
        self._searchers: Workers = device or workers
        seconds = DEVICE_SECONDS if device else TRIAL_SECONDS
        self._transfer = Transfer(options.sources, options.log, self._searchers, seconds)
        self._progress = progress
        self.target = tvm.target.Target(target)
        self._budget = Budget(options.seconds, is_timed_here=device is None)
        self._tasks: dict[str, list[str]] = {}  # by candidate
        self._names: dict[str, str] = {}  # by workload
        self._kernels: dict[str, Kernel] = {}  # by workload, of Ansor's
        self._judged = {
            line.workload for line in lines_of(given or ()) if line.kind == options.kind
        }
        self._has_said = False

    def tune(
        self, candidates: Sequence[tuple[CandidateModule, WithRecords]], estimate: Estimate
    ) -> None:
        """Search for each task of the candidates (made without records) that the log does not know,
        smallest candidate first, then drop the records that are slower than the default."""
        new = {c.key(): (c, make) for c, make in candidates if c.key() not in self._tasks}
        self._list_tasks([candidate for candidate, _ in new.values()])
        by_size = sorted(new.values(), key=lambda pair: len(pair[0].module))
        owners: dict[str, tuple[CandidateModule, WithRecords]] = {}
        for candidate, make in by_size:
            for workload in self._tasks[candidate.key()]:
                if workload not in self._judged:
                    owners.setdefault(workload, (candidate, make))
        if not owners:
            return
        trials = self._trials()
        with self._progress() as on_step:
            for done, (workload, (candidate, _)) in enumerate(owners.items()):
                on_step(self._names[workload], done, len(owners))
                limit = self._budget.limit(len(owners) - done)
                self._search(
                    workload,
                    candidate,
                    trials.get(workload, 0),
                    limit,
                    on_wait=waiting(on_step, done, len(owners)),
                )
        self._judge(owners, estimate)

    def may_tune(self, mod: tvm.IRModule) -> bool:
        """Whether a candidate of this module (typed) can come to a record that it has not got."""
        return self._options.serves(mod, self._judged)

    @property
    def transfers(self) -> dict[str, int]:
        """How many trials of other kernels' schedules came to what."""
        return outcomes([trial for found in self.transferred.values() for trial in found])

    def Summary(self) -> str:
        """One line: tasks by outcome, and what the log gave."""
        transfers = ", ".join(f"{count} {outcome}" for outcome, count in self.transfers.items())
        return (
            f"{self._options.kind}: {len(self.searched)} tasks tuned, {len(self.known)} known from "
            f"{self._options.log}, {len(self.transferred)} given others' schedules"
            f"{f' ({transfers})' if transfers else ''}, "
            f"{len(self.failed)} not tuned, {len(self.slower)} slower than the default schedule; "
            f"{self.records.Summary()}"
        )

    def _list_tasks(self, candidates: Sequence[CandidateModule]) -> None:
        jobs = [
            self._job(self._options.list_step, self._options.extract_seconds, candidate)
            for candidate in candidates
        ]
        for candidate, reply in zip(candidates, self._workers.run(jobs), strict=True):
            tasks = reply.value if reply.outcome == "ok" else []
            if reply.outcome != "ok":
                _logger.warning("%s stays untuned: %s", candidate.label, _reason(reply))
            for task in tasks:
                self._names[task["workload"]] = task["name"]
                if task.get("kernel"):
                    self._kernels[task["workload"]] = Kernel.from_json(task["kernel"])
            self._tasks[candidate.key()] = [task["workload"] for task in tasks]

    def _search(
        self,
        workload: str,
        candidate: CandidateModule,
        trials: int,
        limit: float,
        on_wait: OnWait,
    ) -> None:
        """Tune one task, alone: nothing else builds or runs meanwhile. Waiting for another search,
        which `on_wait` is told of, takes none of the time."""
        name = self._names[workload]
        kernel = self._kernels.get(workload)
        sources = self._transfer.sources_for(kernel) if kernel else []
        history = self._history(workload) if self._options.patience else []
        is_searched = trials >= self._options.trials or is_idle(history, self._options.patience)
        if is_searched and not sources:
            if trials:
                self.known[workload] = name
            return
        if self._budget.is_spent:
            self._give_up(workload, f"no time left of tune_seconds={self._options.seconds:g}")
            return
        if kernel and sources:
            before = self._budget.left
            try:
                found = self._transfer.to_kernel(candidate, kernel, self._budget, limit, on_wait)
            except TransferError as error:
                self._give_up(workload, str(error))
                return
            limit = max(0.0, limit - (before - self._budget.left))
            self.transferred[workload] = found
            _logger.info("transferred to %s: %s, %s", name, outcomes(found), best_of(found))
        if is_searched or limit <= 0:
            return
        job = self._job(
            self._options.tune_step,
            limit,
            candidate,
            workload=workload,
            trials=self._options.trials,
            log=str(self._options.log),
            model=self._options.model,
            seed=self._options.seed,
            patience=self._options.patience,
        )
        before = self._budget.left
        with self._budget.spending(on_wait):
            [reply] = self._searchers.run([job], concurrency=1)
        if reply.outcome == "ok":
            self.searched[workload] = name
            took = before - self._budget.left
            _logger.info("tuned %s: %s new trials, %.0f s", name, reply.value["trials"], took)
        elif reply.outcome == "timeout":
            self._give_up(
                workload,
                f"its {limit:.0f} s of tune_seconds={self._options.seconds:g} ended",
            )
        else:
            self._give_up(workload, _reason(reply), is_news=reply.outcome == "lost")

    def _give_up(self, workload: str, reason: str, is_news: bool = False) -> None:
        self.failed[workload] = f"{self._names[workload]}: {reason}"
        # One warning for all that the budget leaves; the rest is debug.
        log = _logger.debug if self._has_said and not is_news else _logger.warning
        log("not tuned, or not to the end: %s", self.failed[workload])
        self._has_said = True

    def _judge(
        self, owners: dict[str, tuple[CandidateModule, WithRecords]], estimate: Estimate
    ) -> None:
        """Measure each owner with its tasks' records beside itself without any."""
        found: dict[str, list[Line]] = {}
        for line in best_lines(self._lines()):
            found.setdefault(line.workload, []).append(line)
        groups: dict[str, list[str]] = {}  # owner -> its tasks that have a record
        for workload, (candidate, _) in owners.items():
            self._judged.add(workload)
            if workload in found:
                groups.setdefault(candidate.key(), []).append(workload)
        pairs = {candidate.key(): (candidate, make) for candidate, make in owners.values()}
        kept = set(self.records)
        chosen = {
            key: set(records_of([line for w in names for line in found[w]], self.target))
            for key, names in groups.items()
        }
        plain = [pairs[key][0] for key in groups]
        tuned = [pairs[key][1](TuningRecords(kept | chosen[key])) for key in groups]
        costs = estimate([*plain, *tuned])
        for (key, names), before, after in zip(
            groups.items(), costs[: len(plain)], costs[len(plain) :], strict=True
        ):
            if _is_better(after, before):
                kept |= chosen[key]
                continue
            for workload in names:
                self.slower[workload] = self._names[workload]
            _logger.info(
                "the record of %s is dropped: %s with it, %s without",
                ", ".join(self._names[workload] for workload in names),
                after.Summary(),
                before.Summary(),
            )
        self.records = TuningRecords(kept)

    def _trials(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for line in self._lines():
            counts[line.workload] = counts.get(line.workload, 0) + 1
        return counts

    def _history(self, workload: str) -> list[Line]:
        return [line for line in self._lines() if line.workload == workload]

    def _lines(self) -> Iterable[Line]:
        """The trials for this kind and target, of the log and those that are known beside it."""
        lines = read_log(self._options.log) if self._options.log.exists() else []
        wanted = (self._options.kind, str(self.target))
        return [
            line for line in (*lines, *self._options.known) if (line.kind, line.target) == wanted
        ]

    def _job(self, step: str, seconds: float, candidate: CandidateModule, **arguments: Any) -> Job:
        arguments = {"candidate": candidate.to_json(), "kind": self._options.kind, **arguments}
        return Job("call", {"function": step, "arguments": arguments}, seconds)


def _is_better(after: Cost, before: Cost) -> bool:
    """Whether the tuned candidate is usable and faster; a failed one never is."""
    if not after.is_usable or after.seconds is None:
        return False
    return not before.is_usable or before.seconds is None or after.seconds < before.seconds


def _reason(reply: Reply) -> str:
    return f"{reply.outcome}: {reply.message}"
