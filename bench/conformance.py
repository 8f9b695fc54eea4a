#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each operator of ONNX compute what ONNX says? ONNX's own tests of single nodes tell.

    python bench/conformance.py                             # it goes on where it stopped
    python bench/conformance.py --cases resize
    python bench/conformance.py --collage dnnl,onnxruntime --every 5
    python bench/conformance.py --record after.jsonl --against before.jsonl

A case runs through Collage, with TVM alone or with the backends that are named, and by onnxruntime,
each time in a process of its own; what becomes of it is a record. Ends with 1 where a case of ours
is wrong, crashes or hangs. Docs: docs/conformance.md. Test: bench/test_conformance.py.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import arguments, forked, records
from harness.resume import Book, Job, run
from node_tests import CRASHED, FAULTS, HUNG, ONNXRUNTIME, TVM, sides
from node_tests.cases import Case, all_cases, why_not_plain
from summaries import cases
from tvm.relay import collage

KEY = ("case", "side")


def main(given: Sequence[str] | None = None) -> int:
    options = parse(given)
    os.environ["COLLAGE_CPU_LOCKS"] = "none"  # no time that a search measures is looked at
    forked.import_all(collage)
    before = list(records.load(options.against, KEY).values()) if options.against else []
    found: list[dict[str, Any]] = []
    for side in (options.side, ONNXRUNTIME):
        book = Book(options.record, KEY, conditions_of(side))
        found += run(
            jobs_of(side, options),
            book,
            lambda record: f"{record['outcome']} {record['reason'][:160]}",
            budget=options.budget,
            keep=options.keep,
            workers=options.workers,
        )
    print(cases.summary_text(found))
    for line in [*cases.not_right(found), *cases.changes(before, found)]:
        print(line)
    ours = {each["outcome"] for each in found if each["side"] != ONNXRUNTIME}
    return 1 if ours & set(FAULTS) else 0


def jobs_of(side: str, options: argparse.Namespace) -> list[Job]:
    """Return a job for each case; onnxruntime's for the plain ones."""
    jobs = []
    for case in options.cases[:: options.every]:
        not_plain = why_not_plain(case.model())
        if not_plain and side == ONNXRUNTIME:
            continue
        key = {"case": case.name, "side": side}
        make = partial(measure, case, side, not_plain, timeout=options.timeout)
        jobs.append(Job(f"{case.name} {side}", key, make))
    return jobs


def measure(case: Case, side: str, not_plain: str, timeout: float) -> dict[str, Any]:
    """Return what a record says of a case on a side."""
    if side == ONNXRUNTIME:
        ended = forked.run(sides.of_onnxruntime, case, limit=timeout)
    else:
        backends = [] if side == TVM else side.split(",")
        ended = forked.run(sides.of_ours, case, backends, limit=timeout)
    died = {"outcome": HUNG if ended.is_late else CRASHED, "reason": ended.failure}
    facts = {**died, "is_clean": False} if ended.failure else ended.value
    return {"not_plain": not_plain, **facts}


def conditions_of(side: str) -> dict[str, Any]:
    """Return what an outcome depends on; onnxruntime's not on our code."""
    found = records.conditions({"commit": records.commit()}, ["onnx", "onnxruntime"])
    if side == ONNXRUNTIME:
        found["versions"] = {name: found["versions"][name] for name in ("onnx", "onnxruntime")}
    return found


@arguments.checked
def cases_argument(text: str) -> list[Case]:
    """Return the cases in whose name the expression is found."""
    try:
        found = [case for case in all_cases() if re.search(text, case.name)]
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    if not found:
        raise ValueError(f"no case has {text!r} in its name, e.g. test_add")
    return found


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.make_parser(
        __doc__,
        record=arguments.ROOT / "build/bench/conformance.jsonl",
        **arguments.RESUMED,
    )
    add = parser.add_argument
    add("--cases", type=cases_argument, default="", metavar="REGEX", help="default: all")
    add("--every", type=arguments.at_least(1), default=1, metavar="N", help="of these cases")
    add("--workers", type=arguments.at_least(1), default=2, help="cases at the same time")
    add("--timeout", type=float, default=120.0, help="seconds that a case may take")
    add("--against", type=Path, metavar="FILE", help="of former records: what has changed")
    add(
        "--collage",
        type=arguments.backends,
        metavar="BACKENDS",
        help="besides TVM, with commas between",
    )
    options = parser.parse_args(given)
    options.side = ",".join(options.collage) if options.collage else TVM
    return options


if __name__ == "__main__":
    sys.exit(main())
