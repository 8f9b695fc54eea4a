# SPDX-License-Identifier: Apache-2.0
"""Candidates that TVM compiles are tuned before they are measured, where the options say so.

Test: tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm.target import Target

from ..measure.runner import Runner
from ..options import CollageOptions
from ..rpc import DeviceRunner
from ..tuning import TuningRecords, records_in_force
from ..tuning.from_options import shipped_of, tuning_run
from ..tuning.resources import DeviceTrials
from .row import Row, build_options, written_down
from .session import Session, default_workers, own_backend_modules


@contextlib.contextmanager
def tuning(
    session: Session,
    options: CollageOptions,
    mod: tvm.IRModule,
    target: Target,
    external_targets: Sequence[Target],
) -> Iterator[Session]:
    """Yield the session with the run of a tuner that the options ask for, which tunes TVM's
    candidates of `mod` before they are measured in the block, and where they are."""
    workers = options.workers or default_workers()
    imports = own_backend_modules(external_targets)
    shipped = shipped_of(options, mod, target, session.runner.is_here)
    device = _device_of(session.runner, options)
    with tuning_run(options, target, workers, imports, shipped=shipped, device=device) as run:
        yield dataclasses.replace(session, tuning_run=run)


def tune_rows(session: Session, rows: Sequence[Row]) -> None:
    """Let the session's run of a tuner, if it has one, tune the candidates that TVM compiles."""
    run = session.tuning_run
    if run is None:
        return
    keywords = build_options()
    candidates = []
    for row in rows:
        if row.external or row.build_target != str(run.target) or not run.may_tune(row.mod):
            continue
        given, _ = records_in_force(row.build_target)
        plain = written_down(row, keywords, lambda _, given=given: given)  # type: ignore[misc]
        if not isinstance(plain, str):
            candidates.append(
                (plain, functools.partial(_with_records, row=row, keywords=keywords, given=given))
            )
    session.runner.check(plain for plain, _ in candidates)
    run.tune(candidates, session.estimator.estimate)


def tune_whole(session: Session, mod: tvm.IRModule, target: Target) -> None:
    """Let the session's run of a tuner tune a whole module, as one candidate of TVM's."""
    tune_rows(session, [Row(mod, target, "whole module")])


def _device_of(runner: Runner, options: CollageOptions) -> DeviceTrials | None:
    """Return where trials run; None for here. DeviceError."""
    if not isinstance(runner, DeviceRunner) or not options.tunes():
        return None
    info = runner.info
    return DeviceTrials(
        runner.call_with_device, info.cpu, info.threads, info.num_threads, options.rpc_compiler
    )


def _with_records(
    records: TuningRecords, row: Row, keywords: dict[str, Any], given: TuningRecords
) -> Any:
    """Return the candidate of a row with more records than those in force."""
    return written_down(row, keywords, lambda _: type(records)([*given, *records]))
