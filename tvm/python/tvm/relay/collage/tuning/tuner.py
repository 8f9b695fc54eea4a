# SPDX-License-Identifier: Apache-2.0
"""One of TVM's searches for schedules: AutoTVM, Ansor or MetaSchedule, behind one protocol.

A tuner has tasks, which are the kernels that it can tune in a module. A trial of a task is a line
of a log, a record is the best trial of a task, and a context of the tuner's has builds use records.
`records.TUNERS` is the table of the three. Tests: tuning/test_records.py, tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import tvm

from ..errors import CollageError
from ..process_wide.logs import warn_once
from ..tvm_fixes.thread_contexts import ThreadContexts
from .ansor_kernel import AnsorKernel

# TVM's object that has records in force: a DispatchContext, or a database.
Context: TypeAlias = Any
# A schedule that was found for another kernel.
TRANSFERRED = "transferred"


class CannotTravel(Exception):
    """The records in force hold code or are hidden; the message names it."""


class TuningLogError(CollageError, ValueError):
    """A tuning log cannot be used; the message names the file, the fault and what to do."""


class Record(NamedTuple):
    """The best schedule known for one workload."""

    kind: str  # the tuner's name
    text: str  # a line of the tuner's log (MetaSchedule: its two lines as one JSON list)
    identity: str  # equal for equal schedules of equal workloads
    # Elements that one tensor of the kernel has, the data it reads or its output; several where the
    # log does not say which. A kernel of a module without such a tensor cannot use the record.
    sizes: frozenset[int]
    # Who found it, the tuner's own search or TRANSFERRED; "" where nobody says. It makes no other
    # record.
    origin: str = ""


class Line(NamedTuple):
    """A trial in a log."""

    kind: str  # the tuner's name
    workload: str  # what it is a trial of; the target's text is no part of it
    target: str  # as TVM writes it
    seconds: float | None  # the mean of its runs; None when it failed
    text: str
    origin: str = ""  # as a record's


@dataclasses.dataclass(frozen=True)
class TuningTask:
    """A kernel of a module that a tuner can tune."""

    workload: str  # as a log's lines have it
    name: str  # for people
    work: Any  # TVM's own task
    kernel: AnsorKernel | None = None  # of Ansor's


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Options of a task's search."""

    tuner: str  # a name in records.TUNERS
    trials: int  # of each task
    log: str  # the file that each trial is appended to
    model: str = "xgb"  # the cost model: xgb or random
    seed: int = 0
    patience: int = 0  # trials without a gain after which a search ends; 0 for none


class Tuner(Protocol):
    """A search for schedules, and its records."""

    name: str
    # Of the PassContext in which builds consult its records.
    config: Mapping[str, Any]

    def is_enabled(self) -> bool:
        """Tell whether builds consult its records in the PassContext that is in force."""
        ...

    def cannot_build(self) -> bool:
        """Tell whether builds fail for want of records, rather than take default schedules."""
        return False

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """Return a context without warnings for kernels that have no record."""
        return contextlib.nullcontext()

    def contexts(self) -> Sequence[Context]:
        """Return what has records in force, innermost first. CannotTravel.

        What `DispatchContext.update` has set is left out: TVM's own passes do that in each build.
        """
        ...

    def records_in(self, contexts: Sequence[Context], target: tvm.target.Target) -> list[Record]:
        """Return the record that a build for `target` would use for each workload. CannotTravel."""
        ...

    def using(self, lines: Sequence[str]) -> contextlib.AbstractContextManager[Context]:
        """Return a context in which builds use these lines of a log; it gives what has them."""
        ...

    def line_of(self, row: object, text: str) -> Line | None:
        """Return the trial that a line tells, `row` as JSON; None for another tuner's.

        ValueError, TypeError, LookupError for what is no line.
        """
        ...

    def tasks(self, mod: tvm.IRModule, target: tvm.target.Target) -> list[TuningTask]:
        """Return the kernels of a typed module that are worth tuning."""
        ...

    def search(self, task: TuningTask, options: SearchOptions, known: Sequence[Line]) -> None:
        """Try `options.trials` more schedules of a task, or as many as there are, and append each
        trial to the log; `known` are the log's trials of all tasks for this target."""
        ...


def of_task(known: Sequence[Line], task: TuningTask) -> list[Line]:
    """Return those trials that are of a task."""
    return [line for line in known if line.workload == task.workload]


@contextlib.contextmanager
def learning(problem: str, advice: str = "") -> Iterator[None]:
    """Read or write what a cost model has learnt; a fault costs time alone, and is warned of."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - tar, zip, numpy and xgboost raise their own kinds
        warn_once(f"what was learnt {problem}: {error}{advice}")


def contexts_in_force(threads: ThreadContexts, outermost: type, usable: type) -> list[Context]:
    """Return the contexts of AutoTVM or Ansor that a build asks, innermost first. CannotTravel for
    one whose records cannot be read."""
    contexts = []
    for context in threads.in_force():
        if isinstance(context, outermost):
            break
        also = " with include_compatible" if getattr(context, "include_compatible", False) else ""
        if type(context) is not usable or also:
            whose = usable.__module__.split(".")[1]
            raise CannotTravel(f"{whose}'s {type(context).__name__}{also}")
        contexts.append(context)
    return contexts


def rows_by_precedence(
    contexts: Sequence[Context], target: tvm.target.Target
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield keys of `target` and the rows to look them up in, of ApplyHistoryBest contexts
    (AutoTVM's or Ansor's, innermost first): those that TVM asks first come last."""
    for context in reversed(contexts):
        for key in reversed(list(target.keys)):
            yield key, context.best_by_targetkey
        yield target.model, context.best_by_model
