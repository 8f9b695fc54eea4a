# SPDX-License-Identifier: Apache-2.0
"""Candidates that TVM compiles are tuned before they are measured, where the options say so.

Test: tuner/test_search.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm.target import Target

from ..errors import OptionError
from ..named_options import option
from ..tuner.session import Shipped, shipped_of, tuning_session
from ..tuning import TuningRecords, records_in_force
from .row import Row, build_options, written_down
from .session import Session, default_workers, own_backend_modules


@contextlib.contextmanager
def tuning(
    session: Session,
    options: Any,
    mod: tvm.IRModule,
    target: Target,
    external_targets: Sequence[Target],
) -> Iterator[Session]:
    """The session with the tuner that the options ask for, which tunes TVM's candidates of `mod`
    before they are measured in the block.

    OptionError where they run on another machine.
    """
    if options.tunes() and not session.runner.is_here:
        name = "tune" if options.tune else "transfer_log"
        raise OptionError(
            f"{name} tries schedules on this machine, but candidates run on devices: tune there "
            "with TVM's own tools and name the log by "
            + option("tuning_log", "the option tuning_log")
        )

    workers = options.workers or default_workers()
    imports = own_backend_modules(external_targets)
    is_here = session.runner.is_here
    shipped = shipped_of(options, mod, target) if is_here else Shipped()
    with tuning_session(options, target, workers, imports, shipped) as tuner:
        yield dataclasses.replace(session, tuner=tuner)


def tune_rows(session: Session, rows: Sequence[Row]) -> None:
    """Let the session's tuner, if it has one, tune the candidates that TVM compiles."""
    tuner = session.tuner
    if tuner is None:
        return
    keywords = build_options()
    candidates = []
    for row in rows:
        if row.external or row.build_target != str(tuner.target) or not tuner.may_tune(row.mod):
            continue
        given, _ = records_in_force(row.build_target)
        plain = written_down(row, keywords, lambda _, given=given: given)  # type: ignore[misc]
        if not isinstance(plain, str):
            candidates.append(
                (plain, functools.partial(_with_records, row=row, keywords=keywords, given=given))
            )
    tuner.tune(candidates, session.estimator.estimate)


def tune_whole(session: Session, mod: tvm.IRModule, target: Target) -> None:
    """Let the session's tuner tune a whole module, as one candidate of TVM's."""
    tune_rows(session, [Row(mod, target, "whole module")])


def _with_records(
    records: TuningRecords, row: Row, keywords: dict[str, Any], given: TuningRecords
) -> Any:
    """The candidate of a row with more records than those in force."""
    return written_down(row, keywords, lambda _: type(records)([*given, *records]))
