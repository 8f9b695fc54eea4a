# SPDX-License-Identifier: Apache-2.0
"""Ansor's logs that transfers read and write, with what comments in them tell of trials.

A log stays one that any tool of auto_scheduler reads. Test: tuning/transfer/test_log.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ...files.text import append_line
from ...process_wide.logs import warn_once
from ..ansor import NAME
from ..ansor_kernel import AnsorKernel, comments_in
from ..log import read_log, texts_of
from ..records import built_as
from ..tuner import Line, TuningLogError
from .adapt import Step

_SHOULD_BE = (
    "it should be a log of Ansor's, such as `collage tt autoschedule` or `collage tt transfer` "
    "writes"
)
# A comment to other readers, as that of ansor_kernel.py, and what it says of the kernel; trials of
# versions whose builds had nothing to tell apart say nothing.
_TRIAL, _BUILT_AS = "# trial ", "built_as"


@dataclasses.dataclass(frozen=True)
class Source:
    """A schedule that may be transferred."""

    line: str  # of a log
    kernel: AnsorKernel  # which it was found for
    log: str  # the file

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Source:
        """Undo to_json."""
        return cls(fields["line"], AnsorKernel.from_json(fields["kernel"]), fields["log"])


def steps_of(text: str) -> list[Step]:
    """Return the steps of a log's line."""
    return json.loads(text)["i"][1][1]


def trial_key(target: str, kernel: AnsorKernel, source: Source) -> str:
    """Return a text that is equal for trials of one schedule on one kernel for one target."""
    facts = [target, kernel.workload, source.kernel.workload, steps_of(source.line)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def note_trial(path: str | os.PathLike[str], key: str, facts: Mapping[str, Any]) -> None:
    """Have a log tell how a trial ended, also one that left no line."""
    append_line(path, _TRIAL + json.dumps({**facts, _BUILT_AS: built_as(NAME), "key": key}))


def tells_of_trials(path: str | os.PathLike[str]) -> bool:
    """Tell whether a log tells of trials of transferred schedules, also of such as do not count."""
    return any(line.startswith(_TRIAL) for line in texts_of(path))


def trials_of(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Return how the trials that a log tells of ended, by trial_key; the last of each.

    Those of kernels as builds no longer make them do not count, of which a warning tells.
    """
    found, earlier = {}, set()
    for facts in comments_in(texts_of(path), _TRIAL):
        key, made = facts.pop("key", None), facts.pop(_BUILT_AS, NAME)
        if key is not None and made == built_as(NAME):
            found[key] = facts
        elif key is not None:
            earlier.add(key)
    if earlier - set(found):
        warn_once(
            f"tuning log {path}: trials of transferred schedules in it do not count, because "
            f"builds make other kernels now ({built_as(NAME)}): transfer to it again, by `collage "
            "tt transfer` or the option transfer_log, which makes these trials anew"
        )
    return found


def transfer_seconds(path: str | os.PathLike[str]) -> float:
    """Return how long the transfers took that a log tells of, those without meaning too."""
    return sum(float(facts.get("took", 0.0)) for facts in trials_of(path).values())


def read_ansor(path: str | os.PathLike[str]) -> list[Line]:
    """Return a log's trials that are Ansor's. TuningLogError."""
    return [line for line in read_log(path, _SHOULD_BE) if line.kind == NAME]


def read_given(path: str | os.PathLike[str]) -> list[Line]:
    """Return the same of a log that was given for its schedules, where none of Ansor's is a
    TuningLogError too: else there would be nothing to do, and nobody would know why. A log for new
    trials may have those of other tuners alone, or none."""
    if found := read_ansor(path):
        return found
    fault = f"tuning log {path} has no trials"
    if kinds := " and ".join(sorted({line.kind for line in read_log(path)})):
        fault = (
            f"tuning log {path}: all its trials are of {kinds}, and only those of {NAME} can be "
            "used here"
        )
    raise TuningLogError(
        f"{fault}: name a log of `collage tt autoschedule`, or of a build with the options tune=N "
        f"and tuner={NAME}"
    )
