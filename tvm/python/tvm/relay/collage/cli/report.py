# SPDX-License-Identifier: Apache-2.0
"""`collage report`: a report that a build wrote (the option `report`), for people: in the terminal
or as files of other forms.

Docs: docs/report.md. Test: cli/test_report.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import CollageError, OptionError
from ..files.text import check_file_path
from ..messages.progress import one_step
from ..report import (
    FORMS,
    MOST_BOXES,
    PICTURES,
    Report,
    head_lines,
    print_report,
    write_form,
)
from .decisions import READS, check_decision_path, placement_in, read_decision, write_decision
from .parser import Commands, add_progress


def add_parser(commands: Commands) -> None:
    help = "show what ships and how fast it is, as text, page or picture"
    parser = commands.add_parser("report", help=help, description=help)
    file = "a library, a report or a placement"
    parser.add_argument("file", type=Path, metavar="FILE", help=file)
    parser.add_argument(
        "--details", action="store_true", help="print all plans, parts, failures and reasons"
    )
    for form, meaning in FORMS.items():
        parser.add_argument(f"--{form}", metavar="OUT", type=Path, help=f"write {meaning}")
    parser.add_argument(
        "--save-placement", metavar="OUT", type=Path, help="write the plan's placement, for replay"
    )
    parser.add_argument("--plan", help="write this plan, not what ships; any that was seen")
    parser.add_argument("--function", default="", help="draw this function, not the largest")
    boxes = f"most boxes of parts in a picture ({MOST_BOXES}), which neighbours share; 0: one each"
    parser.add_argument("--boxes", type=int, metavar="N", help=boxes)
    add_progress(parser)
    parser.add_argument("--json", action="store_true", help="print the three lines as JSON")
    parser.reads = READS
    parser.set_defaults(run=lambda options: _run(parser, options))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    wanted = {form: getattr(options, form) for form in FORMS if getattr(options, form)}
    placement = options.save_placement
    if (options.function or (options.plan and not placement)) and not wanted:
        names = ", ".join(f"--{form}" for form in FORMS)
        parser.error(
            f"--plan and --function say what to draw: name a file by one of {names}; or a "
            "plan's placement by --save-placement"
        )
    if options.boxes is not None and not wanted.keys() & PICTURES.keys():
        names = " or ".join(f"--{form}" for form in PICTURES)
        parser.error(f"--boxes says how many boxes a picture has: name a file by {names}")
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
        _write(report, wanted, options, plan)
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
            write_form(report, form, path, plan, function=options.function, boxes=boxes)
        _tell_of(path, options)


def _tell_of(path: Path, options: argparse.Namespace) -> None:
    if not options.json:
        print(f"wrote {path}")
