# SPDX-License-Identifier: Apache-2.0
"""A search's tuning, as the options ask for it: logs to use, and a tuner with its workers and log.

Test: tuner/test_tuner.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from ..errors import BackendUnavailableError
from ..exec.pool import WorkerPool
from ..exec.process import WorkerOptions
from ..machine.environment import cpu_model, thread_text, tvm_build
from ..progress import steps
from ..tuning.logs import load_records
from ..tuning.records import TuningRecords, mode, records_in_force
from .standing_logs import logs_of
from .tuner import TuneOptions, Tuner

_logger = logging.getLogger(__name__)


def given_records(options: Any, target: Any) -> TuningRecords:
    """The records of the logs that the option `tuning_log`, else update_tuning_log, names.

    TuningLogError.
    """
    return load_records(logs_of(options), target)


@contextlib.contextmanager
def tuning_session(
    options: Any, target: Any, workers: int, imports: Sequence[str] = ()
) -> Iterator[Tuner | None]:
    """The tuner that the CollageOptions ask for while the block measures; None for none.

    Raises BackendUnavailableError when its cost model is not installed, and OSError when its log
    cannot be made.
    """
    if not options.tune:
        yield None
        return
    if options.tune_model == "xgb" and importlib.util.find_spec("xgboost") is None:
        raise BackendUnavailableError(
            f"tune={options.tune} searches by a cost model of xgboost, which is not installed: "
            "pip install 'tvm-collage[tune]', or set the option tune_model to random"
        )
    log = Path(options.tune_log).expanduser() if options.tune_log else default_log(options.tuner)
    log.parent.mkdir(parents=True, exist_ok=True)
    tune_options = TuneOptions(
        kind=options.tuner,
        trials=options.tune,
        log=log,
        seconds=options.tune_seconds,
        model=options.tune_model,
        seed=options.seed,
    )
    given, _ = records_in_force(target)
    pool = WorkerPool(workers, WorkerOptions(imports=tuple(imports)))
    progress = functools.partial(steps, "tuning", options.progress)
    tuner = Tuner(tune_options, target, pool, given, progress)
    try:
        # All candidates in one mode: a build has one.
        with contextlib.closing(pool), mode(options.tuner):
            yield tuner
    finally:
        _logger.info("tuning: %s", tuner.Summary())


def default_log(kind: str) -> Path:
    """The user's own log of a kind for this CPU, number of threads and TVM."""
    machine = "|".join((cpu_model(), thread_text(), tvm_build()))
    digest = hashlib.sha256(machine.encode()).hexdigest()[:12]
    folder = Path(platformdirs.user_cache_dir("tvm-collage", appauthor=False), "tuning")
    return folder / f"{kind}-{digest}.jsonl"
