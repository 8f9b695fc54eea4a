# SPDX-License-Identifier: Apache-2.0
"""`collage tt many`: each of some models from each of some logs and from all of them, end to end,
and what the heuristic would have chosen beside the best that could be.

Test: cli/test_tt_compare.py.
Each pair is a record of the output folder, so that a run that was stopped goes on. A record says
what it was made of, so that other options or a log that has grown make another one. One that failed
is told, ends the command with 1, and is made again by the next run.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backends.targets import host_named
from ...costs.cost import format_seconds
from ...costs.statistics import Interval
from ...errors import OptionError
from ...exec.pool import WorkerPool
from ...files.text import append_line, check_file_path, make_folder, parse_json
from ...importer.onnx_file import check_is_file
from ...machine.environment import cpu_model
from ...measure.race.comparison import paired_ratio
from ...messages.progress import steps
from ...tuning import load_records
from ...tuning.ansor_kernel import AnsorKernel
from ...tuning.model import Model, one_worker
from ...tuning.transfer.log import transfer_seconds
from ...tuning.transfer.sources import scores, shares, sources_of
from ...tuning.transfer.transfer import best_of
from .. import tell
from .common import (
    check_is_no_source,
    open_net,
    sources_named,
    transferred,
    untried_text,
    wanted_kernels,
)
from .end_to_end import UNTUNED, compare_records
from .gain import HasSpeedup

_logger = logging.getLogger(__name__)

POOLED = "pooled"
_RECORDS = "many.jsonl"
_CHOICES = ("chosen", "best", POOLED)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question that a row answers."""

    model: str
    log: str
    # A digest of the model, the logs, and all that decides which trials are made and how fast they
    # are.
    inputs: str
    rounds: int  # how often it is measured
    runs: int  # how often the transfer is made


@dataclasses.dataclass(frozen=True)
class GainRow(HasSpeedup, Question):
    """The gain of a model from a log."""

    score: float  # what the log promised
    kernels: int  # of the model
    served: int  # those that got a schedule
    search_seconds: float  # the median of the runs
    speedup: Interval | None
    failure: str

    @property
    def question(self) -> Question:
        return Question(*(getattr(self, each.name) for each in dataclasses.fields(Question)))

    def Summary(self) -> str:
        return (
            f"{self.model} from {self.log}: {self.gained()}, {self.served} of {self.kernels} "
            f"kernels served in {format_seconds(self.search_seconds)}, score {self.score:.2f}"
        )


def transfer_many(options: argparse.Namespace) -> int:
    sources = sources_named(options)
    records = options.output / _RECORDS
    error = f"{records}, the results of --output, is one of --from: name another folder"
    check_is_no_source(records, sources, error)
    for path in options.models:
        check_is_file(path)
    make_folder(options.output, "--output")
    check_file_path(str(records), "--output", is_appended=True)
    logs = {path.stem: [path] for path in sources}
    if len(logs) < len(sources) or POOLED in logs:
        raise OptionError(f"logs need names of their own, and none may be {POOLED}")
    if len({path.stem for path in options.models}) < len(options.models):
        raise OptionError("models need names of their own: copy those of one name to other names")
    if len(logs) > 1:
        logs[POOLED] = sources
    known = _known(records)
    rows: list[GainRow] = []
    untried: dict[Question, int] = {}
    for path in options.models:
        asked = _questions(path, logs, options)
        missing = {each: own for each, own in asked.items() if each not in known}
        if missing:
            made, late = rows_of(path, missing, options)
            for row in made:
                append_line(records, json.dumps(row.to_json()))
                known[row.question] = row
            untried.update(late)
        rows += [known[each] for each in asked if each in known]
    late_models = {each.model for each in untried}
    models = [path.stem for path in options.models if path.stem not in late_models]
    choices = {model: choice(model, rows) for model in models}
    found = {
        "rows": [row.to_json() for row in rows],
        "choices": [
            {"model": model, **{name: _told(found.get(name)) for name in _CHOICES}}
            for model, found in choices.items()
        ],
        "untried": [
            {"model": each.model, "log": each.log, "schedules": count}
            for each, count in untried.items()
        ],
    }
    lines = [row.Summary() for row in rows]
    lines += [choice_text(model, found) for model, found in choices.items()]
    lines += [
        f"{each.model} from {each.log}: {untried_text(count)}" for each, count in untried.items()
    ]
    tell(options, found, lines)
    return int(any(row.speedup is None for row in rows))


def _questions(
    path: Path, logs: Mapping[str, Sequence[Path]], options: argparse.Namespace
) -> dict[Question, Sequence[Path]]:
    """Return what is asked of a model, and the logs of each: a model's own log is no other
    model's."""
    target = str(host_named(options.target, "--target"))
    settings = [target, cpu_model(), options.shape, options.best, options.schedules]
    settings += [sorted(options.without), _digest(path.read_bytes())]
    found: dict[Question, Sequence[Path]] = {}
    for name, given in logs.items():
        own = [each for each in given if each.stem != path.stem]
        if own:
            contents = [_digest(each.read_bytes()) for each in own]
            inputs = _digest(json.dumps([*settings, contents]).encode())
            found[Question(path.stem, name, inputs, rounds=options.rounds, runs=options.runs)] = own
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _known(records: Path) -> dict[Question, GainRow]:
    """Return rows of earlier runs, but for those that failed, since what was at fault may have
    passed; how many could not be read is logged."""
    found, unreadable = {}, 0
    for text in records.read_text(encoding="utf-8").splitlines() if records.exists() else []:
        try:
            row = GainRow.from_json(parse_json(text))
            if row.speedup is not None:
                found[row.question] = row
        except (ValueError, TypeError, KeyError):
            unreadable += 1
    if unreadable:
        _logger.warning(
            "%s: %d row%s could not be read, of an older version or cut off: measured again",
            records,
            unreadable,
            "s" * (unreadable > 1),
        )
    return found


def rows_of(
    path: Path, asked: Mapping[Question, Sequence[Path]], options: argparse.Namespace
) -> tuple[list[GainRow], dict[Question, int]]:
    """Return what one model gains from each of the logs, all measured beside each other; and how
    many schedules time left untried where it did not suffice, which have no row yet."""
    with one_worker() as workers:
        model = wanted_kernels(open_net(path, options, workers), options.without)
        sources = {each.log: [one.kernel for one in sources_of(own)] for each, own in asked.items()}
        _warn_of_own(path.stem, model, sources)
        promised = scores(shares(model.kernels, {}), sources)
        runs, untried = {}, {}
        for each, own in asked.items():
            made = [
                _transferred(model, each, own, run=run, options=options, workers=workers)
                for run in range(each.runs)
            ]
            if left := sum(run["untried"] for run in made):
                untried[each] = left
            else:
                runs[each] = made
        if not runs:
            return [], untried
        records = {
            each.log: load_records([Path(made[0]["log"])], model.candidate.target)
            for each, made in runs.items()
        }
        with steps("comparing", options.progress) as on_step:
            found = compare_records(
                model.candidate, records, workers, rounds=options.rounds, on_step=on_step
            )
    by_name = {item.name: item for item in found}
    untuned = by_name[UNTUNED]
    rows = []
    for each, made in runs.items():
        item = by_name[each.log]
        failed = next((side for side in (item, untuned) if not side.samples), None)
        rows.append(
            GainRow(
                **vars(each),
                score=round(promised[each.log], 4),
                kernels=len(model.kernels),
                served=made[0]["served"],
                search_seconds=statistics.median(run["seconds"] for run in made),
                speedup=None if failed else paired_ratio(untuned.samples, item.samples),
                failure=f"{failed.name}: {failed.cost.Summary()}" if failed else "",
            )
        )
    return rows, untried


def _warn_of_own(name: str, model: Model, sources: Mapping[str, Sequence[AnsorKernel]]) -> None:
    """Warn of a log of the model's own search under another name, which would be taken for another
    model's."""
    workloads = {kernel.workload for kernel in model.kernels}
    for log, kernels in sources.items():
        shared = len(workloads & {kernel.workload for kernel in kernels})
        if log != POOLED and 2 * shared > len(workloads):
            _logger.warning(
                "the log %s has schedules of %d of the %d kernels of %s itself: if it is of that "
                "model's own search, name it %s.jsonl, so that it is not transferred to it",
                log,
                shared,
                len(workloads),
                name,
                name,
            )


def _transferred(
    model: Model,
    question: Question,
    logs: Sequence[Path],
    *,
    run: int,
    options: argparse.Namespace,
    workers: WorkerPool,
) -> dict[str, Any]:
    """Make one run of transferring; its log is the memory of one that was stopped."""
    label = f"{question.model}-{question.log}-{question.inputs}-{run}"
    log = options.output / f"{label}.jsonl"
    log.touch()
    sources = sources_of(logs, options.best)
    trials, untried = transferred(model, sources, log, options=options, workers=workers)
    served = sum(best_of(found) is not None for found in trials.values())
    seconds = transfer_seconds(log)
    return {"log": str(log), "served": served, "untried": untried, "seconds": seconds}


def choice(model: str, rows: Sequence[GainRow]) -> dict[str, GainRow]:
    """Return for a model the log that the heuristic chooses, the best one, and all together, as
    far as they were timed."""
    timed = {row.log: row for row in rows if row.model == model and row.speedup is not None}
    pooled = timed.pop(POOLED, None)
    if not timed:
        return {}
    chosen = max(timed.values(), key=lambda row: row.score)
    found = dict(zip(_CHOICES, (chosen, max(timed.values(), key=_value), pooled), strict=True))
    return {name: row for name, row in found.items() if row is not None}


def choice_text(model: str, found: Mapping[str, GainRow]) -> str:
    """Return the line that tells of a choice."""
    texts = [
        f"{name} {'' if name == POOLED else f'{row.log} '}{_value(row):.3f}"
        for name, row in found.items()
    ]
    return f"{model}: {', '.join(texts) or 'nothing to choose of'}"


def _told(row: GainRow | None) -> dict[str, Any] | None:
    return None if row is None else {"log": row.log, "speedup": row.to_json()["speedup"]}


def _value(row: GainRow) -> float:
    return row.speedup.value if row.speedup else 0.0
