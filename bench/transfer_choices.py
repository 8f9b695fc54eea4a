#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the heuristic of Transfer-Tuning choose the best source of schedules (paper, section 5.3)?

    python bench/transfer.py --nets bert,mobilebert,resnet18 --folder F          # makes the logs
    python bench/transfer_choices.py --nets bert,mobilebert,resnet18 --folder F  # again to go on
    python bench/transfer_choices.py --write-docs                                # docs/transfer.md

Each net gets the schedules of each other net alone and of all together, by `collage tt many`.
Docs: docs/transfer.md. Test: bench/test_transfer.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import transfer
from harness import arguments, records
from harness.resume import Book, Job, run
from harness.tables import markdown_table

# For one transfer, whose trials are few and bounded by --schedules.
_MOST_SECONDS = 3600


def main(given: list[str] | None = None) -> int:
    from tvm.relay.collage.errors import OptionError

    options = transfer.parse(given, __doc__, arguments.ROOT / "docs/transfer_choices.jsonl")
    if options.write_docs:
        return Book(options.record, transfer.KEY).write_page(options.docs, tables)
    lacking = [
        path
        for name in options.nets
        for path in (transfer.file_of(name, options), transfer.log_of(name, options))
        if not path.exists()
    ]
    if lacking:
        print(f"{lacking[0]} is not there: bench/transfer.py makes it", file=sys.stderr)
        return 1
    book = Book(options.record, transfer.KEY, transfer.conditions_of(options), transfer.COUNTED)
    try:
        jobs = [
            Job(name, transfer.key_of(name, options), lambda name=name: measure(name, options))
            for name in options.nets
        ]
        found = run(jobs, book, summary, budget=options.budget, keep=options.keep)
    except (OptionError, RuntimeError) as error:
        print(f"transfer_choices: {error}", file=sys.stderr)
        return 1
    print(tables(found), end="")
    return 0


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the net gains from each log, and which were chosen and best, as `collage tt many` tells.
    RuntimeError with its message where it fails."""
    command = [sys.executable, "-m", "tvm.relay.collage", "tt", "many"]
    sources = [transfer.log_of(each, options) for each in options.nets if each != name]
    command += [str(transfer.file_of(name, options)), "-o", str(options.folder / "many")]
    command += ["--from", *map(str, sources), "--schedules", str(options.schedules)]
    command += ["--rounds", str(options.rounds), "--target", options.target]
    command += ["--seconds", str(_MOST_SECONDS)]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    if "rows" not in found:  # it ends with 1 as well where only some of its rows failed
        why = found.get("error", f"collage tt many ended with {done.returncode}")
        raise RuntimeError(f"{name}: {why}")
    if found["untried"]:
        raise RuntimeError(
            f"{name}: {_MOST_SECONDS} seconds did not suffice, or a trial was lost: run it again"
        )
    [choice] = found["choices"]
    return {"rows": found["rows"], "choice": choice}


def summary(found: Mapping[str, Any]) -> str:
    return "; ".join(f"{what} {_cell(found['choice'][what])}" for what in _WHAT)


# Of a record's choice, and the table's heads.
_WHAT = {"chosen": "the heuristic's choice", "best": "the best one", "pooled": "all together"}


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """The page's part."""
    if not found:
        return "No records.\n"
    choices = [each["choice"] for each in found]
    lines = [
        [each["net"], *(_cell(each["choice"][what]) for what in _WHAT), _seconds(each["rows"])]
        for each in found
    ]
    text = markdown_table(["net", *_WHAT.values(), "seconds of all transfers"], lines)
    known = [each for each in choices if each["chosen"] and each["best"]]
    if known:
        alike = sum(each["chosen"]["log"] == each["best"]["log"] for each in known)
        ratios = [
            each["chosen"]["speedup"]["value"] / each["best"]["speedup"]["value"] for each in known
        ]
        text += (
            f"\nThe heuristic chooses the best source on {alike} of {len(known)} nets; what it "
            f"chooses has {statistics.geometric_mean(ratios):.3f} times the best one's speed in "
            "the geometric mean.\n"
        )
    where = records.origin(found)
    return f"{text}\nSpeed-ups are over untuned TVM, whole nets, with 95 % intervals. {where}.\n"


def _cell(row: Mapping[str, Any] | None) -> str:
    from tvm.relay.collage.costs.statistics import Interval

    if row is None:
        return "-"
    return f"{row['log']} {Interval.from_json(row['speedup']).Summary('.2f')}"


def _seconds(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(row['search_seconds'] for row in rows):.0f}"


if __name__ == "__main__":
    sys.exit(main())
