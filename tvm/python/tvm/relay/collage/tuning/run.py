# SPDX-License-Identifier: Apache-2.0
"""Tuning inside estimation (RFC 0062, appendix E): kernels of TVM's candidates that have no record.

A task is searched once, however many candidates have it; the log is the memory: what it has enough
trials of is not searched again. A record counts only where it made a candidate faster than TVM's
default schedule. Nothing is built or run in this process. Test: tuning/test_run.py.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import tvm

from ..candidate.candidate import CandidateModule
from ..costs.cost import Cost
from ..exec.pool import Job
from ..exec.reply import Reply
from ..exec.resolve import call_of, path_of
from ..machine.cpu_lock import OnWait
from ..messages.progress import OnStep, steps_untold, waiting
from . import worker
from .ansor_kernel import AnsorKernel
from .log import best_lines, lines_of, records_of
from .records import TuningRecords
from .resources import Budget, DeviceTrials, Workers
from .transfer.log import Source
from .transfer.transfer import (
    ON_DEVICE,
    Transfer,
    TransferError,
    TransferOptions,
    Trial,
    best_of,
    outcomes,
)
from .tuner import Line, SearchOptions

_logger = logging.getLogger(__name__)
_LIST_SECONDS = 60.0  # for one candidate's tasks

Estimate = Callable[[Sequence[CandidateModule]], list[Cost]]
# A candidate with these records: the same function, as candidate_module makes it.
WithRecords = Callable[[TuningRecords], CandidateModule]
Owner = tuple[CandidateModule, WithRecords]


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of a run."""

    search: SearchOptions
    seconds: float = 600.0  # for all tasks together
    sources: Sequence[Source] = ()  # Ansor's schedules that each task of their class tries first
    known: Sequence[Line] = ()  # trials that count beside the log's
    # Records in force already: what they serve is not tuned.
    given: TuningRecords = TuningRecords()
    # Tells whether there may be any record for a module but for these workloads, where no others
    # are to be made.
    serves: Callable[[tvm.IRModule, Container[str]], bool] = lambda mod, judged: True
    # Gives what is told of each task of a call of tune().
    progress: Callable[[], AbstractContextManager[OnStep]] = steps_untold
    # What a worker does; tests put fakes there.
    list_step: str = path_of(worker.list_tasks)
    tune_step: str = path_of(worker.tune_task)


class TuningRun:
    """The tuning of one search's candidates for one host target."""

    def __init__(
        self,
        options: RunOptions,
        target: tvm.target.Target | str,
        workers: Workers,
        device: DeviceTrials | None = None,
    ) -> None:
        """device: where kernels run, if not in the workers."""
        self.tuner = options.search.tuner  # its name
        self.target = tvm.target.Target(target)
        self.records = TuningRecords()  # those that a build may use by now
        # By workload, the task's name: tuned here, found in the log, given up with the reason, or
        # with a record that lost to the default schedule.
        self.searched: dict[str, str] = {}
        self.known: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.slower: dict[str, str] = {}
        self.transferred: dict[str, list[Trial]] = {}  # trials of other kernels' schedules
        self._options, self._search_options = options, options.search
        self._workers = workers
        self._searchers: Workers = device or workers
        self._transfer = Transfer(
            options.sources,
            Path(options.search.log),
            self._searchers,
            options=ON_DEVICE if device else TransferOptions(),
        )
        self._budget = Budget(options.seconds, is_timed_here=device is None)
        self._tasks: dict[str, list[str]] = {}  # by candidate
        self._names: dict[str, str] = {}  # by workload
        self._kernels: dict[str, AnsorKernel] = {}  # by workload, of Ansor's
        self._judged = {
            line.workload for line in lines_of(options.given) if line.kind == self.tuner
        }
        self._has_said = False

    def tune(self, candidates: Sequence[Owner], estimate: Estimate) -> None:
        """Search for each task of the candidates (made without records) that the log does not know,
        smallest candidate first, then drop the records that are slower than the default."""
        new = {c.key(): (c, make) for c, make in candidates if c.key() not in self._tasks}
        self._list_tasks([candidate for candidate, _ in new.values()])
        owners: dict[str, Owner] = {}
        for candidate, make in sorted(new.values(), key=lambda pair: len(pair[0].module)):
            for workload in self._tasks[candidate.key()]:
                if workload not in self._judged:
                    owners.setdefault(workload, (candidate, make))
        if not owners:
            return
        trials = _by_workload(self._lines())
        with self._options.progress() as on_step:
            for done, (workload, (candidate, _)) in enumerate(owners.items()):
                on_step(self._names[workload], done, len(owners))
                limit = self._budget.limit(len(owners) - done)
                on_wait = waiting(on_step, done, len(owners))
                self._tune(workload, candidate, trials[workload], limit=limit, on_wait=on_wait)
        self._judge(owners, estimate)

    def may_tune(self, mod: tvm.IRModule) -> bool:
        """Tell whether a candidate of this module (typed) can come to a record that it lacks."""
        return self._options.serves(mod, self._judged)

    @property
    def transfers(self) -> dict[str, int]:
        """The number of trials of other kernels' schedules by what they came to."""
        return outcomes([trial for found in self.transferred.values() for trial in found])

    def Summary(self) -> str:
        """Return one line: tasks by outcome, and what the log gave."""
        transfers = ", ".join(f"{count} {outcome}" for outcome, count in self.transfers.items())
        return (
            f"{self.tuner}: {len(self.searched)} tasks tuned, {len(self.known)} known from "
            f"{self._search_options.log}, {len(self.transferred)} given others' schedules"
            f"{f' ({transfers})' if transfers else ''}, "
            f"{len(self.failed)} not tuned, {len(self.slower)} slower than the default schedule; "
            f"{self.records.Summary()}"
        )

    def _list_tasks(self, candidates: Sequence[CandidateModule]) -> None:
        step = self._options.list_step
        calls = [call_of(step, candidate=c.to_json(), tuner=self.tuner) for c in candidates]
        replies = self._workers.run([Job("call", call, _LIST_SECONDS) for call in calls])
        for candidate, reply in zip(candidates, replies, strict=True):
            tasks = reply.value if reply.outcome == "ok" else []
            if reply.outcome != "ok":
                _logger.warning("%s stays untuned: %s", candidate.label, _reason(reply))
            for task in tasks:
                self._names[task["workload"]] = task["name"]
                if task.get("kernel"):
                    self._kernels[task["workload"]] = AnsorKernel.from_json(task["kernel"])
            self._tasks[candidate.key()] = [task["workload"] for task in tasks]

    def _tune(
        self,
        workload: str,
        candidate: CandidateModule,
        history: Sequence[Line],
        limit: float,
        on_wait: OnWait,
    ) -> None:
        """Tune one task, which has these trials, alone: nothing else builds or runs meanwhile.
        Waiting for another search, which `on_wait` is told of, takes none of the time."""
        name, asked = self._names[workload], self._search_options
        kernel = self._kernels.get(workload)
        sources = self._transfer.sources_for(kernel) if kernel else []
        is_searched = len(history) >= asked.trials or worker.is_idle(history, asked.patience)
        if is_searched and not sources:
            if history:
                self.known[workload] = name
            return
        if self._budget.is_spent:
            self._give_up(workload, f"no time left of tune_seconds={self._options.seconds:g}")
            return
        if kernel and sources:
            before = self._budget.left
            try:
                found = self._transfer.to_kernel(
                    candidate, kernel, self._budget, seconds=limit, on_wait=on_wait
                )
            except TransferError as error:
                self._give_up(workload, str(error))
                return
            limit = max(0.0, limit - (before - self._budget.left))
            self.transferred[workload] = found
            _logger.info("transferred to %s: %s, %s", name, outcomes(found), best_of(found))
        if not is_searched and limit > 0:
            self._search(workload, candidate, limit, on_wait=on_wait)

    def _search(
        self, workload: str, candidate: CandidateModule, limit: float, on_wait: OnWait
    ) -> None:
        call = call_of(
            self._options.tune_step,
            candidate=candidate.to_json(),
            workload=workload,
            options=dataclasses.asdict(self._search_options),
        )
        before = self._budget.left
        with self._budget.spending(on_wait):
            [reply] = self._searchers.run([Job("call", call, limit)], concurrency=1)
        if reply.outcome == "ok":
            name, took = self._names[workload], before - self._budget.left
            self.searched[workload] = name
            _logger.info("tuned %s: %s new trials, %.0f s", name, reply.value["trials"], took)
        elif reply.outcome == "timeout":
            asked = f"tune_seconds={self._options.seconds:g}"
            self._give_up(workload, f"its {limit:.0f} s of {asked} ended")
        else:
            self._give_up(workload, _reason(reply), is_news=reply.outcome == "lost")

    def _give_up(self, workload: str, reason: str, is_news: bool = False) -> None:
        self.failed[workload] = f"{self._names[workload]}: {reason}"
        # One warning for all that the budget leaves; the rest is debug.
        log = _logger.debug if self._has_said and not is_news else _logger.warning
        log("not tuned, or not to the end: %s", self.failed[workload])
        self._has_said = True

    def _judge(self, owners: dict[str, Owner], estimate: Estimate) -> None:
        """Measure each owner with its tasks' records beside itself without any."""
        found = _by_workload(best_lines(self._lines()))
        self._judged.update(owners)
        pairs = {candidate.key(): (candidate, make) for candidate, make in owners.values()}
        groups: dict[str, list[str]] = {}  # owner -> its tasks that have a record
        for workload, (candidate, _) in owners.items():
            if workload in found:
                groups.setdefault(candidate.key(), []).append(workload)
        kept = set(self.records)
        chosen = [
            set(records_of([line for w in names for line in found[w]], self.target))
            for names in groups.values()
        ]
        plain = [pairs[key][0] for key in groups]
        tuned = [
            pairs[key][1](TuningRecords(kept | records))
            for key, records in zip(groups, chosen, strict=True)
        ]
        costs = estimate([*plain, *tuned])
        befores, afters = costs[: len(plain)], costs[len(plain) :]
        for workloads, records, before, after in zip(
            groups.values(), chosen, befores, afters, strict=True
        ):
            if is_better(after, before):
                kept |= records
                continue
            names = {workload: self._names[workload] for workload in workloads}
            self.slower.update(names)
            _logger.info(
                "the record of %s is dropped: %s with it, %s without",
                ", ".join(names.values()),
                after.Summary(),
                before.Summary(),
            )
        self.records = TuningRecords(kept)

    def _lines(self) -> list[Line]:
        """Return the trials for this tuner and target, of the log and those known beside it."""
        target = str(self.target)
        beside = [
            line for line in self._options.known if (line.kind, line.target) == (self.tuner, target)
        ]
        return worker.trials_in(self._search_options.log, self.tuner, target) + beside


def _by_workload(lines: Sequence[Line]) -> collections.defaultdict[str, list[Line]]:
    found = collections.defaultdict(list)
    for line in lines:
        found[line.workload].append(line)
    return found


def is_better(after: Cost, before: Cost) -> bool:
    """Tell whether the tuned candidate is usable and faster; a failed one never is."""
    if not after.is_usable or after.seconds is None:
        return False
    return not before.is_usable or before.seconds is None or after.seconds < before.seconds


def _reason(reply: Reply) -> str:
    return f"{reply.outcome}: {reply.message}"
