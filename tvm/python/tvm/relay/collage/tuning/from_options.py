# SPDX-License-Identifier: Apache-2.0
"""A search's tuning, as the options ask for it: logs to use, those of every build of this process
where they name none, and a run of a tuner with its workers and log.

Tests: tuning/test_run.py, tuning/test_standing_logs.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import logging
import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import platformdirs
import tvm

from ..backends import find_backend
from ..errors import BackendUnavailableError, OptionError, UnknownBackendError
from ..exec.pool import WorkerPool
from ..exec.process import WorkerOptions
from ..files.text import make_folder
from ..machine.environment import cpu_model, thread_text, tvm_build
from ..messages.progress import steps
from ..options import TuningOptions
from ..options.named import option
from .ansor import NAME as ANSOR
from .ansor_kernel import AnsorKernel
from .log import load_records, read_log
from .records import TuningRecords, mode, records_in_force
from .resources import DeviceTrials
from .run import RunOptions, TuningRun
from .transfer.shipped import log_named, may_serve, shipped_kernels, shipped_lines
from .transfer.sources import sources_of
from .tuner import Line, SearchOptions

Target: TypeAlias = str | tvm.target.Target
_logger = logging.getLogger(__name__)


def given_records(options: TuningOptions, target: Target) -> TuningRecords:
    """Return the records of logs that tuning_log, else update_tuning_log, names. TuningLogError."""
    return load_records(logs_of(options), target)


@dataclasses.dataclass(frozen=True)
class Shipped:
    """Trials that come with the package, and the kernels that they were made for."""

    lines: Sequence[Line] = ()
    kernels: Sequence[AnsorKernel] = ()

    def may_serve(self, mod: tvm.IRModule, judged: Container[str]) -> bool:
        """Tell whether a typed module may have a kernel that is not among these workloads."""
        return may_serve(mod, [each for each in self.kernels if each.workload not in judged])


def shipped_of(
    options: TuningOptions, mod: tvm.IRModule, target: Target, is_here: bool = True
) -> Shipped:
    """Return those that may serve a module, as the options allow.

    None beside records of the user's own, beside a tuner of other records, since a build is in one
    mode, and where candidates are measured on devices: the log says so."""
    if not options.shipped:
        return Shipped()
    reason = _why_none_shipped(options, target, is_here)
    if reason:
        _logger.info("the schedules of this package are not used: %s", reason)
        return Shipped()
    host = tvm.target.Target(target)
    kernels = shipped_kernels(host)
    if not may_serve(mod, kernels):
        return Shipped()
    return Shipped(shipped_lines(host), kernels)


def _why_none_shipped(options: TuningOptions, target: Target, is_here: bool) -> str:
    """Return why this build gets none whatever its module is; "" where it may."""
    if logs_of(options) or records_in_force(target)[0]:
        return "there are tuning records of your own"
    if options.tries() and _tuner(options) != ANSOR:
        return f"they are of {ANSOR}, and the option tuner is {options.tuner}"
    return "" if is_here else "candidates are measured on devices"


@contextlib.contextmanager
def tuning_run(
    options: TuningOptions,
    target: Target,
    workers: int,
    imports: Sequence[str] = (),
    shipped: Shipped = Shipped(),
    device: DeviceTrials | None = None,
) -> Iterator[TuningRun | None]:
    """Give the run that the options ask for while the block measures; None for none. With
    `shipped` it judges these where nothing else is asked for. `device`: where kernels run, if not
    here.

    BackendUnavailableError when its cost model is not installed, TuningLogError for a
    `transfer_log` that is none, OptionError where that goes with another tuner than Ansor, and
    OSError when the tuner's log cannot be made.
    """
    if not options.tries() and not shipped.lines:
        yield None
        return
    tuner = _tuner(options)
    if options.trials and tuner != options.tuner:
        what = f"transfer_log has schedules of Ansor, and tune={options.trials} searches with "
        the_option = option("tuner", "the option tuner")
        advice = " to ansor, or leave one of the two out"
        raise OptionError(f"{what}{options.tuner}: set " + the_option + advice)
    if options.trials:
        otherwise = "set " + option("tune_model", "the option tune_model") + " to random"
        check_cost_model(options.model, f"tune={options.trials}", otherwise)
    # Where only shipped ones are judged nothing is written.
    log = Path(os.devnull)
    if options.tries():
        named = options.log
        log = Path(named).expanduser() if named else default_log(tuner, device)
        make_folder(log.parent, option("tune_log", "the option tune_log"))
    host = tvm.target.Target(target)
    run_options = RunOptions(
        SearchOptions(
            tuner=tuner,
            trials=options.trials,
            log=str(log),
            model=options.model,
            seed=options.seed,
            patience=options.patience,
        ),
        seconds=options.seconds,
        sources=sources_of([log_named(name, host) for name in options.transfer_logs]),
        known=shipped.lines,
        given=records_in_force(target)[0],
        serves=lambda mod, judged: options.tries() or shipped.may_serve(mod, judged),
        progress=functools.partial(steps, "tuning", options.progress),
    )
    pool = WorkerPool(workers, WorkerOptions(imports=tuple(imports)))
    run = TuningRun(run_options, target, pool, device=device)
    try:
        # All candidates in one mode: a build has one. Where only shipped records are judged it is
        # the user's own until one of them is used, and the guard has the last word.
        with contextlib.closing(pool), mode(tuner) if options.tries() else contextlib.nullcontext():
            yield run
    finally:
        _logger.info("tuning: %s", run.Summary())


def _tuner(options: TuningOptions) -> str:
    """Return whose records are looked for."""
    return ANSOR if options.transfer_logs or not options.tries() else options.tuner


def check_cost_model(model: str, what: str, otherwise: str) -> None:
    """Raise BackendUnavailableError, which says what else to do, for what is not installed."""
    if model == "xgb" and importlib.util.find_spec("xgboost") is None:
        raise BackendUnavailableError(
            f"{what} searches by a cost model of xgboost, which is not installed: "
            "pip install 'tvm-collage[tune]', or " + otherwise
        )


def default_log(tuner: str, device: DeviceTrials | None = None) -> Path:
    """Return the user's log of a tuner for the CPU and threads, there or here, and this TVM."""
    runs_on = (device.cpu, device.threads) if device else (cpu_model(), thread_text())
    machine = "|".join((*runs_on, tvm_build()))
    digest = hashlib.sha256(machine.encode()).hexdigest()[:12]
    folder = Path(platformdirs.user_cache_dir("tvm-collage", appauthor=False), "tuning")
    return folder / f"{tuner}-{digest}.jsonl"


# Who has TVM's kernels, in reports and here.
_TVM = "tvm"
_logs: list[str] = []


def update_tuning_log(
    backend_name: str, logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
) -> None:
    """Have the backend's kernels use these logs from now on, in place of those named before.

    ``backend_name`` is "tvm"; ``logs`` is a path or several (docs/tuning.md), none for none. A
    build whose option ``tuning_log`` names logs uses these instead. TuningLogError for what is no
    log, UnknownBackendError or OptionError for a backend that has none; then nothing changes.
    """
    if backend_name != _TVM and find_backend(backend_name) is None:
        raise UnknownBackendError(
            f"unknown backend {backend_name!r}: 'tvm' is the one with tuning logs"
        )
    if backend_name != _TVM:
        raise OptionError(
            f"backend {backend_name!r} has no tuning log, 'tvm' has: a codegen of your own gets "
            'its log as an option of its target, options = {"log": ""} and '
            f'Target("{backend_name} -log=FILE")'
        )
    paths = [logs] if isinstance(logs, (str, os.PathLike)) else logs
    if not isinstance(paths, Sequence) or not all(isinstance(p, (str, os.PathLike)) for p in paths):
        raise TypeError(f"update_tuning_log takes a path or a list of paths, got {logs!r:.60}")
    for path in paths:
        read_log(path)
    _logs[:] = [os.path.abspath(path) for path in paths]


def logs_of(options: TuningOptions) -> list[str]:
    """Return the logs that a build with these options uses."""
    return options.logs or list(_logs)
