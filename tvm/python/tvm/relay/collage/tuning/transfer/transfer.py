# SPDX-License-Identifier: Apache-2.0
"""Schedules of other kernels tried on a model's: nothing is built or run in this process.

The log is the memory: a trial that it has is not made again. Test:
tuning/transfer/test_transfer.py.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path

from ...candidate.candidate import CandidateModule
from ...errors import CollageError
from ...exec.machine_fault import ADVICE, DEVICE, PASSING
from ...exec.pool import Job
from ...exec.reply import Reply
from ...exec.resolve import call_of, path_of
from ...machine.cpu_lock import OnWait
from ...options.named import option
from ..ansor import NAME as ANSOR
from ..ansor_kernel import AnsorKernel
from ..resources import Budget, Workers
from ..worker import list_tasks
from . import schedule_trial
from .log import Source, note_trial, trial_key, trials_of

_logger = logging.getLogger(__name__)
DIED = "died"
_LIST_SECONDS = 300.0
# What is stopped after less of a trial's seconds says nothing of the schedule.
_TELLING = 2 / 3


class TransferError(CollageError, RuntimeError):
    """Schedules cannot be tried on a kernel, by no fault of theirs."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """An attempt to use a schedule on a kernel."""

    source: Source  # whose schedule
    outcome: str  # of schedule_trial.OUTCOMES, or DIED: the worker had to be stopped or crashed
    seconds: float | None = None  # of one run of the kernel; None unless it was timed
    reason: str = ""
    took: float = dataclasses.field(default=0.0, compare=False)  # seconds of the whole trial


@dataclasses.dataclass(frozen=True)
class TransferOptions:
    """Options of a transfer."""

    trial_seconds: float = 30.0  # for one trial, its build with it
    most: int | None = None  # schedules that are tried on one kernel; None for all
    # What a worker does; tests put fakes there.
    list_step: str = path_of(list_tasks)
    trial_step: str = path_of(schedule_trial.transfer)


# So long that a device which falls silent meanwhile is known as lost before a trial ends.
ON_DEVICE = TransferOptions(trial_seconds=150.0 + schedule_trial.REFERENCE_SECONDS)


class Transfer:
    """A transfer of sources to kernels, with one log."""

    def __init__(
        self,
        sources: Sequence[Source],
        log: Path,
        workers: Workers,
        options: TransferOptions = TransferOptions(),
    ) -> None:
        self._sources, self._log = list(sources), log
        self._workers, self._options = workers, options

    def kernels(self, candidate: CandidateModule) -> list[AnsorKernel]:
        """Return the kernels of a candidate that Ansor has schedules for. TransferError."""
        call = call_of(self._options.list_step, candidate=candidate.to_json(), tuner=ANSOR)
        [reply] = self._workers.run([Job("call", call, _LIST_SECONDS)], concurrency=1)
        if reply.outcome != "ok":
            raise TransferError(
                f"the kernels of {candidate.label} cannot be found ({reply.message}): "
                + _advice(reply, "build it with TVM alone, which may say why")
            )
        return [AnsorKernel.from_json(task["kernel"]) for task in reply.value]

    def sources_for(self, kernel: AnsorKernel) -> list[Source]:
        """Return the sources of a kernel's class, the nearest in size first."""
        alike = [source for source in self._sources if source.kernel.kind == kernel.kind]
        alike.sort(key=lambda source: source.kernel.distance(kernel))
        return alike[: self._options.most]

    def to_kernel(
        self,
        candidate: CandidateModule,
        kernel: AnsorKernel,
        budget: Budget,
        seconds: float = math.inf,
        on_wait: OnWait | None = None,
    ) -> list[Trial]:
        """Try all sources of its class on a candidate's kernel, as far as the budget and its share
        of it, `seconds`, go.

        What the log tells of is not tried again; nothing else runs while something is. What a fault
        of the machine ended is told and not noted: another run tries it again. TransferError.
        """
        trials, untried = self._by_now(candidate, kernel)
        if not untried:
            return trials
        with budget.spending(on_wait):
            end = time.monotonic() + min(seconds, budget.left)
            is_warm = False
            for key, source in untried.items():
                left = end - time.monotonic()
                if left <= 0:
                    break
                # A worker that is new gets ready first: that is no trial's time.
                if not is_warm:
                    self.kernels(candidate)
                start = time.monotonic()
                reply = self._try(candidate, kernel, source, left=left)
                is_warm = reply.outcome == "ok"
                advice = f"{reply.message}; " + _advice(reply, "")
                if reply.fault in PASSING:
                    text = "a schedule is not tried on %s in this run: %s"
                    _logger.warning(text, kernel.name, advice)
                    continue
                if reply.outcome == "lost" or reply.fault:
                    _logger.warning("no more schedules are tried on %s: %s", kernel.name, advice)
                    break
                if not is_warm and left < _TELLING * self._options.trial_seconds:
                    continue
                trial = _trial_of(source, reply, time.monotonic() - start)
                self._note(key, trial)
                trials.append(trial)
        return trials

    def untried(self, candidate: CandidateModule, kernel: AnsorKernel) -> list[Source]:
        """Return what to_kernel did not come to, which it tries when it is called again."""
        return list(self._by_now(candidate, kernel)[1].values())

    def _by_now(
        self, candidate: CandidateModule, kernel: AnsorKernel
    ) -> tuple[list[Trial], dict[str, Source]]:
        """Return the trials that the log tells of, and the sources of others by trial_key."""
        known, sources = trials_of(self._log), self.sources_for(kernel)
        keys = {trial_key(candidate.target, kernel, source): source for source in sources}
        trials = [Trial(source, **known[key]) for key, source in keys.items() if key in known]
        return trials, {key: source for key, source in keys.items() if key not in known}

    def _try(
        self, candidate: CandidateModule, kernel: AnsorKernel, source: Source, left: float
    ) -> Reply:
        """Return how the worker did. TransferError where that ended no trial."""
        call = call_of(
            self._options.trial_step,
            candidate=candidate.to_json(),
            workload=kernel.workload,
            source=source.to_json(),
            log=str(self._log),
        )
        job = Job("call", call, min(left, self._options.trial_seconds))
        [reply] = self._workers.run([job], concurrency=1)
        if reply.outcome == "failed" and not reply.fault:
            raise TransferError(
                f"no schedule can be tried on {kernel.name} ({reply.message}): build without "
                + option("transfer_log", "the option transfer_log")
                + ", or leave this kernel out by collage tt transfer --without"
            )
        return reply

    def _note(self, key: str, trial: Trial) -> None:
        facts = dataclasses.asdict(trial)
        del facts["source"]
        try:
            note_trial(self._log, key, facts)
        except OSError as error:
            raise TransferError(
                f"the log {self._log} cannot be written ({error.strerror}): make room there, or "
                "name another log"
            ) from error


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the fastest trial that was timed."""
    timed = [trial for trial in trials if trial.seconds is not None]
    return min(timed, key=lambda trial: trial.seconds or 0.0) if timed else None


def outcomes(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many trials came to what."""
    return dict(collections.Counter(trial.outcome for trial in trials))


def _trial_of(source: Source, reply: Reply, took: float) -> Trial:
    if reply.outcome == "ok":
        return Trial(source, **reply.value, took=took)
    return Trial(source, DIED, reason=f"{reply.outcome}: {reply.message}", took=took)


def _advice(reply: Reply, otherwise: str) -> str:
    """Return what to do about a reply that is no "ok"; `otherwise` where no fault is known."""
    return ADVICE.get(DEVICE if reply.outcome == "lost" else reply.fault, otherwise)
