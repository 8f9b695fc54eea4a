# SPDX-License-Identifier: Apache-2.0
"""`collage bench`: a model with Collage beside onnxruntime and OpenVINO on this machine, in rounds
of all, outputs compared.

Docs: docs/tools.md. Test: cli/test_bench.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tvm

from ..candidate.inputs import describe_inputs, random_inputs
from ..costs.compared import ComparedPlan
from ..errors import FileError, ModelError
from ..exec.arrays import save_arrays
from ..exec.reply import Unsupported
from ..exec.scratch import ScratchFolder
from ..files.records import to_json
from ..importer.whole import load_onnx
from ..loaded import load
from ..measure.peers import PEERS
from ..measure.race.comparison import Comparison, RightOutputs, compare_plans, compared
from ..measure.race.race import Contestant, RaceOptions
from ..messages.progress import OnStep, steps, waiting
from ..options import CollageOptions
from ..plans.sample_inputs import load_samples
from ..precision.calibration import Calibration, load_calibration
from ..precision.metrics import find_metric
from ..precision.peers import beside_peers
from ..precision.place import check_budget_of_samples
from ..report import make_console, plan_table, print_titled
from ..report.facts import best_single, plan_time, ratio_text
from .building import BuildRequest, is_onnx, optimized, options_of, request_of

OURS = "collage"


def bench_model(options: argparse.Namespace) -> int:
    if not is_onnx(options):
        raise FileError(
            f"{options.model}: onnxruntime and OpenVINO read ONNX files alone: name one"
        )
    left_out = {
        peer.name: f"not installed: pip install {peer.package}"
        for peer in PEERS.values()
        if not peer.is_installed()
    }
    if options.library is not None:
        load(options.library)  # what is no library is told before the others are measured
    chosen = options_of(options)
    if chosen.calibration:
        check_budget_of_samples(chosen)
    request = None if chosen.calibration else request_of(options)
    with contextlib.ExitStack() as held:
        folder = held.enter_context(ScratchFolder())
        library = options.library
        if library is None:
            library = str(Path(folder, "ours.so"))
            optimized(options, request=request).save_library(library)
        on_step = held.enter_context(steps("bench", chosen.progress))
        on_step("opening", 0, options.rounds)
        race = told_race(options.rounds, chosen.seed, on_step)
        if request is None:
            found = measure_by_samples(options.model, library, folder, chosen=chosen, race=race)
        else:
            inputs = str(Path(folder, "inputs.npz"))
            save_arrays(inputs, _inputs(request))
            found = measure(str(options.model), library, inputs, rtol=options.rtol, race=race)
    rows = compare_plans(found, [item.name for item in found if item.name != OURS])
    if options.json:
        print(json.dumps({"contestants": to_json(rows), "left_out": left_out}, indent=1))
    else:
        print("\n".join([_verdict(rows), *(f"left out: {k} ({v})" for k, v in left_out.items())]))
        console = make_console()
        print_titled(
            "Each in a process of its own, in rounds",
            plan_table(rows, "", "the fastest other"),
            console,
        )
    return 0 if next(row for row in rows if row.name == OURS).seconds else 1


def told_race(rounds: int, seed: int, on_step: OnStep) -> RaceOptions:
    """Return a race of so many rounds that tells how far it is, and what it waits for."""
    return RaceOptions(
        rounds=rounds,
        seed=seed,
        on_round=lambda done, goal: on_step("measuring", done, goal),
        on_wait=waiting(on_step, 0, rounds),
    )


def measure(
    model: str, library: str, inputs: str, *, rtol: float, race: RaceOptions
) -> list[Comparison]:
    """Measure ours beside all peers that are installed, whose outputs are those to compare with."""
    environment = _all_threads()
    peers = [peer for peer in PEERS.values() if peer.is_installed()]
    contestants = [
        Contestant.of_library(OURS, library, inputs, environment=environment),
        *(peer.contestant(model, inputs, environment) for peer in peers),
    ]
    right = RightOutputs(references=[peer.name for peer in peers], rtol=rtol)
    return compared(contestants, right, race)


def measure_by_samples(
    model: Path, library: str, folder: str, *, chosen: CollageOptions, race: RaceOptions
) -> list[Comparison]:
    """Measure ours beside all peers in each precision that they have: who is over the accuracy
    budget on the samples of the option calibration is not timed."""
    loaded = load_onnx(model)
    samples = Calibration.of(load_calibration(chosen.calibration, loaded))
    return beside_peers(
        OURS,
        library,
        loaded,
        samples,
        folder,
        metric=find_metric(chosen.metric, [value.name for value in loaded.graph.output]),
        environment=_all_threads(),
        race=race,
        budget=chosen.accuracy_budget,
    )


def _all_threads() -> dict[str, str]:
    """Return the variables by which TVM and OpenMP take as many threads as here."""
    return dict.fromkeys(("TVM_NUM_THREADS", "OMP_NUM_THREADS"), str(tvm.runtime.num_threads()))


def _inputs(request: BuildRequest) -> Mapping[str, np.ndarray]:
    """Return the inputs given by the option sample_inputs, else made-up ones. OptionError,
    ModelError."""
    given = load_samples(request.chosen.sample_inputs)
    try:
        made_up = random_inputs(describe_inputs(request.mod, given), request.chosen.seed)
    except Unsupported as error:
        raise ModelError(f"{error}: give the model's inputs by --sample-inputs") from error
    return {**made_up, **given}


def _verdict(rows: Sequence[ComparedPlan]) -> str:
    """Return one line: how fast ours is beside the fastest other."""
    ours = next(row for row in rows if row.name == OURS)
    if ours.seconds is None:
        return f"Collage failed: {ours.status}: {ours.message}"
    text = f"Collage takes {plan_time(ours)} a run"
    best = best_single(rows)
    if best is None or ours.ratio_to_best_single is None:
        return f"{text}. There is no time of another to compare it with: see below."
    other = f"{best.name} with {plan_time(best)}"
    ratio = ours.ratio_to_best_single.interval
    # The ratio is of runs of the same rounds: the two medians may stand the other way round.
    if ratio.is_bounded and ratio.low <= 1 <= ratio.high:
        return f"{text}; {other} is too close to tell which is faster: {ratio_text(ours)} as fast."
    return f"{text}, {ratio_text(ours)} as fast as the fastest other, {other}."
