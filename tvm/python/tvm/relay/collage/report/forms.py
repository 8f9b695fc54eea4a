# SPDX-License-Identifier: Apache-2.0
"""The forms that a full report is written in, by name, beside its JSON and the terminal's tables.

Docs: docs/report.md. Test: report/test_forms.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import CollageError, OptionError
from ..files.text import check_file_path, write_whole
from ..options.named import option
from .html import to_html
from .netron import to_netron
from .picture import MOST_BOXES, Picture, picture_of, to_pdf, to_svg
from .picture.parts import check_names
from .trace import to_trace

# What each form is. A plan that is None is what ships, a function that is "" the one with the most
# nodes.
FORMS: Mapping[str, str] = {
    "html": "a page for a browser, which needs no network",
    "svg": "a picture of the placed graph",
    "pdf": "the same as PDF; needs reportlab",
    "trace": "its parts on a time line, for chrome://tracing or Perfetto",
    "netron": "the placed graph as ONNX, for Netron to show",
}
_WRITERS: Mapping[str, Callable[[dict[str, Any], str | None, str], str | bytes]] = {
    "html": to_html,
    "trace": lambda report, plan, function: json.dumps(to_trace(report, plan, function)),
    "netron": to_netron,
}
PICTURES: Mapping[str, Callable[[Picture], str | bytes]] = {"svg": to_svg, "pdf": to_pdf}


def write_form(
    report: dict[str, Any],
    form: str,
    path: str | os.PathLike,
    plan: str | None = None,
    function: str = "",
    boxes: int = MOST_BOXES,
) -> None:
    """Write a full report in one of FORMS, at once or not at all; `boxes` is for pictures alone.
    UnknownPlanError; OptionError for a function that it has not, a negative number of boxes, or a
    path that cannot be written; CollageError for what cannot be drawn; OSError."""
    check_file_path(os.fspath(path), f"the {form} file")
    check_names(report, plan, function)
    if boxes < 0:
        raise OptionError(f"boxes must be 0 or more, not {boxes}; with 0 each part has its own")
    if form in PICTURES:
        contents = PICTURES[form](picture_of(report, plan, function, boxes))
    else:
        contents = _WRITERS[form](report, plan, function)
    write_whole(os.fspath(path), contents)


def write_picture(
    report: dict[str, Any], path: str | os.PathLike, plan: str | None, boxes: int
) -> None:
    """Write SVG or PDF, as the file's ending says. OptionError for another ending."""
    form = Path(path).suffix.lower()[1:]
    if form not in PICTURES:
        endings = " or ".join(f".{each}" for each in PICTURES)
        raise OptionError(f"a picture's file ends in {endings}, not {str(path)!r}")
    write_form(report, form, path, plan, boxes=boxes)


def check_is_full(report: dict[str, Any]) -> None:
    """CollageError for a report of before graphs were in it."""
    if "placements" not in report or any("graph" not in row for row in report["functions"]):
        raise CollageError(
            "it was written by an older version and has no graph to draw; build again with "
            + option("report", "the option report")
        )


def check_has_ratios(report: dict[str, Any], file: str | os.PathLike) -> None:
    """CollageError for a report of before plans had a ratio to the one that ships, which every
    form tells of."""
    if any("ratio_to_chosen" not in row for row in report["plans"]):
        raise CollageError(
            f"{os.fspath(file)} was written by an older version of tvm-collage (its plans lack "
            "ratio_to_chosen): compile again"
        )
