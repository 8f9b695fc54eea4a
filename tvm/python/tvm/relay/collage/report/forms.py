# SPDX-License-Identifier: Apache-2.0
"""The forms that a full report is written in, by name, beside its JSON and the terminal's tables;
its form in a notebook; the search of whole plans as a picture.

Docs: docs/report.md. Test: report/test_forms.py, report/test_notebook.py, report/test_history.py.
"""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tvm_collage.words import MOST_BOXES

from ..errors import CollageError, OptionError
from ..files.text import check_file_path, write_whole
from .boxes import check_names
from .facts import doubt, head_lines
from .html import to_html
from .netron import to_netron
from .picture import Picture, to_pdf, to_svg
from .record import PlanSearch, Report
from .tables import print_report
from .trace import to_trace

# A plan that is None is what ships, a function that is "" the one with the most nodes.
_WRITERS: Mapping[str, Callable[[Report, str | None, str], str | bytes]] = {
    "html": to_html,
    "trace": lambda report, plan, function: json.dumps(to_trace(report, plan, function)),
    "netron": to_netron,
}
PICTURES: Mapping[str, Callable[[Picture], str | bytes]] = {"svg": to_svg, "pdf": to_pdf}


def write_form(
    report: Report,
    form: str,
    path: str | os.PathLike,
    plan: str | None = None,
    *,
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
        contents = PICTURES[form](Picture(report, plan, name=function, boxes=boxes))
    else:
        contents = _WRITERS[form](report, plan, function)
    write_whole(os.fspath(path), contents)


class ToldDecision:
    """A decision with its report: told in a terminal, as a page, as a picture."""

    def _told(self, is_full: bool = True) -> Report:
        """Return the report; unless it is full, graphs and placements may be missing."""
        raise NotImplementedError

    def show(self, details: bool = False) -> None:
        """Print three lines: what ships, how fast it is, what to do next; with ``details`` tables
        of the plans, the parts, what failed and why too."""
        print_report(self._told(is_full=False), details=details)

    def save_html(self, path: str | os.PathLike) -> None:
        """Write the report as one page for a browser, which needs no network (docs/report.md)."""
        write_form(self._told(), "html", path)

    def save_picture(
        self, path: str | os.PathLike, plan: str | None = None, boxes: int = MOST_BOXES
    ) -> None:
        """Draw the placed graph of what ships, or of another plan that was seen, as `.svg` or
        `.pdf`. Parts that run one after the other and take little time share a box, so that there
        are at most so many; `boxes=0` draws each part alone. OptionError for another ending; PDF
        needs reportlab."""
        report, form = self._told(), Path(path).suffix.lower()[1:]
        if form not in PICTURES:
            endings = " or ".join(f".{each}" for each in PICTURES)
            raise OptionError(f"a picture's file ends in {endings}, not {str(path)!r}")
        write_form(report, form, path, plan=plan, boxes=boxes)


# --- in a notebook -------------------------------------------------------------------------------

_HEIGHT = 600  # pixels that are seen at once
_PAGE = (
    'save_html("report.html") writes the page, which tells of each part what it would cost '
    "elsewhere; show(details=True) prints tables."
)


def notebook_html(report: Report) -> str:
    """Return the output of a notebook's cell: the three lines and the picture of what ships, as
    HTML without scripts, of at most 150 kB: the picture of a large net is folded.

    The page is not in it: it would add a megabyte to the notebook's file for each cell, and scripts
    do not run where others look at the notebook. The picture is an image of its own, so that
    neither its names nor its styles meet the notebook's."""
    try:
        picture = Picture(report)
        shown = _image(to_svg(picture).encode(), picture.title)
    except CollageError as error:  # nothing was searched
        shown = _paragraph([f"{error}."])
    ships, latency, _ = head_lines(report)
    lines = filter(None, [ships, latency, doubt(report), _PAGE])
    return f"<div>{_paragraph(lines)}{shown}</div>"


def _paragraph(texts: Iterable[str]) -> str:
    return f"<p>{'<br>'.join(map(html.escape, texts))}</p>"


def _image(svg: bytes, title: str) -> str:
    data = base64.b64encode(svg).decode()
    return (
        f'<div style="max-height: {_HEIGHT}px; overflow: auto">'
        f'<img alt="{html.escape(title)}" style="max-width: none" '
        f'src="data:image/svg+xml;base64,{data}"></div>'
    )


# --- the search of whole plans -------------------------------------------------------------------

_SIZE = (8.0, 4.5)  # inches


def plot_history(search: PlanSearch, path: str | os.PathLike) -> None:
    """Draw what a search of whole plans tried, and the best so far, by trial and by seconds, to a
    file whose ending names the format. ImportError that says what to do without matplotlib."""
    trials = search.trials
    figure = make_figure("plot_history")
    by_trial, by_seconds = figure.subplots(1, 2, sharey=True)
    numbers = range(1, len(trials) + 1)
    for axes, places, label in (
        (by_trial, list(numbers), "trial"),
        (by_seconds, [row.after_seconds for row in trials], "seconds"),
    ):
        ran = [(x, row.seconds) for x, row in zip(places, trials, strict=True) if row.seconds]
        axes.plot(*_milliseconds(ran), ".", label="plan")
        best = [
            (x, row.best_seconds)
            for x, row in zip(places, trials, strict=True)
            if row.best_seconds is not None
        ]
        axes.step(*_milliseconds(best), where="post", label="best so far")
        if search.op_level_seconds is not None:
            axes.axhline(1e3 * search.op_level_seconds, ls=":", color="gray", label="op-level plan")
        axes.set_xlabel(label)
    by_trial.set_ylabel("latency, ms")
    by_trial.legend()
    figure.suptitle(f"Whole plans, strategy {search.strategy}")
    figure.savefig(os.fspath(path))


def make_figure(what: str) -> Any:
    """Return an empty picture of matplotlib's. ImportError that says what `what` needs without
    matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(f"{what} needs matplotlib: pip install matplotlib") from None
    return Figure(_SIZE, layout="constrained")


def _milliseconds(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [1e3 * seconds for _, seconds in points]
