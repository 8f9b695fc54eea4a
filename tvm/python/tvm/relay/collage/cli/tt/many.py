# SPDX-License-Identifier: Apache-2.0
"""`collage tt many`: each of some models from each of some logs and from all of them, end to end,
and what the heuristic would have chosen beside the best that could be.

Test: cli/test_tt_compare.py.
Each pair is a record of the output folder, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...costs.cost import format_seconds
from ...costs.statistics import Interval
from ...errors import OptionError
from ...files import check_file_path, make_folder, parse_json
from ...progress import steps
from ...timing.comparison import paired_ratio
from ...transfer.choose import scores, shares
from ...transfer.log import sources_of
from ...transfer.timeline import transfer_seconds
from ...tuner.end_to_end import UNTUNED, compare_records
from ...tuner.pipeline import Model, check_is_file, one_worker, transfer_to
from ...tuner.transfer import Transfer, best_of
from ...tuning.logs import append_line, load_records
from .common import (
    add_model,
    add_output,
    add_sources,
    add_trials,
    open_net,
    positive,
    sources_named,
    wanted_kernels,
)

_logger = logging.getLogger(__name__)

POOLED = "pooled"
_RECORDS = "many.jsonl"


@dataclasses.dataclass(frozen=True)
class Row:
    """What a model gained from a log.

    score: what the log promised. served: how many of its kernels got a schedule. search_seconds:
    the median of so many runs. speedup: untuned over it, None where it could not be timed, with the
    reason in `failure`.
    """

    model: str
    log: str
    score: float
    kernels: int
    served: int
    search_seconds: float
    runs: int
    speedup: Interval | None
    failure: str

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "speedup": self.speedup and self.speedup.to_json()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Row:
        """Inverse of to_json. TypeError, ValueError or KeyError for anything else."""
        speedup = fields["speedup"] and Interval.from_json(fields["speedup"])
        return cls(**{**fields, "speedup": speedup})

    def Summary(self) -> str:
        if self.speedup is None:
            gained = self.failure
        else:
            gained = self.speedup.Summary(unit="times as fast as untuned")
        return (
            f"{self.model} from {self.log}: {gained}, {self.served} of {self.kernels} kernels "
            f"served in {format_seconds(self.search_seconds)}, score {self.score:.2f}"
        )


@dataclasses.dataclass(frozen=True)
class Choice:
    """For a model the log that the heuristic chooses, the best one, and all together; None where
    none was timed."""

    model: str
    chosen: Row | None = None
    best: Row | None = None
    pooled: Row | None = None

    def to_json(self) -> dict[str, Any]:
        rows = {"chosen": self.chosen, "best": self.best, "pooled": self.pooled}
        told = {
            name: row and {"log": row.log, "speedup": row.to_json()["speedup"]}
            for name, row in rows.items()
        }
        return {"model": self.model, **told}

    def Summary(self) -> str:
        rows = {"chosen": self.chosen, "best": self.best, "pooled": self.pooled}
        if self.chosen is None:
            return f"{self.model}: nothing to choose of"
        texts = [
            f"{what} {'' if what == POOLED else f'{row.log} '}{_value(row):.3f}"
            for what, row in rows.items()
            if row is not None
        ]
        return f"{self.model}: {', '.join(texts)}"


def add_actions(add: Any) -> None:
    action = add(
        "many",
        _many,
        "transfer to each model from each log and from all, and compare what choose would take "
        "with what proved best",
    )
    action.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="an ONNX file")
    add_output(
        action, "FOLDER", "the folder to write logs and results to; run again with it to go on"
    )
    action.add_argument(
        "--runs",
        type=positive,
        default=1,
        metavar="N",
        help="how often each transfer is made (default: 1)",
    )
    action.add_argument(
        "--rounds",
        type=positive,
        default=30,
        metavar="N",
        help="how often each model is run and measured with each log (default: 30)",
    )
    add_sources(action)
    add_model(action)
    add_trials(action)


def _many(options: argparse.Namespace) -> int:
    sources = sources_named(options)
    for path in options.models:
        check_is_file(path)
    make_folder(options.output, "--output")
    check_file_path(str(options.output / _RECORDS), "--output", is_appended=True)
    logs = {path.stem: [path] for path in sources}
    if len(logs) < len(sources) or POOLED in logs:
        raise OptionError(f"logs need names of their own, and none may be {POOLED}")
    if len(logs) > 1:
        logs[POOLED] = sources
    known = _known(options.output / _RECORDS)
    rows = []
    for path in options.models:
        missing = {name: each for name, each in logs.items() if (path.stem, name) not in known}
        # A model's own log is no other model's.
        missing.pop(path.stem, None)
        if missing:
            for row in _rows_of(path, missing, options):
                append_line(options.output / _RECORDS, json.dumps(row.to_json()))
                known[row.model, row.log] = row
        rows += [known[path.stem, name] for name in logs if (path.stem, name) in known]
    choices = [_choice(path.stem, rows) for path in options.models]
    if options.json:
        found = {
            "rows": [row.to_json() for row in rows],
            "choices": [choice.to_json() for choice in choices],
        }
        print(json.dumps(found, indent=1))
    else:
        told = [*(row.Summary() for row in rows), *(choice.Summary() for choice in choices)]
        print("\n".join(told))
    return 0


def _known(records: Path) -> dict[tuple[str, str], Row]:
    """Rows of earlier runs, by model and log; how many could not be read is logged."""
    found, unreadable = {}, 0
    for text in records.read_text(encoding="utf-8").splitlines() if records.exists() else []:
        try:
            row = Row.from_json(parse_json(text))
            found[row.model, row.log] = row
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


def _rows_of(
    path: Path, logs: Mapping[str, Sequence[Path]], options: argparse.Namespace
) -> list[Row]:
    """What one model gains from each of the logs, all measured beside each other."""
    with one_worker() as workers:
        model = wanted_kernels(open_net(path, options, workers), options.without)
        names = {name: [*given] for name, given in logs.items()}
        models = {
            name: [source.kernel for source in sources_of(given)] for name, given in names.items()
        }
        promised = scores(shares(model.kernels, {}), models)
        runs, records = {}, {}
        for name, given in names.items():
            own = [each for each in given if each.stem != path.stem]
            runs[name] = [
                _transferred(model, name, own, run, options, workers) for run in range(options.runs)
            ]
            records[name] = load_records([Path(runs[name][0]["log"])], model.candidate.target)
        with steps("comparing", options.progress) as on_step:
            found = compare_records(
                model.candidate, records, workers, options.rounds, on_step=on_step
            )
    by_name = {item.name: item for item in found}
    untuned = by_name[UNTUNED]
    rows = []
    for name, made in runs.items():
        item = by_name[name]
        is_timed = bool(item.samples and untuned.samples)
        rows.append(
            Row(
                path.stem,
                name,
                round(promised[name], 4),
                len(model.kernels),
                made[0]["served"],
                statistics.median(run["seconds"] for run in made),
                len(made),
                paired_ratio(untuned.samples, item.samples) if is_timed else None,
                "" if is_timed else item.cost.Summary(),
            )
        )
    return rows


def _transferred(
    model: Model,
    name: str,
    logs: Sequence[Path],
    run: int,
    options: argparse.Namespace,
    workers: Any,
) -> dict[str, Any]:
    """One run of transferring; its log is the memory of one that was stopped."""
    label = Path(model.candidate.label).stem
    log = options.output / f"{label}-{name}-{run}.jsonl"
    log.touch()
    sources = sources_of(logs, options.best)
    transfer = Transfer(sources, log, workers, most=options.schedules)
    with steps("tuning", options.progress) as on_step:
        trials = transfer_to(model, transfer, options.seconds, on_step)
    served = sum(best_of(found) is not None for found in trials.values())
    return {"log": str(log), "served": served, "seconds": transfer_seconds(log)}


def _choice(model: str, rows: Sequence[Row]) -> Choice:
    """The log that the heuristic chooses for a model, and the best one."""
    own = [row for row in rows if row.model == model and row.speedup is not None]
    single = [row for row in own if row.log != POOLED]
    if not single:
        return Choice(model)
    pooled = next((row for row in own if row.log == POOLED), None)
    chosen = max(single, key=lambda row: row.score)
    return Choice(model, chosen, max(single, key=_value), pooled)


def _value(row: Row) -> float:
    return row.speedup.value if row.speedup else 0.0
