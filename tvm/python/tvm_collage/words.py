# SPDX-License-Identifier: Apache-2.0
"""Words that the command line, which is read without TVM, and the package in TVM both know: in one
place, with what finds the nearest of them. Test: collage/cli/test_cli.py.
"""

from __future__ import annotations

import difflib
import enum
import json
from collections.abc import Iterable
from typing import NamedTuple

# Kinds of progress.
PROGRESS = ("auto", "rich", "lines", "quiet", "json")
# Forms of a report, and what each is; those that are pictures; and the most boxes of parts in one,
# which is what a screen or a page holds.
FORMS = {
    "html": "a page for a browser, which needs no network",
    "svg": "a picture of the placed graph",
    "pdf": "the same as PDF; needs reportlab",
    "trace": "its parts on a time line, for chrome://tracing or Perfetto",
    "netron": "the placed graph as ONNX, for Netron to show",
}
PICTURE_FORMS = ("svg", "pdf")
MOST_BOXES = 20
# Options that had another name before, in Python and as flags: (then, now). The old name is an
# error, which tells the new one.
_RENAMED = (("search_seconds", "time_limit"), ("search-seconds", "time-limit"))
# Files that tell of a decision, as errors name them.
DECISIONS = (
    "a library, which `collage compile MODEL -o LIB.so` writes, or the report or placement that it "
    "writes with --report or --save-placement"
)


class Effort(enum.StrEnum):
    """The lengths to which a build goes to find a better mix of backends; the option `effort`."""

    QUICK = "quick"
    NORMAL = "normal"
    EXHAUSTIVE = "exhaustive"


class CostStatus(enum.StrEnum):
    """The way in which a cost came about, or what went wrong; in files and reports its text."""

    UNKNOWN = "unknown"
    MEASURED = "measured"
    ESTIMATED = "estimated"
    COMPILE_FAILED = "compile_failed"
    RUN_FAILED = "run_failed"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    WRONG_RESULT = "wrong_result"
    UNSUPPORTED = "unsupported"
    # Not the candidate's doing: it is in no plan, and whoever asks for it again has it measured
    # again.
    MACHINE_FAULT = "machine_fault"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"unknown cost status {value!r}; one of {', '.join(cls)}")

    @property
    def has_seconds(self) -> bool:
        """Return whether a candidate of this status may be part of a plan."""
        return self in (CostStatus.MEASURED, CostStatus.ESTIMATED)

    @property
    def is_failure(self) -> bool:
        return not self.has_seconds and self is not CostStatus.UNKNOWN


class CostKey(NamedTuple):
    """The key that must be equal for a cost to be used again; meanings in schema.CREATE."""

    candidate: str
    backend: str
    backend_version: str
    target: str
    device: str
    cpu: str
    threads: str
    options: str
    tvm: str
    measuring: str

    def differences(self, other: CostKey) -> list[str]:
        """Return the names of the parts that differ."""
        return [name for name in self._fields if getattr(self, name) != getattr(other, name)]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which of the names is meant by one that is misspelt, or that is one of old; "" where
    none is near."""
    known = list(names)
    renamed = (name.replace(then, now) for then, now in _RENAMED if then in name)
    near = (*renamed, *difflib.get_close_matches(name, known, n=1))
    return next((each for each in near if each in known), "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ", did you mean ...?" with the nearest name; "" where none is near."""
    near = nearest(name, names)
    return f", did you mean {near}?" if near else ""


def json_line(kind: str, text: str) -> str:
    """Return a line of JSON beside those of the progress; docs/progress.schema.json."""
    return json.dumps({"kind": kind, "text": text})
