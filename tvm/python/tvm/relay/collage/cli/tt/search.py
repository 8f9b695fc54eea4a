# SPDX-License-Identifier: Apache-2.0
"""`collage tt autoschedule, choose, transfer`: schedules for one model. Test: cli/test_tt.py."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...costs.cost import format_seconds
from ...errors import CollageError
from ...tuning.ansor import NAME as ANSOR
from ...tuning.ansor_kernel import AnsorKernel
from ...tuning.from_options import check_cost_model
from ...tuning.model import autoschedule, one_worker
from ...tuning.transfer.log import read_ansor, read_given, transfer_seconds
from ...tuning.transfer.sources import sources_of
from ...tuning.transfer.transfer import Trial, best_of, outcomes
from ...tuning.tuner import SearchOptions
from .common import (
    check_is_no_source,
    check_is_of_transfer,
    check_own_log,
    check_some_fit,
    kernels_of_model,
    making_trials,
    open_net,
    print_facts,
    scores_of,
    sources_named,
    transferred,
    untried_text,
    wanted_kernels,
)
from .kernel_text import texts_of
from .timeline import goal_of, seconds_to_match, timeline

_LOOK_SECONDS = 60.0
# Trials tell which schedule is the best of a kernel, and not whether TVM's own kernel is better.
_NOT_COMPARED = (
    "not compared with TVM's own kernels: `collage tt compare`, or the option transfer_log of a "
    "build, does that"
)


def search_schedules(options: argparse.Namespace) -> int:
    check_own_log(options)
    check_cost_model(options.search_model, "autoschedule", "--search-model random")
    limit = options.seconds
    if options.match:
        read_given(options.match)
    if options.same_time:
        check_is_of_transfer(options.same_time)
        limit = transfer_seconds(options.same_time) - _took(options.log)
    with one_worker() as workers:
        model = open_net(options.model, options, workers)
        with making_trials(workers, options.progress) as on_step:
            searched = autoschedule(
                model,
                workers,
                SearchOptions(ANSOR, options.trials, str(options.log), model=options.search_model),
                seconds=limit,
                on_step=on_step,
                is_enough=_matcher(options, model.kernels),
            )
    kernels = model.kernels
    names = {each.workload: each.name for each in kernels} if options.json else texts_of(kernels)
    target = str(model.candidate.target)
    tried = {line.workload for line in read_ansor(options.log) if line.target == target}
    searched_kernels = tried & set(names)
    unfinished = searched.unfinished
    failed = {key: each.reason for key, each in unfinished.items() if not each.is_late}
    print_facts(
        options,
        {
            "kernels": len(names),
            "searched": len(searched_kernels),
            "ended": searched.ended,
            "late": len(unfinished) - len(failed),
            "failed": {names[key]: reason for key, reason in failed.items()},
            "seconds": round(_took(options.log), 1),
        },
    )
    return 1 if failed or not searched_kernels else 0


def _took(log: Path) -> float:
    """Return the seconds that the search took whose trials a log has, 0 without one."""
    moments = timeline(read_ansor(log)) if log.exists() else []
    return moments[-1].seconds if moments else 0.0


def _matcher(options: argparse.Namespace, kernels: Sequence[AnsorKernel]) -> Callable[[], bool]:
    """Return what tells whether the search may end: it is asked often, and looks once a minute."""
    if not options.match:
        return lambda: False
    kernels, wanted = goal_of(kernels, read_ansor(options.match))
    if wanted is None:
        raise CollageError(f"{options.match} has no trial of a kernel of the model")
    next_look = time.monotonic()

    def is_matched() -> bool:
        nonlocal next_look
        if time.monotonic() < next_look:
            return False
        next_look = time.monotonic() + _LOOK_SECONDS
        return seconds_to_match(kernels, timeline(read_ansor(options.log)), wanted) is not None

    return is_matched


def choose_log(options: argparse.Namespace) -> int:
    logs = sources_named(options)
    found = scores_of(kernels_of_model(options.model, options), logs)
    print_facts(options, {name: round(score, 3) for name, score in found.items()})
    return 0


def transfer_schedules(options: argparse.Namespace) -> int:
    check_own_log(options)
    logs = sources_named(options)
    check_is_no_source(options.log, logs, "--log is one of --from: name another file")
    with one_worker() as workers:
        model = wanted_kernels(open_net(options.model, options, workers), options.without)
        if options.choose:
            logs = [Path(next(iter(scores_of(model.kernels, logs))))]
        sources = sources_of(logs, options.best)
        check_some_fit(model.kernels, sources, logs)
        trials, untried = transferred(model, sources, options.log, options=options, workers=workers)
    texts = texts_of(model.kernels)
    rows = [_row(each, texts[each.workload], trials[each.workload]) for each in model.kernels]
    all_trials = [trial for found in trials.values() for trial in found]
    reasons = Counter(trial.reason for trial in all_trials if trial.seconds is None)
    served = sum(row["seconds"] is not None for row in rows)
    summary = {
        "from": list(map(str, logs)),
        "kernels": len(rows),
        "served": served,
        "outcomes": outcomes(all_trials),
        "untried": untried,
        "seconds": round(sum(trial.took for trial in all_trials), 1),
        "log": str(options.log),
    }
    if options.json:
        print(json.dumps({**summary, "reasons": reasons, "rows": rows}, indent=1))
    else:
        for row in rows:
            best = "-" if row["seconds"] is None else format_seconds(row["seconds"])
            print(f"{row['text']}: {best} of {row['trials']} trials")
        for reason, count in reasons.most_common():
            print(f"{count} schedule{'s' * (count > 1)} did not work: {reason}")
        print_facts(options, summary)
        if untried:
            print(untried_text(untried))
        if served:
            print(_NOT_COMPARED)
    return 0 if served else 1


def _row(kernel: AnsorKernel, text: str, trials: Sequence[Trial]) -> dict[str, Any]:
    best = best_of(trials)
    return {
        "name": kernel.name,
        "text": text,
        "workload": kernel.workload,
        "shape": list(kernel.shape),
        "trials": len(trials),
        "seconds": best.seconds if best else None,
        "from": best.source.kernel.workload if best else None,
    }
