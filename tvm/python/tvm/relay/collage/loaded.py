# SPDX-License-Identifier: Apache-2.0
"""A library's file with what was decided for it: `collage.load`. Docs: docs/report.md. Test:
test_loaded.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

from tvm_collage.runner import Runner, load_module, load_runner

from .backends import declared_colours
from .compile.built import vm_runner_of
from .compile.executors import VM
from .errors import FileError, PlacementError
from .files.attached import attached_report, is_library, no_report
from .files.kinds import kind_of
from .files.records import RecordError, read
from .files.text import why_no_file
from .plans.placement import SeenPlans
from .report import Report, ToldDecision, notebook_html, read_report

_SHOULD_BE = "name what `collage compile` or `tvmc compile` wrote"


@dataclasses.dataclass(frozen=True)
class Library(ToldDecision):
    """path: the file. report: what was decided, as Result.to_json() gave it; None for a library
    that carries none, which `export_library` writes."""

    path: str
    report: dict[str, Any] | None = dataclasses.field(repr=False)

    def runner(self) -> Runner:
        """The model as a fast function of arrays by name (docs/deploy.md). FileError for a file
        that is no library here, ModuleError for a VM's function that takes other than
        tensors of fixed shapes."""
        try:
            if self.report and self.report["executor"] == VM:
                return vm_runner_of(load_module(self.path), self.report["tensors"])
            return load_runner(self.path)
        except ValueError as error:
            raise FileError(str(error)) from None

    @functools.cached_property
    def placements(self) -> SeenPlans:
        """Return the placement of every plan that was seen. PlacementError for a library without
        its report."""
        return read_placements(self._whole_report()["placements"])

    def save_placement(self, path: str | os.PathLike, plan: str | None = None) -> None:
        """Write the placement of what ships, or of another plan that was seen, to a file."""
        self.placements.placement(plan or self._whole_report()["plan"]).save(path)

    def _repr_html_(self) -> str | None:
        """Return the three lines and the picture for a notebook; none without a report."""
        return notebook_html(self._told()) if self.report else None

    def _whole_report(self) -> dict[str, Any]:
        if self.report is None:
            raise PlacementError(no_report(self.path), "file")
        return self.report

    def _told(self, is_full: bool = True) -> Report:
        """To be told of, for which placements alone, of an older version too, are too little."""
        return read_report(self._whole_report(), self.path, declared_colours())


def load(path: str | os.PathLike) -> Library:
    """Load a library that `collage compile` or Result.save_library wrote, or a package of `tvmc
    compile --collage`. FileError where there is none, or its report is damaged."""
    path = os.fspath(path)
    if reason := why_no_file(path):
        raise FileError(f"library {path!r} cannot be read: {reason}; {_SHOULD_BE}")
    try:
        report = attached_report(path)
        if report is None and not is_library(path):
            raise FileError(f"{path!r} is no library: it seems to be {kind_of(path)}; {_SHOULD_BE}")
        return Library(path, report)
    except FileError:
        raise
    except (OSError, ValueError) as error:
        reason = str((isinstance(error, OSError) and error.strerror) or error)
        raise FileError(f"library {path!r} cannot be read: {reason}; {_SHOULD_BE}") from None


def read_placements(value: object) -> SeenPlans:
    """Read the placements of a report. PlacementError for what holds none."""
    try:
        return read(SeenPlans, value)
    except RecordError as error:
        raise PlacementError(f"the report's placements: {error}", "file") from None
