# SPDX-License-Identifier: Apache-2.0
"""One tuning record: plain text, so that it can go to a worker and into a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import CollageError


class CannotTravel(Exception):
    """What is in force holds code or hides its records; the message names it."""


class TuningLogError(CollageError, ValueError):
    """A tuning log cannot be used; the message names the file, the fault and what to do."""


# A schedule that was found for another kernel.
TRANSFERRED = "transferred"


class Record(NamedTuple):
    """The best schedule known for one workload.

    kind: autotvm, ansor or metaschedule. text: a line of that kind's log (MetaSchedule: its two
    lines as one JSON list). identity: equal for equal schedules of equal workloads. sizes: elements
    that one tensor of the kernel has, the data it reads or its output; several where the log does
    not say which; a kernel of a module without a tensor of such a size cannot use the record.
    origin: who found it, the kind's own search or TRANSFERRED; "" where nobody says. It makes no
    other record.
    """

    kind: str
    text: str
    identity: str
    sizes: frozenset[int]
    origin: str = ""


def rows_by_precedence(contexts: Sequence[Any], target: Any) -> Iterator[tuple[str, Mapping]]:
    """Keys of `target` and the rows to look them up in, of ApplyHistoryBest contexts (AutoTVM's or
    Ansor's, innermost first): those that TVM asks first come last."""
    for context in reversed(contexts):
        for key in reversed(list(target.keys)):
            yield key, context.best_by_targetkey
        yield target.model, context.best_by_model
