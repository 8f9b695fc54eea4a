# SPDX-License-Identifier: Apache-2.0
"""Schedules of other kernels tried on a model's: nothing is built or run in this process.

The log is the memory: a trial that it has is not made again. Test: tuner/test_transfer.py.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path

from ..candidate.candidate import CandidateModule
from ..errors import CollageError
from ..exec.machine_fault import ADVICE, DEVICE, PASSING
from ..exec.pool import Job
from ..exec.reply import Reply
from ..machine.cpu_lock import OnWait
from ..options.named import option
from ..transfer.kernel import Kernel
from ..transfer.log import Source, note_trial, trial_key, trials_of
from .budget import Budget
from .device import Workers

_logger = logging.getLogger(__name__)
_STEP = f"{__package__}.transfer_trial"
DIED = "died"
TRIAL_SECONDS = 30.0
# What is stopped after less of a trial's seconds says nothing of the schedule.
_TELLING = 2 / 3


class TransferError(CollageError, RuntimeError):
    """Schedules cannot be tried on a kernel, by no fault of theirs."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """source: whose schedule. outcome: of transfer_trial.OUTCOMES, or DIED where the worker did not
    survive it or had to be stopped. seconds: of one run of the kernel; None unless it was timed.
    took: seconds that the trial took."""

    source: Source
    outcome: str
    seconds: float | None = None
    reason: str = ""
    took: float = dataclasses.field(default=0.0, compare=False)


class Transfer:
    """Of sources to kernels, with one log. trial_seconds: for one trial, its build with it. most:
    schedules that are tried on one kernel, all by default.

    list_step, trial_step: what a worker does; tests put fakes there.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        log: Path,
        workers: Workers,
        trial_seconds: float = TRIAL_SECONDS,
        most: int | None = None,
        list_step: str = f"{_STEP}:list_kernels",
        trial_step: str = f"{_STEP}:transfer",
    ) -> None:
        self._sources, self._log, self._workers = list(sources), log, workers
        self._trial_seconds, self._most = trial_seconds, most
        self._list_step, self._trial_step = list_step, trial_step

    def kernels(self, candidate: CandidateModule, seconds: float = 300.0) -> list[Kernel]:
        """The kernels of a candidate that Ansor has schedules for. TransferError."""
        arguments = {"candidate": _text(candidate)}
        job = Job("call", {"function": self._list_step, "arguments": arguments}, seconds)
        [reply] = self._workers.run([job], concurrency=1)
        if reply.outcome != "ok":
            raise TransferError(
                f"the kernels of {candidate.label} cannot be found ({reply.message}): "
                + _advice(reply, "build it with TVM alone, which may say why")
            )
        return [Kernel.from_json(fields) for fields in reply.value]

    def sources_for(self, kernel: Kernel) -> list[Source]:
        """Those of its class, the nearest in size first."""
        alike = [source for source in self._sources if source.kernel.kind == kernel.kind]
        return sorted(alike, key=lambda source: source.kernel.distance(kernel))[: self._most]

    def to_kernel(
        self,
        candidate: CandidateModule,
        kernel: Kernel,
        budget: Budget,
        seconds: float = math.inf,
        on_wait: OnWait | None = None,
    ) -> list[Trial]:
        """How all sources of its class do on a candidate's kernel, as far as the budget and its
        share of it, `seconds`, go.

        What the log tells of is not tried again; nothing else runs while something is. What a fault
        of the machine ended is told and not noted: another run tries it again. TransferError.
        """
        known = trials_of(self._log)
        sources = self._by_key(candidate, kernel)
        trials = [Trial(source, **known[key]) for key, source in sources.items() if key in known]
        untried = {key: source for key, source in sources.items() if key not in known}
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
                reply = self._try(candidate, kernel, source, left)
                is_warm = reply.outcome == "ok"
                if reply.fault in PASSING:
                    _logger.warning(
                        "a schedule is not tried on %s in this run: %s", kernel.name, _told(reply)
                    )
                    continue
                if reply.outcome == "lost" or reply.fault:
                    _logger.warning(
                        "no more schedules are tried on %s: %s", kernel.name, _told(reply)
                    )
                    break
                if not is_warm and left < _TELLING * self._trial_seconds:
                    continue
                trial = _trial_of(source, reply, time.monotonic() - start)
                self._note(key, trial)
                trials.append(trial)
        return trials

    def untried(self, candidate: CandidateModule, kernel: Kernel) -> list[Source]:
        """What to_kernel did not come to, which it tries when it is called again."""
        known = trials_of(self._log)
        return [
            source for key, source in self._by_key(candidate, kernel).items() if key not in known
        ]

    def _by_key(self, candidate: CandidateModule, kernel: Kernel) -> dict[str, Source]:
        return {
            trial_key(candidate.target, kernel, source): source
            for source in self.sources_for(kernel)
        }

    def _try(
        self, candidate: CandidateModule, kernel: Kernel, source: Source, left: float
    ) -> Reply:
        """How the worker did. TransferError where the trial was not made to its end, and the
        schedule did not end it."""
        arguments = {
            "candidate": _text(candidate),
            "workload": kernel.workload,
            "source": source.to_json(),
            "log": str(self._log),
        }
        call = {"function": self._trial_step, "arguments": arguments}
        job = Job("call", call, min(left, self._trial_seconds))
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
    """The fastest one that was timed."""
    timed = [trial for trial in trials if trial.seconds is not None]
    return min(timed, key=lambda trial: trial.seconds or 0.0) if timed else None


def outcomes(trials: Sequence[Trial]) -> dict[str, int]:
    """How many trials came to what."""
    return dict(collections.Counter(trial.outcome for trial in trials))


def _trial_of(source: Source, reply: Reply, took: float) -> Trial:
    if reply.outcome == "ok":
        return Trial(source, **reply.value, took=took)
    return Trial(source, DIED, reason=f"{reply.outcome}: {reply.message}", took=took)


def _advice(reply: Reply, otherwise: str) -> str:
    """What to do about a reply that is not "ok"; `otherwise` where no fault of the machine is known
    to have ended it."""
    return ADVICE.get(DEVICE if reply.outcome == "lost" else reply.fault, otherwise)


def _told(reply: Reply) -> str:
    return f"{reply.message}; " + _advice(reply, "")


def _text(candidate: CandidateModule) -> str:
    return json.dumps(candidate.to_json(), sort_keys=True)
