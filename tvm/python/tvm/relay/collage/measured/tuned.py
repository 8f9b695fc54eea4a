# SPDX-License-Identifier: Apache-2.0
"""Candidates that TVM compiles are tuned before they are measured, where the options say so.

Test: test_tuning_search.py.
"""

import contextlib
import functools

from ..tuner.session import active_tuner, tuning_session
from .as_built import build_options, tuning_records_in_force
from .from_options import default_workers, own_backend_modules
from .row import Row, written_down
from .session import measuring_session


@contextlib.contextmanager
def tuning(options, target, external_targets, runner):
    """TVM's candidates that are measured in the block are tuned first, as the options say.

    ValueError where they run on another machine.
    """
    if options.tune and not runner.is_here:
        raise ValueError(
            f"tune={options.tune} searches on this machine, but candidates run on devices: tune "
            "there with TVM's own tools and name the log by the option tuning_log"
        )

    workers = options.workers or default_workers()
    imports = own_backend_modules(external_targets)
    with tuning_session(options, target, workers, imports) as tuner:
        yield tuner


def tune_rows(rows, estimator):
    """Let the search's tuner, if it has one, tune the candidates that TVM compiles."""
    tuner = active_tuner()
    if tuner is None:
        return
    keywords = build_options()
    candidates = []
    for row in rows:
        if row.external or row.build_target != str(tuner.target):
            continue
        given, _ = tuning_records_in_force(row.build_target)
        plain = written_down(row, keywords, lambda _, given=given: given)
        if not isinstance(plain, str):
            candidates.append(
                (plain, functools.partial(_with_records, row=row, keywords=keywords, given=given))
            )
    tuner.tune(candidates, estimator.estimate)


def tune_whole(mod, target):
    """Let the search's tuner tune a whole module, as one candidate of TVM's."""
    with measuring_session() as estimator:
        tune_rows([Row(mod, target, "whole module")], estimator)


def _with_records(records, row, keywords, given):
    """The candidate of a row with more records than those in force."""
    return written_down(row, keywords, lambda _: type(records)([*given, *records]))
