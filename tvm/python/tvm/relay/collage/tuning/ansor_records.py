# SPDX-License-Identifier: Apache-2.0
"""Ansor's (auto_scheduler's) records as lines of its log: those in force, and back.

A context keeps states, not the lines that they came from; a line is made anew around each.
Test: tuning/test_records.py.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.dispatcher import DispatchContext, FallbackContext
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string
from tvm.auto_scheduler.utils import decode_workload_key

from ..tvm_fixes.thread_contexts import ThreadContexts
from .record import TRANSFERRED, CannotTravel, Record, rows_by_precedence

KIND = "ansor"
_THREADS = ThreadContexts("Ansor's contexts", DispatchContext)
CONFIG: dict[str, Any] = {"relay.backend.use_auto_scheduler": True}
# What a line says of its format, which TVM reads and does not look at: of a schedule that was found
# for another kernel it says that too.
VERSION = "v0.6"
TRANSFERRED_VERSION = f"{VERSION} transferred"


def is_enabled() -> bool:
    """Whether builds consult records."""
    return bool(auto_scheduler.is_auto_scheduler_enabled())


def cannot_build() -> bool:
    """Whether builds fail for want of records: they take the default schedules."""
    return False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Context without TVM's warning for each kernel that has no record, which is the rule where a
    search tries what helps."""
    roots = [each for each in _THREADS.in_force() if isinstance(each, FallbackContext)]
    before = [root.verbose for root in roots]
    try:
        for root in roots:
            root.verbose = 0
        yield
    finally:
        for root, verbose in zip(roots, before, strict=True):
            root.verbose = verbose


def records_in_force(target: tvm.target.Target) -> list[Record]:
    """The record that a build for `target` would use for each workload; CannotTravel.

    What `DispatchContext.update` has set is left out: TVM's own passes do that in each build.
    """
    return records_in(_contexts(), target)


def records_in(contexts: Sequence[Any], target: tvm.target.Target) -> list[Record]:
    """The same for ApplyHistoryBest contexts, innermost first."""
    found: dict[tuple[str, Any], Any] = {}
    for key, rows in rows_by_precedence(contexts, target):
        for name, entry in rows.get(key, {}).items():
            found.update({(name, args): value for args, value in entry.items()})
    return [_record(target, *workload, *value) for workload, value in found.items()]


def open_records(lines: Sequence[str]) -> contextlib.AbstractContextManager[Any]:
    """A context in which builds use these lines of a log."""
    records = [load_record_from_string(line) for line in lines]
    return _THREADS.entered(auto_scheduler.ApplyHistoryBest(records))


def is_line(row: Any) -> bool:
    """Whether a parsed line is of an Ansor log."""
    return isinstance(row, dict) and {"i", "r"} <= set(row)


def seconds_of(row: Any) -> float | None:
    """Mean seconds of a parsed line; None when the trial failed."""
    costs, error_no = row["r"][:2]
    return None if error_no else sum(costs) / len(costs)


def workload_of(row: Any) -> str:
    """What a parsed line is a record for: its target's text is no part of it."""
    return flat_key(row["i"][0][0])


def flat_key(key: str) -> str:
    """A workload's key with its arguments in one list, as contexts keep it."""
    name, arguments = decode_workload_key(key)
    return key if arguments is None else json.dumps([name, *arguments])


def origin_of(row: Any) -> str:
    """Of a parsed line: see Record.origin."""
    return TRANSFERRED if row.get("v") == TRANSFERRED_VERSION else KIND


def target_of(row: Any) -> str:
    """The target that a parsed line was measured for, as TVM writes it."""
    return row["i"][0][1]


def _contexts() -> list[Any]:
    """The contexts in force, innermost first."""
    contexts = []
    for context in _THREADS.in_force():
        if isinstance(context, FallbackContext):
            break
        if type(context) is not auto_scheduler.ApplyHistoryBest or context.include_compatible:
            what = type(context).__name__
            also = " with include_compatible" if getattr(context, "include_compatible", 0) else ""
            raise CannotTravel(f"auto_scheduler's {what}{also}")
        contexts.append(context)
    return contexts


def _record(target: Any, name: str, args: tuple | None, state: Any, cost: float) -> Record:
    key = name if args is None else json.dumps([name, *args])
    # Version and hardware parameters are those of any line: a build looks at the state alone.
    row = {
        "i": [[key, str(target), [1, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], []]],
        "r": [[float(cost)], 0, 0, 0],
        "v": VERSION,
    }
    empty, result = load_record_from_string(json.dumps(row))
    line = dump_record_to_string(auto_scheduler.MeasureInput(empty.task, state), result).strip()
    # The output's shape ends the workload's arguments; where it begins they do not tell.
    dims = [dim for dim in args or () if isinstance(dim, int)]
    sizes = itertools.accumulate(reversed(dims), operator.mul)
    return Record(KIND, line, line, frozenset(sizes))
