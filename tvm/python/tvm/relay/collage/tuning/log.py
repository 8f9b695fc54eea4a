# SPDX-License-Identifier: Apache-2.0
"""Tuning logs in files: which tuner's one is, its best lines, and what its comments tell of
kernels.

A log has a JSON value a line; MetaSchedule's own form, a folder with two files, is read as well.
A line that was cut off (a killed writer) or garbled costs itself alone, and is reported. Test:
tuning/test_log.py.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import tvm

from ..files.kinds import kind_of
from ..files.text import append_line, parse_json
from .ansor_kernel import AnsorKernel, kernels_in, to_comment
from .metaschedule import RECORDS, WORKLOADS, read_pairs
from .records import TUNERS, TuningRecords
from .tuner import Line, Record, TuningLogError

_logger = logging.getLogger(__name__)
_SHOULD_BE = (
    "it should be a log of AutoTVM or Ansor (a JSON object a line), one that `tune` wrote, or the "
    "work_dir of a MetaSchedule database"
)


def read_log(path: str | os.PathLike[str], should_be: str = _SHOULD_BE) -> list[Line]:
    """Return all trials of a log. TuningLogError for a file that is missing or no log, which ends
    with what the reader would have."""
    path = Path(path)
    try:
        texts = read_pairs(path) if path.is_dir() else path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        kind = "a folder of another kind" if path.is_dir() else kind_of(path)
        raise TuningLogError(f"tuning log {path}: it seems to be {kind}; {should_be}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        missing = f" ({WORKLOADS}, {RECORDS})" if path.is_dir() else ""
        raise TuningLogError(f"tuning log {path}{missing}: {reason}; {should_be}") from None
    lines = [_parse(text) for text in texts if text.strip() and not text.startswith("#")]
    good = [line for line in lines if line is not None]
    bad = len(lines) - len(good)
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
    """Return the fastest trial of each tuner, workload and target; none where all failed."""
    best: dict[tuple[str, ...], Line] = {}
    for line in lines:
        old = best.get(line[:3])
        least = math.inf if old is None or old.seconds is None else old.seconds
        if line.seconds is not None and line.seconds < least:
            best[line[:3]] = line
    return list(best.values())


def load_records(
    paths: Sequence[str | os.PathLike[str]], target: tvm.target.Target | str
) -> TuningRecords:
    """Return the records that builds would find in these logs together. TuningLogError."""
    return records_of(best_lines(line for path in paths for line in read_log(path)), target)


def records_of(lines: Iterable[Line], target: tvm.target.Target | str) -> TuningRecords:
    """Return the records in some lines, looked up as TVM does for `target`."""
    lines = list(lines)
    records: list[Record] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        given = [line for line in lines if line.kind == kind]
        origins = {line.workload: line.origin for line in given}
        with TUNERS[kind].using([line.text for line in given]) as context:
            found = TUNERS[kind].records_in([context], tvm.target.Target(target))
        for record, line in zip(found, lines_of(found), strict=True):
            records.append(record._replace(origin=origins.get(line.workload, kind)))
    return TuningRecords(records)


def lines_of(records: Iterable[Record]) -> list[Line]:
    """Return records as lines."""
    return [line for record in records if (line := _parse(record.text))]


def kernels_of(*paths: str | os.PathLike[str]) -> dict[str, AnsorKernel]:
    """Return the kernels that comments of logs tell, by workload."""
    return kernels_in(text for path in paths for text in texts_of(path))


def note_kernel(path: str | os.PathLike[str], kernel: AnsorKernel) -> None:
    """Have a log tell what a kernel is, unless it does already: for those who transfer."""
    if kernel.workload not in kernels_of(path):
        append_line(path, to_comment(kernel))


def texts_of(path: str | os.PathLike[str]) -> list[str]:
    """Return a log's lines and comments; none for a folder, or where there is no log yet."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []


def _parse(text: str) -> Line | None:
    with contextlib.suppress(ValueError, TypeError, LookupError):
        row = parse_json(text)
        return next(filter(None, (tuner.line_of(row, text) for tuner in TUNERS.values())), None)
    return None
