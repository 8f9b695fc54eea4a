# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's records: those of the database in force, and back.

TVM alone can write a database's rows, and only to files: they go through a folder that is removed.
Precondition: module_equality is "structural", its default; a database does not tell what it has.
Test: tuning/test_records.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.meta_schedule.database import Database, JSONDatabase

from ..files.text import parse_json
from .record import CannotTravel, Record

CONFIG: dict[str, Any] = {
    "relay.backend.use_meta_schedule": True,
    "relay.backend.tir_converter": "default",
}
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"


def is_enabled() -> bool:
    """Whether builds consult records."""
    from tvm.meta_schedule import is_meta_schedule_enabled

    return bool(is_meta_schedule_enabled())


def cannot_build() -> bool:
    """Whether builds fail for want of a database, be it an empty one."""
    return is_enabled() and Database.current() is None


def quiet() -> contextlib.AbstractContextManager[None]:
    """Context without warnings for kernels that have no record; there are none here."""
    return contextlib.nullcontext()


def records_in_force(target: tvm.target.Target) -> list[Record]:
    """The best record of each workload, whatever its target, as TVM looks it up; CannotTravel."""
    database = Database.current()
    return records_in([] if database is None else [database], target)


def records_in(databases: Sequence[Any], target: tvm.target.Target) -> list[Record]:
    """The same for the innermost of some databases."""
    if not databases:
        return []
    database = databases[0]
    with tempfile.TemporaryDirectory(prefix="collage-tuning-") as folder:
        try:
            database.dump_pruned(JSONDatabase(work_dir=folder))
        except tvm.TVMError as error:
            name = type(database).__name__
            raise CannotTravel(f"the MetaSchedule database, a {name},") from error
        return [_record(text) for text in read_pairs(Path(folder))]


@contextlib.contextmanager
def open_records(lines: Sequence[str]) -> Iterator[Any]:
    """A context in which builds use these pairs of lines."""
    with tempfile.TemporaryDirectory(prefix="collage-tuning-") as folder:
        write_pairs(Path(folder), lines)
        database = JSONDatabase(work_dir=folder, allow_missing=False)
    with database:
        yield database


def read_pairs(folder: Path) -> list[str]:
    """A database's rows, each as a JSON list of its workload's row and its own."""
    workloads = (folder / WORKLOADS).read_text(encoding="utf-8").splitlines()
    pairs = []
    for text in (folder / RECORDS).read_text(encoding="utf-8").splitlines():
        try:
            index, row = parse_json(text)
            pairs.append(json.dumps([parse_json(workloads[index]), row]))
        except (ValueError, IndexError):
            pairs.append(text)  # cut off, or its workload was: no pair
    return pairs


def write_pairs(folder: Path, lines: Sequence[str]) -> None:
    """Inverse of read_pairs."""
    pairs = [json.loads(line) for line in lines]
    workloads = list(dict.fromkeys(json.dumps(workload) for workload, _ in pairs))
    index = {workload: i for i, workload in enumerate(workloads)}
    rows = [json.dumps([index[json.dumps(workload)], row]) for workload, row in pairs]
    (folder / WORKLOADS).write_text("".join(f"{line}\n" for line in workloads), encoding="utf-8")
    (folder / RECORDS).write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")


def is_line(row: Any) -> bool:
    """Whether a parsed pair is of a MetaSchedule database."""
    return isinstance(row, list) and len(row) == 2 and isinstance(row[1], list)


def seconds_of(row: Any) -> float | None:
    """Mean seconds of a parsed pair; None when the trial failed."""
    seconds = row[1][1]
    is_timed = bool(seconds) and max(seconds) < FAILED_SECONDS
    return sum(seconds) / len(seconds) if is_timed else None


def workload_of(row: Any) -> str:
    """What a parsed pair is a record for: the hash of its module."""
    return row[0][0]


def origin_of(row: Any) -> str:
    """Of a parsed pair: see Record.origin."""
    return "metaschedule"


def target_of(row: Any) -> str:
    """The target that a parsed pair was measured for, as TVM writes it."""
    return str(tvm.target.Target(row[1][2]))


# What MetaSchedule writes for a trial that failed.
FAILED_SECONDS = 1e9


def _record(text: str) -> Record:
    workload, (trace, _, _, arguments) = json.loads(text)
    # Not the text: TVM writes an equal module in several ways.
    identity = json.dumps([workload[0], trace])
    tensors = [argument for argument in arguments if argument[0] == "TENSOR"]
    return Record("metaschedule", text, identity, frozenset(math.prod(t[2]) for t in tensors[-1:]))
