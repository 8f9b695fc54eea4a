# SPDX-License-Identifier: Apache-2.0
"""`collage report`: a report that a build wrote (the option `report`), for people: in the terminal
or as files of other forms; and `collage explain`: why each part runs where it does.

Docs: docs/report.md. Test: cli/test_report.py, cli/test_explain.py.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from tvm_collage.words import FORMS, MOST_BOXES

from ..errors import CollageError, OptionError
from ..files.text import check_file_path, json_text
from ..messages.progress import one_step
from ..report import Report, head_lines, print_report, write_form
from ..report.explain import explain
from ..report.explain_lines import explain_lines
from .decisions import check_decision_path, placement_in, read_decision, write_decision


def show_report(options: argparse.Namespace) -> int:
    wanted = {form: getattr(options, form) for form in FORMS if getattr(options, form)}
    placement = options.save_placement
    for form, path in wanted.items():
        check_file_path(str(path), f"--{form}")
    if placement:
        check_decision_path(placement)
        if placement.absolute() == options.file.absolute():
            raise OptionError(
                f"--save-placement {placement} would replace what is read: name another"
            )
    with one_step("reading", options.file.name, options.progress):
        report, plan = read_decision(options.file)
    plan = options.plan or plan
    if wanted:
        _write(report, wanted, options, plan=plan)
    if placement:
        write_decision(placement, placement_in(options.file, options.plan), report)
        wanted["placement"] = placement
        _tell_of(placement, options)
    if options.json:
        ships, latency, advice = head_lines(report)
        written = {"written": {form: str(path) for form, path in wanted.items()}} if wanted else {}
        lines = {"ships": ships, "latency": latency, "next": advice, **written}
        print(json.dumps(lines, indent=1))
    elif not wanted or options.details:
        print_report(report, details=options.details)
    return 0


def _write(report: Report, wanted: dict[str, Path], options: argparse.Namespace, plan: str) -> None:
    try:
        report.check_is_full()
    except CollageError as error:
        raise CollageError(f"{options.file}: " + error.text) from error
    boxes = MOST_BOXES if options.boxes is None else options.boxes
    for form, path in wanted.items():
        with one_step("drawing", path.name, options.progress):
            write_form(report, form, path, plan=plan, function=options.function, boxes=boxes)
        _tell_of(path, options)


def _tell_of(path: Path, options: argparse.Namespace) -> None:
    if not options.json:
        print(f"wrote {path}")


def explain_decision(options: argparse.Namespace) -> int:
    with one_step("explaining", os.path.basename(options.decision), options.progress):
        report, plan = read_decision(options.decision)
        told = explain(
            report, options.plan or plan, node=options.node, op=options.op, backend=options.backend
        )
    is_long = options.node is not None or options.op is not None
    lines = explain_lines(told, is_long, options.all)
    print(json_text(told.once()) if options.json else "\n".join(lines))
    return 0
