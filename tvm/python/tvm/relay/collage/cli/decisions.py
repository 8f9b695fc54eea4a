# SPDX-License-Identifier: Apache-2.0
"""Decisions in files, as commands take them: a report, a library or tvmc's package that carries its
report, or a placement with its report beside it. Test: cli/test_explain.py.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple

from ..backends import declared_colours
from ..errors import CollageError, PlacementError, UnknownPlanError
from ..files.attached import attached_report, is_library, no_report
from ..files.kinds import is_model, is_placement, is_report, kind_of
from ..files.text import check_file_path, json_text, parse_json, why_no_file, write_whole
from ..loaded import read_placements
from ..options.named import option
from ..plans.placement import Placement, SeenPlans, load_placement
from ..report import Report, read_report

_SHOULD_BE = (
    "name a library, report or placement that `collage compile` wrote, or the report that a build "
    "wrote by " + option("report", "the option report") + ", or tvmc by --collage-report"
)


class DecisionFile(NamedTuple):
    """A decision in a file."""

    report: Report
    plan: str  # what ships, or that of a placement


def side_file(placement: str | os.PathLike) -> str:
    """Return where the report of a placement's file lies."""
    return f"{os.fspath(placement)}.report"


def check_decision_path(path: str | os.PathLike) -> None:
    """Check that --save-placement can write its two files there. OptionError."""
    check_file_path(os.fspath(path), "--save-placement")
    check_file_path(side_file(path), "the report of --save-placement")


def write_decision(path: str | os.PathLike, placement: Placement, report: Report) -> None:
    """A placement, and its report beside it. PlacementError, OSError."""
    placement.save(path)
    write_whole(side_file(path), json_text(report.to_json()) + "\n")


def read_decision(path: str | os.PathLike) -> DecisionFile:
    """Read a decision from any of the three kinds of file. CollageError that says what the file is,
    or lacks."""
    path = os.fspath(path)
    value = _read(path)
    if not is_placement(value):
        report = read_report(value, path, declared_colours())
        return DecisionFile(report, report.plan)
    beside = side_file(path)
    if not os.path.exists(beside):
        raise CollageError(
            f"{path} is a placement, and its report {beside} is not there: `collage compile "
            "--save-placement` writes both, and they are copied together; or name the report or "
            "the library"
        )
    report = read_report(_read(beside), beside, declared_colours())
    return DecisionFile(report, str(value.get("plan")))


def placement_in(path: str | os.PathLike, plan: str | None = None) -> Placement:
    """Return a placement's own, or of a report or library that of a plan: what ships, or the one
    named. PlacementError."""
    path = os.fspath(path)
    value = _read(path)
    if is_placement(value):
        if plan not in (None, value.get("plan")):
            raise UnknownPlanError(
                f"{path} is the placement of plan {value.get('plan')!r} alone; --plan is for "
                "reports and libraries, which have several"
            )
        return load_placement(path)
    if "placements" not in value:
        raise PlacementError(
            f"the report {path} is of an older version and has no placements", "file"
        )
    return read_placements(value["placements"]).placement(plan or value["plan"])


def search_of(path: str | os.PathLike, placement: Placement) -> Report | None:
    """The report in or beside a decision, where it tells of the search that found just this
    placement; None where there is none."""
    path = os.fspath(path)
    try:
        value = _read(path)
        if is_placement(value):
            value = _read(side_file(path))
        report = read_report(value, path)
        report.check_is_full()
        found = (report.placements or SeenPlans()).placement(placement.plan)
    except CollageError:
        return None
    return report if report.functions and found.functions == placement.functions else None


def _read(path: str) -> dict[str, Any]:
    """Return a placement's or a report's JSON value, also of a library. CollageError."""
    if reason := why_no_file(path):
        raise CollageError(f"{path} cannot be read: {reason}; " + _SHOULD_BE)
    try:
        value = attached_report(path)
    except CollageError:
        raise
    except ValueError as error:
        raise CollageError(f"{error}; " + _SHOULD_BE) from None
    if value is None and is_library(path):
        raise CollageError(no_report(path))
    if value is None:
        with open(path, "rb") as file, contextlib.suppress(ValueError):
            value = parse_json(file.read())
    if isinstance(value, dict) and (is_placement(value) or is_report(value)):
        return value
    kind = kind_of(path)
    text = f"{path} seems to be {kind}, and a library, a report or a placement is needed: "
    raise CollageError(text + (_of_model(path) if is_model(path) else _SHOULD_BE))


def _of_model(path: str) -> str:
    """Return what to do first where a model was named."""
    return (
        f"compile it, `collage compile {path} -o LIB.so` with the same --shape if any, and name "
        "LIB.so"
    )
