# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file that needs no network.

The page is page.html with the style and the scripts that it names. They draw the report's JSON, the
places that arranged.py computes, and the texts and tables of page.py. The report is a text of its
own, which is saved as it is: numbers of scripts have 53 bits, ends of slices 63.
Test: report/html/test_page.py, and in a browser report/html/test_browser.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from importlib import resources
from typing import Any

from ...costs.cost import FLAGS
from ...files.kinds import PLACEMENT_FORMAT
from ...plans.placement.types import VERSION
from ..facts import MORE, head_lines
from ..looks import OTHER_PRECISION, PRECISION_COLOURS, report_looks
from ..record import Report
from .arranged import arrange
from .page import (
    environment,
    plan_rows,
    plans_note,
    precision_blocks,
    reason_blocks,
    search_blocks,
    tiles,
)

_MARK = re.compile(r"/\* (\w+\.(?:css|js)) \*/")
_NEXT = "Click a part of the graph to see what it would cost elsewhere, and why it is not there."


def to_html(report: Report, plan: str | None = None, function: str = "") -> str:
    """Return the page of a full report; a plan or a function that is named is drawn first."""
    ships, latency, advice = head_lines(report)
    data = {
        "head": [ships, latency, _NEXT if advice == MORE else advice],
        "looks": {name: dataclasses.asdict(look) for name, look in report_looks(report).items()},
        "precisions": {"": OTHER_PRECISION, **PRECISION_COLOURS},
        "flags": FLAGS,
        "tiles": tiles(report),
        "plans_note": plans_note(report),
        "plans": plan_rows(report),
        "precision": precision_blocks(report.precision),
        "search": search_blocks(report),
        "reasons": reason_blocks(report),
        "environment": environment(report),
        "functions": arrange(report, plan),
        "first": {"plan": plan, "function": function},
        "placement_format": {"format": PLACEMENT_FORMAT, "version": VERSION},
    }
    page = _MARK.sub(lambda mark: _asset(mark[1]), _asset("page.html"))
    # The last mark first: no name in what is put in is taken for a mark.
    page = page.replace("/* data */", _json(data), 1)
    return page.replace("/* report */", _json(report.to_json()), 1)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(data: dict[str, Any]) -> str:
    """Return JSON that may stand in a script: no text in it can end one."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=list)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
