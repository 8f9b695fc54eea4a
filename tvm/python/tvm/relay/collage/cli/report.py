# SPDX-License-Identifier: Apache-2.0
"""`collage report`: a report that a build wrote (the option `report`), for people.

Docs: docs/tools.md. Test: cli/test_report.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..report import head_lines, print_report
from .decisions import read_report


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("report", help="what ships and how fast, of a report or a library")
    parser.add_argument("file", type=Path, help="what the option `report` wrote, or a library")
    parser.add_argument(
        "--details", action="store_true", help="print all plans, parts, failures and reasons"
    )
    parser.add_argument("--json", action="store_true", help="print the three lines as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    report = read_report(options.file)
    if options.json:
        ships, latency, advice = head_lines(report)
        print(json.dumps({"ships": ships, "latency": latency, "next": advice}, indent=1))
    else:
        print_report(report, details=options.details)
    return 0
