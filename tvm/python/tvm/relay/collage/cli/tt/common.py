# SPDX-License-Identifier: Apache-2.0
"""Parts that the actions of `collage tt` share: arguments, open models, answers as text or JSON.
Test: cli/test_tt.py.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tvm_collage.cli.parser import line_of
from tvm_collage.supervisor import ended_by_interrupt

from ...backends.targets import host_named
from ...errors import CollageError, OptionError
from ...exec.pool import WorkerPool
from ...files.text import check_file_path
from ...importer.onnx_file import onnx_module
from ...machine.load import LoadMeter
from ...messages.progress import OnStep, one_step, steps
from ...tuning import TuningLogError
from ...tuning.ansor_kernel import AnsorKernel
from ...tuning.model import Model, count_untried, one_worker, open_model, transfer_to
from ...tuning.transfer.log import Source, read_ansor, read_given, tells_of_trials, trials_of
from ...tuning.transfer.shipped import log_named
from ...tuning.transfer.sources import scores, shares, sources_of
from ...tuning.transfer.transfer import Transfer, TransferOptions, Trial
from .. import tell

_logger = logging.getLogger(__name__)


def sources_named(options: argparse.Namespace) -> list[Path]:
    """Return the logs that --from names, which can be read. OptionError, TuningLogError."""
    target = host_named(options.target, "--target")
    logs = [Path(log_named(name, target)) for name in options.sources]
    for log in logs:  # what is none is told before minutes of work
        read_given(log)
    return logs


def check_is_of_transfer(log: Path) -> None:
    """Raise TuningLogError for a log that tells of no transfer. It may have no line of Ansor's:
    none of the schedules need have fitted."""
    read_ansor(log)
    if not trials_of(log):
        raise TuningLogError(
            f"{log} has no trials of a transfer: name what `collage tt transfer` wrote"
        )


def check_is_of_search(log: Path) -> None:
    """Raise TuningLogError for a log that is not of Ansor's own search alone: transferred schedules
    in it would be taken for what the search found."""
    read_given(log)
    if tells_of_trials(log):
        raise TuningLogError(
            f"{log} has trials of a transfer: name what `collage tt autoschedule` wrote"
        )


def check_is_no_source(written: Path, sources: Iterable[Path], error: str) -> None:
    """Raise OptionError where a command would write into a log that it reads: what was transferred
    from the log would count among what was found for its model."""
    if written.resolve() in [source.resolve() for source in sources]:
        raise OptionError(error)


def check_own_log(options: argparse.Namespace) -> None:
    """Raise TuningLogError for a --log that is no log, and OptionError where there cannot be one.
    It need not be there yet, and may have the trials of another tuner."""
    check_file_path(str(options.log), "--log", is_appended=True)
    if options.log.exists():
        read_ansor(options.log)


def scores_of(kernels: Sequence[AnsorKernel], logs: Sequence[Path]) -> dict[str, float]:
    """Return what each log promises to a model with these kernels, the best first. CollageError
    where no log has a schedule of any of its classes."""
    sources = {str(path): sources_of([path]) for path in logs}
    check_some_fit(kernels, itertools.chain(*sources.values()), logs)
    models = {path: [source.kernel for source in found] for path, found in sources.items()}
    return scores(shares(kernels, {}), models)


def check_some_fit(
    kernels: Sequence[AnsorKernel], sources: Iterable[Source], logs: Sequence[Path]
) -> None:
    """Raise CollageError where none of the schedules, which are those of the logs, is of a class of
    the kernels."""
    classes = {source.kernel.kind for source in sources}
    if not any(kernel.kind in classes for kernel in kernels):
        raise CollageError(
            f"no schedule in {', '.join(map(str, logs))} is of a class of the model's kernels: "
            "name logs of models that are more like it (collage tt info tells the classes)"
        )


def open_net(path: Path, options: argparse.Namespace, workers: WorkerPool) -> Model:
    target = host_named(options.target, "--target")
    with one_step("finding kernels", path.name, options.progress):
        with ended_by_interrupt(line_of("interrupted", options)):
            mod = onnx_module(path, dict(options.shape))
        return open_model(mod, target, path.name, workers=workers)


def kernels_of_model(path: Path, options: argparse.Namespace) -> list[AnsorKernel]:
    with one_worker() as workers:
        return list(open_net(path, options, workers).kernels)


def wanted_kernels(model: Model, without: Sequence[str]) -> Model:
    """Return the model without the kernels whose names have one of the words. OptionError where
    these are all that it has."""
    kernels = [
        kernel for kernel in model.kernels if not any(word in kernel.name for word in without)
    ]
    if model.kernels and not kernels:
        raise OptionError(
            f"--without {' --without '.join(without)} leaves none of the {len(model.kernels)} "
            f"kernels of {model.candidate.label}: give fewer words, or longer ones"
        )
    return dataclasses.replace(model, kernels=kernels)


@contextlib.contextmanager
def making_trials(workers: WorkerPool, progress: str) -> Iterator[OnStep]:
    """Give the block that makes trials what tells of each kernel as it begins. At the end a warning
    says so where other programs took the CPUs meanwhile, other than while it waited for them."""
    meter, loads = LoadMeter(lambda: workers.pids), list[float]()
    meter.begin()
    try:
        with steps("tuning", progress) as on_step:

            def on_kernel(step: str, done: int, total: int, is_waiting: bool = False) -> None:
                loads.append(meter.load())
                if is_waiting:  # it tells so again and again
                    meter.begin()
                on_step(step, done, total, is_waiting=is_waiting)

            yield on_kernel
    finally:
        busiest = max([*loads, meter.load()])
        if busiest:
            _logger.warning(
                "the machine was busy: others took up to %.0f %% of the CPUs while trials were "
                "made; what they slowed is not tried again in this log: begin a new one when "
                "`collage doctor` finds the machine quiet",
                100 * busiest,
            )


def transferred(
    model: Model,
    sources: Sequence[Source],
    log: Path,
    *,
    options: argparse.Namespace,
    workers: WorkerPool,
) -> tuple[dict[str, list[Trial]], int]:
    """Transfer the sources to a model, whose trials `log` keeps; return the trials by workload, and
    how many schedules time left untried."""
    how = TransferOptions(most=options.schedules)
    transfer = Transfer(sources, log, workers, options=how)
    with making_trials(workers, options.progress) as on_step:
        trials = transfer_to(model, transfer, options.seconds, on_step=on_step)
    return trials, count_untried(model, transfer)


def untried_text(count: int) -> str:
    """Return what --seconds, or a fault of the machine, left of a transfer, and what to do about
    it."""
    what = "1 schedule was" if count == 1 else f"{count} schedules were"
    return f"{what} not tried: run the same command again to go on"


def print_facts(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    tell(options, facts, (f"{name}: {_text(value)}" for name, value in facts.items()))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
