# SPDX-License-Identifier: Apache-2.0
"""`collage report`: a report that a build wrote (the option `report`), for people.

Docs: docs/tools.md. Test: cli/test_report.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..errors import CollageError
from ..files import parse_json
from ..report import head_lines, print_report

# What every report has; another file of JSON has none of it.
_FIELDS = {"plan", "plans", "placement", "functions", "guard_skipped", "costs"}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "report", help="what ships and how fast, of a report that a build wrote"
    )
    parser.add_argument("file", type=Path, help="what the option `report` wrote")
    parser.add_argument(
        "--details", action="store_true", help="print all plans, parts, failures and reasons"
    )
    parser.add_argument("--json", action="store_true", help="print the three lines as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    report = _read(options.file)
    if options.json:
        ships, latency, advice = head_lines(report)
        print(json.dumps({"ships": ships, "latency": latency, "next": advice}, indent=1))
    else:
        print_report(report, details=options.details)
    return 0


def _read(path: Path) -> dict[str, Any]:
    """CollageError for what is no report."""
    try:
        report = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CollageError(f"{path} is no report: {error}; {_SHOULD_BE}") from error
    if not isinstance(report, dict) or not report.keys() >= _FIELDS:
        raise CollageError(f"{path} is no report; {_SHOULD_BE}")
    return report


_SHOULD_BE = "name what a build with the option report, or tvmc --collage-report, wrote"
