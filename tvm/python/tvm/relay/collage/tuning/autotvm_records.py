# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's records as lines of its log: those in force, and back. Test: tuning/test_records.py.

TVM looks them up by the target's model, then by its keys, in the innermost context first. Here that
order is settled for one target: a line a workload.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import autotvm
from tvm.autotvm.record import decode, encode
from tvm.autotvm.task.dispatcher import DispatchContext, FallbackContext

from ..tvm_fixes.thread_contexts import ThreadContexts
from .record import CannotTravel, Record, rows_by_precedence

_THREADS = ThreadContexts("AutoTVM's contexts", DispatchContext)
CONFIG: dict[str, Any] = {}


def is_enabled() -> bool:
    """Whether builds consult records: always, for the schedules that others do not make."""
    return True


def cannot_build() -> bool:
    """Whether builds fail for want of records: they take the default schedules."""
    return False


def quiet() -> contextlib.AbstractContextManager[None]:
    """Context without warnings for kernels that have no record; there are none here."""
    return contextlib.nullcontext()


def records_in_force(target: tvm.target.Target) -> list[Record]:
    """The record that a build for `target` would use for each workload; CannotTravel.

    What `DispatchContext.update` has set is left out: TVM's own passes do that in each build.
    """
    return records_in(_contexts(), target)


def records_in(contexts: Sequence[Any], target: tvm.target.Target) -> list[Record]:
    """The same for ApplyHistoryBest contexts, innermost first."""
    found: dict[Any, Any] = {}
    for key, rows in rows_by_precedence(contexts, target):
        found.update({row[1]: pair for row, pair in rows.items() if row[0] == key})
    return [_record(target, *pair) for pair in found.values()]


def open_records(lines: Sequence[str]) -> contextlib.AbstractContextManager[Any]:
    """A context in which builds use these lines of a log."""
    return _THREADS.entered(autotvm.apply_history_best([decode(line) for line in lines]))


def is_line(row: Any) -> bool:
    """Whether a parsed line is of an AutoTVM log."""
    return isinstance(row, dict) and {"input", "config", "result"} <= set(row)


def seconds_of(row: Any) -> float | None:
    """Mean seconds of a parsed line; None when the trial failed."""
    costs, error_no = row["result"][:2]
    return None if error_no else sum(costs) / len(costs)


def workload_of(row: Any) -> str:
    """What a parsed line is a record for: its target's text is no part of it."""
    return json.dumps(row["input"][1:3])


def origin_of(row: Any) -> str:
    """Of a parsed line: see Record.origin."""
    return "autotvm"


def target_of(row: Any) -> str:
    """The target that a parsed line was measured for, as TVM writes it."""
    return row["input"][0]


def _contexts() -> list[Any]:
    """The contexts in force, innermost first."""
    contexts = []
    for context in _THREADS.in_force():
        if isinstance(context, FallbackContext):
            break
        if type(context) is not autotvm.task.ApplyHistoryBest:
            raise CannotTravel(f"autotvm's {type(context).__name__}")
        contexts.append(context)
    return contexts


def _record(target: tvm.target.Target, inp: Any, result: Any) -> Record:
    # When it was measured, and how long that took, make no other record.
    result = autotvm.MeasureResult(result.costs, result.error_no, 0.0, 0.0)
    line = encode(autotvm.MeasureInput(target, inp.task, inp.config), result)
    tensors = [arg for arg in inp.task.args if isinstance(arg, tuple) and arg[0] == "TENSOR"]
    return Record("autotvm", line, line, frozenset(math.prod(arg[1]) for arg in tensors[:1]))
