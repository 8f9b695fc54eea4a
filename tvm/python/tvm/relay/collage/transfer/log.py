# SPDX-License-Identifier: Apache-2.0
"""Ansor's logs with what their kernels are: what can be transferred from them.

A log stays one that any tool of auto_scheduler reads: what a kernel is stands in a comment.
Test: transfer/test_log.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..process_wide.logs import warn_once
from ..tuning.logs import Line, append_line, read_log
from ..tuning.record import TuningLogError
from ..tuning.records import built_as
from .adapt import Step
from .kernel import Kernel, kernels_in, to_comment

KIND = "ansor"
# What to do about a log that does not tell what its kernels are, as those of other tools do not.
HOW_TO_TELL = (
    "`collage tt autoschedule MODEL --log LOG --trials 1`, with the model that the log was made "
    "for, adds that comment"
)
_SHOULD_BE = (
    "it should be a log of Ansor's, such as `collage tt autoschedule` or `collage tt transfer` "
    "writes"
)
# A comment to other readers, as that of transfer/kernel.py, and what it says of the kernel; trials
# of versions whose builds had nothing to tell apart say nothing.
_TRIAL, _BUILT_AS = "# trial ", "built_as"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Source:
    """A schedule that may be transferred: a log's line, its kernel, and where it is from."""

    line: str
    kernel: Kernel
    log: str

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Source:
        """Inverse of to_json."""
        return cls(fields["line"], Kernel.from_json(fields["kernel"]), fields["log"])


def kernels_of(*paths: str | os.PathLike[str]) -> dict[str, Kernel]:
    """The kernels that the logs' comments tell, by workload."""
    return kernels_in(line for path in paths for line in _texts(path))


def note_kernel(path: str | os.PathLike[str], kernel: Kernel) -> None:
    """Have a log tell what a kernel is, unless it does already."""
    if kernel.workload not in kernels_of(path):
        append_line(path, to_comment(kernel))


def trial_key(target: str, kernel: Kernel, source: Source) -> str:
    """Equal for trials of one schedule on one kernel for one target."""
    facts = [target, kernel.workload, source.kernel.workload, steps_of(source.line)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def note_trial(path: str | os.PathLike[str], key: str, facts: Mapping[str, Any]) -> None:
    """Have a log tell how a trial ended, also one that left no line."""
    append_line(path, _TRIAL + json.dumps({**facts, _BUILT_AS: built_as(KIND), "key": key}))


def tells_of_trials(path: str | os.PathLike[str]) -> bool:
    """Whether a log tells of trials of transferred schedules, also of such as do not count."""
    return any(line.startswith(_TRIAL) for line in _texts(path))


def trials_of(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """How the trials that a log tells of ended, by trial_key; the last of each.

    Those of kernels as builds no longer make them do not count, of which a warning tells.
    """
    found, earlier = {}, set()
    for line in _texts(path):
        if line.startswith(_TRIAL):
            try:
                facts = json.loads(line[len(_TRIAL) :])
                key, made = facts.pop("key"), facts.pop(_BUILT_AS, KIND)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # cut off by a killed writer
            if made == built_as(KIND):
                found[key] = facts
            else:
                earlier.add(key)
    if earlier - set(found):
        warn_once(
            f"tuning log {path}: trials of transferred schedules in it do not count, because "
            f"builds make other kernels now ({built_as(KIND)}): transfer to it again, by `collage "
            "tt transfer` or the option transfer_log, which makes these trials anew"
        )
    return found


def _texts(path: str | os.PathLike[str]) -> list[str]:
    """A log's lines; none where there is no log yet, or a folder of MetaSchedule's."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []


def steps_of(text: str) -> list[Step]:
    """The steps of a log's line."""
    return json.loads(text)["i"][1][1]


def read_ansor(path: str | os.PathLike[str]) -> list[Line]:
    """A log's trials that are Ansor's. TuningLogError."""
    return [line for line in read_log(path, _SHOULD_BE) if line.kind == KIND]


def read_given(path: str | os.PathLike[str]) -> list[Line]:
    """The same of a log that was given for its schedules, where none of Ansor's is a TuningLogError
    too: else there would be nothing to do, and nobody would know why. A log for new trials may have
    those of other tuners alone, or none."""
    lines = read_log(path, _SHOULD_BE)
    found = [line for line in lines if line.kind == KIND]
    if found:
        return found
    fault = f"tuning log {path} has no trials"
    if lines:
        kinds = " and ".join(sorted({line.kind for line in lines}))
        fault = (
            f"tuning log {path}: all its trials are of {kinds}, and only those of {KIND} can be "
            "used here"
        )
    raise TuningLogError(
        f"{fault}: name a log of `collage tt autoschedule`, or of a build with the options tune=N "
        f"and tuner={KIND}"
    )


def distil(lines: Iterable[Line], best: int = 1) -> list[Line]:
    """The `best` fastest trials of each workload and target, the fastest first; no failed ones."""
    groups: dict[tuple[str, str], list[tuple[float, int, Line]]] = {}
    for number, line in enumerate(lines):
        if line.seconds is not None:
            group = groups.setdefault((line.workload, line.target), [])
            group.append((line.seconds, number, line))
    return [line for group in groups.values() for _, _, line in heapq.nsmallest(best, group)]


def sources_of(paths: Sequence[str | os.PathLike[str]], best: int = 1) -> list[Source]:
    """What logs together have to transfer: the best trials of each kernel that they tell of.

    TuningLogError. Trials whose kernel no log tells are left out, with a warning.
    """
    named = [(line, str(path)) for path in paths for line in distil(read_given(path), best)]
    kernels = kernels_of(*paths)
    unknown = {line.workload for line, _ in named} - set(kernels)
    if unknown:
        _logger.warning(
            "%d of %d kernels in %s cannot be transferred: no comment of a log says what they are, "
            "as logs of tune and of collage tt do; %s",
            len(unknown),
            len({line.workload for line, _ in named}),
            ", ".join(map(str, paths)),
            HOW_TO_TELL,
        )
    return [
        Source(line.text, kernels[line.workload], log)
        for line, log in named
        if line.workload in kernels
    ]
