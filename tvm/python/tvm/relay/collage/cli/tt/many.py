# SPDX-License-Identifier: Apache-2.0
"""`collage tt many`: each of some models from each of some logs and from all of them, end to end,
and what the heuristic would have chosen beside the best that could be.

Test: cli/test_tt_compare.py.
Each pair is a record of the output folder, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...costs.cost import format_seconds
from ...costs.statistics import Interval
from ...errors import CollageError
from ...files import parse_json
from ...progress import steps
from ...timing.comparison import paired_ratio
from ...transfer.choose import scores, shares
from ...transfer.log import sources_of
from ...transfer.timeline import transfer_seconds
from ...tuner.end_to_end import UNTUNED, compare_records
from ...tuner.pipeline import Model, one_worker, transfer_to
from ...tuner.transfer import Transfer, best_of
from ...tuning.logs import append_line, load_records
from .common import (
    add_model,
    add_sources,
    add_trials,
    open_net,
    positive,
    sources_named,
    wanted_kernels,
)

POOLED = "pooled"
_RECORDS = "many.jsonl"


def add_actions(add: Any) -> None:
    action = add("many", _many, "each model from each log and from all, and who was chosen best")
    action.add_argument("models", nargs="+", type=Path, help="ONNX files")
    action.add_argument("--output", "-o", type=Path, required=True, help="a folder")
    action.add_argument("--runs", type=positive, default=1, help="of each transfer (1)")
    action.add_argument("--rounds", type=positive, default=30, help="of measuring (30)")
    add_sources(action)
    add_model(action)
    add_trials(action)


def _many(options: argparse.Namespace) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    sources = sources_named(options)
    logs = {path.stem: [path] for path in sources}
    if len(logs) < len(sources) or POOLED in logs:
        raise CollageError(f"logs need names of their own, and none may be {POOLED}")
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
                append_line(options.output / _RECORDS, json.dumps(row))
                known[row["model"], row["from"]] = row
        rows += [known[path.stem, name] for name in logs if (path.stem, name) in known]
    choices = [_choice(path.stem, rows) for path in options.models]
    if options.json:
        print(json.dumps({"rows": rows, "choices": choices}, indent=1))
    else:
        print("\n".join([*map(_row_text, rows), *map(_choice_text, choices)]))
    return 0


def _known(records: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of earlier runs, by model and log; half a line is none."""
    found = {}
    for text in records.read_text(encoding="utf-8").splitlines() if records.exists() else []:
        try:
            row = parse_json(text)
            found[row["model"], row["from"]] = row
        except (ValueError, TypeError, KeyError):
            continue
    return found


def _rows_of(
    path: Path, logs: Mapping[str, Sequence[Path]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """What one model gains from each of the logs, all measured beside each other."""
    with one_worker() as workers:
        model = wanted_kernels(open_net(path, options, workers), options.without)
        names = {name: [*given] for name, given in logs.items()}
        models = {
            name: [source.kernel for source in sources_of(given)] for name, given in names.items()
        }
        promised = scores(shares(model.kernels, {}), models)
        rows, records = [], {}
        for name, given in names.items():
            own = [each for each in given if each.stem != path.stem]
            runs = [
                _transferred(model, name, own, run, options, workers) for run in range(options.runs)
            ]
            records[name] = load_records([Path(runs[0]["log"])], model.candidate.target)
            rows.append(
                {
                    "model": path.stem,
                    "from": name,
                    "score": round(promised[name], 4),
                    "kernels": len(model.kernels),
                    "served": runs[0]["served"],
                    "search_seconds": statistics.median(run["seconds"] for run in runs),
                    "runs": len(runs),
                }
            )
        with steps("comparing", options.progress) as on_step:
            found = compare_records(
                model.candidate, records, workers, options.rounds, on_step=on_step
            )
    by_name = {item.name: item for item in found}
    for row in rows:
        item, untuned = by_name[row["from"]], by_name[UNTUNED]
        is_timed = bool(item.samples and untuned.samples)
        ratio = paired_ratio(untuned.samples, item.samples) if is_timed else None
        row["speedup"] = ratio and ratio.to_list()
        row["failure"] = "" if is_timed else item.cost.Summary()
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


def _choice(model: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The log that the heuristic chooses for a model, and the best one."""
    own = [row for row in rows if row["model"] == model and row["speedup"]]
    single = [row for row in own if row["from"] != POOLED]
    if not single:
        return {"model": model, "chosen": None, "best": None, "pooled": None}
    chosen = max(single, key=lambda row: row["score"])
    best = max(single, key=lambda row: row["speedup"][0])
    pooled = [row for row in own if row["from"] == POOLED]
    return {
        "model": model,
        "chosen": {key: chosen[key] for key in ("from", "speedup")},
        "best": {key: best[key] for key in ("from", "speedup")},
        "pooled": pooled[0]["speedup"] if pooled else None,
    }


def _row_text(row: Mapping[str, Any]) -> str:
    if row["speedup"] is None:
        gained = row["failure"]
    else:
        speedup = Interval.of_list(row["speedup"])
        gained = "{:.3f} [{:.3f}, {:.3f}] times as fast as untuned".format(*speedup)
    return (
        f"{row['model']} from {row['from']}: {gained}, {row['served']} of {row['kernels']} kernels "
        f"served in {format_seconds(row['search_seconds'])}, score {row['score']:.2f}"
    )


def _choice_text(choice: Mapping[str, Any]) -> str:
    if choice["chosen"] is None:
        return f"{choice['model']}: nothing to choose of"
    texts = [
        f"{what} {choice[what]['from']} {choice[what]['speedup'][0]:.3f}"
        for what in ("chosen", "best")
    ]
    pooled = choice["pooled"]
    return f"{choice['model']}: {', '.join(texts)}" + (
        f", pooled {pooled[0]:.3f}" if pooled else ""
    )
