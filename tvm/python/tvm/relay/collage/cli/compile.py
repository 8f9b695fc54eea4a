# SPDX-License-Identifier: Apache-2.0
"""`collage compile`, `search`, `replay`: a model to a library, to a decision alone, or to a library
by a decision that was made before.

Docs: docs/tools.md. Test: cli/test_compile.py.
"""

from __future__ import annotations

import argparse
import json
import os

from ..errors import OptionError
from ..files.text import check_file_path, write_report
from ..messages.progress import one_step
from ..plans.placement import Placement
from ..report import Report, agreement_line, doubt, explained_mark, head_lines
from ..report.precision import precision_lines
from ..result import Result
from .building import optimized, options_of
from .decisions import check_decision_path, placement_in, search_of, write_decision


def compile_model(options: argparse.Namespace) -> int:
    check_file_path(options.output, "--output")
    return _decide(options, options.output)


def search_model(options: argparse.Namespace) -> int:
    return _decide(options, "")


def _decide(options: argparse.Namespace, library: str) -> int:
    placement = options.save_placement
    if placement:
        check_decision_path(placement)
    if options.save_model:
        check_file_path(options.save_model, "--save-model")
        if not options.collage_calibration:
            raise OptionError(
                "--save-model writes the model with the precisions that --calibration chose: give "
                "--calibration"
            )
    result = optimized(options)
    written = {"report": _report_path(options)}
    if library:
        result.build()  # which is told of by itself
    file = library or placement or options.save_model or "the report"
    with one_step("writing", os.path.basename(file), options_of(options).progress):
        report = result.record
        if library:
            result.save_library(library)
            written["library"] = library
        if placement:
            write_decision(placement, result.placement, report)
            written["placement"] = placement
        if options.save_model:
            result.save_model(options.save_model)
            written["model"] = options.save_model
    _tell(options, report, written)
    return 0


def replay_model(options: argparse.Namespace) -> int:
    check_file_path(options.output, "--output")
    # Before the model is imported, which may last.
    with one_step("reading", os.path.basename(options.decision), options_of(options).progress):
        placement: Placement = placement_in(options.decision, options.plan)
    result: Result = optimized(options, placement)
    result = result.told_by(search_of(options.decision, placement), options.decision)
    result.build()
    with one_step("writing", os.path.basename(options.output), options_of(options).progress):
        write_report(result, _report_path(options) or "")
        result.save_library(options.output)
    written = {"report": _report_path(options), "library": options.output}
    _tell(options, result.record, written)
    return 0


def _report_path(options: argparse.Namespace) -> str | None:
    """Return the file of the option `report`, which the build has written."""
    return getattr(options, "collage_report", None)


def _tell(options: argparse.Namespace, report: Report, written: dict[str, str | None]) -> None:
    files = {what: path for what, path in written.items() if path}
    ships, latency, advice = head_lines(report)
    if options.json:
        lines: dict[str, object] = {"plan": report.plan, "ships": ships}
        lines |= {"latency": latency, "next": advice}
        if report.precision:
            lines["precision"] = precision_lines(report.precision)
        original = report.original and vars(report.original)
        print(json.dumps({**lines, "original": original, "files": files}, indent=1))
        return
    wrote = [f"Wrote the {what}: {path}" for what, path in files.items()]
    precision = precision_lines(report.precision)
    print("\n".join(filter(None, [ships, latency, *precision, agreement_line(report), *wrote])))
    if library := files.get("library"):
        # Without a search, and a report of one, there is nothing to explain.
        why = f"why: collage explain {library}" if report.functions else ""
        steps = [f"collage run {library} --time", why, explained_mark(report)]
        print(f"Next: {'; '.join(filter(None, steps))}")
    elif advice != doubt(report):  # of which the search has warned
        print(advice)
