# SPDX-License-Identifier: Apache-2.0
"""Tuning logs in files: which kind one is, its best lines, one more line.

Test: tuning/test_logs.py.

A log has a JSON value a line; MetaSchedule's own form, a folder with two files, is read as well.
A line that was cut off (a killed writer) or garbled costs itself alone, and is reported.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tvm

from ..files.kinds import kind_of
from ..files.text import parse_json
from .metaschedule_records import RECORDS, WORKLOADS, read_pairs
from .record import Record, TuningLogError
from .records import KINDS, TuningRecords

_logger = logging.getLogger(__name__)
_SHOULD_BE = (
    "it should be a log of AutoTVM or Ansor (a JSON object a line), one that `tune` wrote, or the "
    "work_dir of a MetaSchedule database"
)


class Line(NamedTuple):
    """A trial in a log. seconds: None when it failed. origin: see Record."""

    kind: str
    workload: str
    target: str
    seconds: float | None
    text: str
    origin: str = ""


def read_log(path: str | os.PathLike[str], should_be: str = _SHOULD_BE) -> list[Line]:
    """All trials of a log. TuningLogError for a file that is missing or no log, which ends with
    what the reader would have."""
    path = Path(path)
    try:
        texts = read_pairs(path) if path.is_dir() else _lines_of(path)
    except UnicodeDecodeError:
        kind = "a folder of another kind" if path.is_dir() else kind_of(path)
        raise TuningLogError(f"tuning log {path}: it seems to be {kind}; {should_be}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        missing = f" ({WORKLOADS}, {RECORDS})" if path.is_dir() else ""
        raise TuningLogError(f"tuning log {path}{missing}: {reason}; {should_be}") from None
    lines = [_parse(text) for text in texts if text.strip() and not text.startswith("#")]
    bad = sum(line is None for line in lines)
    good = [line for line in lines if line is not None]
    if bad and not good:
        seems = "" if path.is_dir() else f", and it seems to be {kind_of(path)}"
        raise TuningLogError(
            f"tuning log {path}: none of its {bad} lines is a record{seems}; {should_be}"
        )
    if bad:
        _logger.warning(
            "tuning log %s: %d lines are no records and are left out; if cut off, tune again",
            path,
            bad,
        )
    return good


def best_lines(lines: Iterable[Line]) -> list[Line]:
    """The fastest trial of each kind, workload and target; none where all failed."""
    best: dict[tuple[str, ...], Line] = {}
    for line in lines:
        old = best.get(line[:3])
        least = math.inf if old is None or old.seconds is None else old.seconds
        if line.seconds is not None and line.seconds < least:
            best[line[:3]] = line
    return list(best.values())


def load_records(paths: Sequence[str | os.PathLike[str]], target: Any) -> TuningRecords:
    """The records that builds for `target` would find in these logs together. TuningLogError."""
    return records_of(best_lines(line for path in paths for line in read_log(path)), target)


def records_of(lines: Iterable[Line], target: Any) -> TuningRecords:
    """The records in some lines, looked up as TVM does for `target`."""
    by_kind: dict[str, list[Line]] = {}
    for line in lines:
        by_kind.setdefault(line.kind, []).append(line)
    records: list[Record] = []
    for kind, given in by_kind.items():
        origins = {line.workload: line.origin for line in given}
        with KINDS[kind].open_records([line.text for line in given]) as context:
            for record in KINDS[kind].records_in([context], tvm.target.Target(target)):
                workload = KINDS[kind].workload_of(parse_json(record.text))
                records.append(record._replace(origin=origins.get(workload, kind)))
    return TuningRecords(records)


def lines_of(records: Iterable[Record]) -> list[Line]:
    """Records as lines."""
    lines = (_parse(record.text) for record in records)
    return [line for line in lines if line is not None]


def append_line(path: str | os.PathLike[str], text: str) -> None:
    """Add a line so that several writers' lines stay whole.

    Where a killed writer left half a line, that is ended first. The lock, which a killed writer
    lets go, tells such a line from one that is being written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    fd = os.open(path, flags, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        is_cut = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        os.write(fd, (("\n" if is_cut else "") + text + "\n").encode())
    finally:
        os.close(fd)


def _lines_of(path: Path) -> Iterator[str]:
    return iter(path.read_text(encoding="utf-8").splitlines())


def _parse(text: str) -> Line | None:
    try:
        row = parse_json(text)
        for kind, module in KINDS.items():
            if module.is_line(row):
                workload, target = module.workload_of(row), module.target_of(row)
                seconds, origin = module.seconds_of(row), module.origin_of(row)
                return Line(kind, workload, target, seconds, text, origin)
    except (ValueError, TypeError, KeyError, IndexError):
        pass
    return None
