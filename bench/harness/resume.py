# SPDX-License-Identifier: Apache-2.0
"""Jobs one after the other whose records stay in a file, so that a run goes on where it stopped,
and the page whose tables are made of these records.

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
from .tables import with_part

Found = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """What a record is of: the values of its key by name, what a line calls it, and the function
    that measures it: FileNotFoundError where its net is not there."""

    title: str
    key: Mapping[str, Any]
    measure: Callable[[], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Book:
    """A file of records with these names as their key. A record stands as long as this run has the
    same conditions, of which the names in `counted` count (default: all), and is made anew
    otherwise, or where it `is_failed`, whose cause may be gone."""

    file: Path
    key: Sequence[str]
    conditions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counted: Sequence[str] | None = None
    is_failed: Callable[[Found], bool] = lambda _: False

    def all(self) -> list[Found]:
        """The records of any conditions."""
        return list(records.load(self.file, self.key).values())

    def standing(self, job: Job, keep: bool = False) -> Found | None:
        """The job's record where it need not be made; with `keep` one of any conditions."""
        key = tuple(job.key[name] for name in self.key)
        found = records.load(self.file, self.key).get(key)
        if found is None or keep:
            return found
        names = self.conditions if self.counted is None else self.counted
        is_current = records.is_current(found, self.conditions, names)
        return found if is_current and not self.is_failed(found) else None

    def make(self, job: Job) -> Found:
        """The job's record, made now and kept."""
        began = time.monotonic()
        facts = job.measure()
        day, seconds = datetime.date.today().isoformat(), round(time.monotonic() - began, 1)
        made = {**job.key, "conditions": dict(self.conditions), "date": day, **facts}
        records.save(self.file, self.key, made | {"seconds": seconds})
        return made | {"seconds": seconds}

    def write_page(self, page: Path, tables: Callable[[list[Found]], str], name: str = "") -> int:
        """Writes the tables between the lines of the page that name the file (or `name`), and
        answers 0; where something is missing it says so, leaves the page as it is, and answers
        1."""
        marks = [f"<!-- {name or self.file.name}: {end} -->\n" for end in ("begin", "end")]
        try:
            if not self.file.exists():
                raise FileNotFoundError(f"--record {self.file}: there is no such file")
            page.write_text(with_part(page.read_text(), *marks, tables(self.all())))
        except (OSError, ValueError) as error:
            print(f"--docs {page} is not written: {error}", file=sys.stderr)
            return 1
        return 0


def run(
    jobs: Iterable[Job],
    book: Book,
    summary: Callable[[Found], str],
    *,
    budget: float = float("inf"),
    keep: bool = False,
    left_out: tuple[type[Exception], ...] = (FileNotFoundError,),
    workers: int = 1,
) -> list[Found]:
    """The jobs' records, each kept as soon as it is made, and its summary printed; so many workers
    make one each at the same time. Once the budget of seconds is used up nothing more is measured;
    what stands in the file already is found. A job that ends with one of the errors `left_out` is
    told of and has no record."""
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
            except left_out as error:
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
