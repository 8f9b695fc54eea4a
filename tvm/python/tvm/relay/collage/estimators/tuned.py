# SPDX-License-Identifier: Apache-2.0
"""Candidates that TVM compiles are tuned before they are measured, where the options say so.

Test: tuning/test_search.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm.target import Target

from ..options import TuningOptions
from ..rpc import DeviceRunner
from ..tuning import TuningRecords, records_in_force
from ..tuning.from_options import shipped_of, tuning_run
from ..tuning.resources import DeviceTrials
from .row import Row, build_options, written_down
from .session import Session, default_workers, own_backend_modules


@contextlib.contextmanager
def tuning(
    session: Session,
    options: TuningOptions,
    mod: tvm.IRModule,
    target: Target,
    external_targets: Sequence[Target],
) -> Iterator[Session]:
    """Yield the session with the run of a tuner that the options ask for, which tunes TVM's
    candidates of `mod` before they are measured in the block, and where they are."""
    workers = session.options.measuring.workers or default_workers()
    imports = own_backend_modules(external_targets)
    shipped = shipped_of(options, mod, target, is_here=session.runner.is_here)
    device = _device_of(session) if options.tries() else None
    with tuning_run(
        options, target, workers, imports=imports, shipped=shipped, device=device
    ) as run:
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
        written = functools.partial(_written, session, row, keywords)
        plain = written(given)
        if not isinstance(plain, str):
            candidates.append((plain, functools.partial(_with_records, written, given)))
    session.runner.check(plain for plain, _ in candidates)
    run.tune(candidates, session.estimator.estimate)


def tune_whole(session: Session, mod: tvm.IRModule, target: Target) -> None:
    """Let the session's run of a tuner tune a whole module, as one candidate of TVM's."""
    tune_rows(session, [Row(mod, target, "whole module")])


def _device_of(session: Session) -> DeviceTrials | None:
    """Return where trials run; None for here. DeviceError."""
    runner = session.runner
    if not isinstance(runner, DeviceRunner):
        return None
    info = runner.info
    return DeviceTrials(
        runner.call_with_device,
        info.cpu,
        info.threads,
        num_threads=info.num_threads,
        compiler=session.options.devices.compiler,
    )


def _written(session: Session, row: Row, keywords: dict[str, Any], records: TuningRecords) -> Any:
    return written_down(session, row, keywords, records_for=lambda _: records)


def _with_records(
    written: Callable[[TuningRecords], Any], given: TuningRecords, more: TuningRecords
) -> Any:
    """Return a candidate with more records than those in force."""
    return written(TuningRecords([*given, *more]))
