# SPDX-License-Identifier: Apache-2.0
"""Jobs one after the other whose records stay in a file, so that a run goes on where it stopped.

A job's record has the values of its key, what measuring it found, the conditions of the run, the
day and the seconds that it took. Test: bench/test_harness.py.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import records

Found = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """A record to be made."""

    title: str  # what a line calls it
    key: Mapping[str, Any]  # what the record is of, by name
    measure: Callable[[], Mapping[str, Any]]  # FileNotFoundError where its net is not there


@dataclasses.dataclass(frozen=True)
class Book:
    """A file of records. One stands as long as this run has the same conditions but for the commit,
    whose code that counts is hashed in the versions, and is made anew otherwise."""

    file: Path
    key: Sequence[str]  # names of what a record is of
    conditions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_failed: Callable[[Found], bool] = lambda _: False  # its cause may be gone: made anew

    def standing(self, job: Job, keep: bool = False) -> Found | None:
        """Return the job's record where it need not be made; with `keep` one of any conditions."""
        key = tuple(job.key[name] for name in self.key)
        found = records.load(self.file, self.key).get(key)
        if found is None or keep:
            return found
        names = [name for name in self.conditions if name != "commit"]
        is_current = records.is_current(found, self.conditions, names)
        return found if is_current and not self.is_failed(found) else None

    def make(self, job: Job) -> Found:
        """Make the job's record now, and keep it."""
        began = time.monotonic()
        facts = job.measure()
        day, seconds = datetime.date.today().isoformat(), round(time.monotonic() - began, 1)
        made = {**job.key, "conditions": dict(self.conditions), "date": day, **facts}
        records.save(self.file, self.key, made | {"seconds": seconds})
        return made | {"seconds": seconds}


def run(
    jobs: Iterable[Job],
    book: Book,
    summary: Callable[[Found], str],
    *,
    budget: float = float("inf"),
    keep: bool = False,
    workers: int = 1,
) -> list[Found]:
    """Return the jobs' records, each kept as soon as it is made, and its summary printed; so many
    workers make one each at the same time. Once the budget of seconds is used up nothing more is
    measured; what stands in the file already is found. A job whose net is not there is told of and
    has no record."""
    began = time.monotonic()
    listed, late = list(jobs), []

    def one(number: int, job: Job) -> Found | None:
        title = f"[{number}/{len(listed)}] {job.title}"
        record = book.standing(job, keep)
        if record is not None:
            title += f": is in {book.file.name}"
        elif time.monotonic() - began > budget:
            late.append(job.title)
            return None
        else:
            print(f"{title} ...", flush=True)
            try:
                record = book.make(job)
            except FileNotFoundError as error:
                print(f"{title}: left out: {error}", file=sys.stderr)
                return None
        print(f"{title}: {summary(record)}", flush=True)
        return record

    with ThreadPoolExecutor(workers) as pool:
        each = map if workers == 1 else pool.map  # the first thread alone hears of SIGTERM
        found = list(each(one, range(1, len(listed) + 1), listed))
    if late:
        print(f"left out, the budget of {budget:g} s is used up: {', '.join(late)}")
    return [record for record in found if record is not None]
