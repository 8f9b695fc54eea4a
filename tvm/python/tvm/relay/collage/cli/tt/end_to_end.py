# SPDX-License-Identifier: Apache-2.0
"""Whole models that TVM compiles with some records, measured beside each other: what a schedule
gains for a kernel alone need not be a gain for the model. Test: cli/test_tt_compare.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ...backends import why_unavailable
from ...candidate.candidate import TUNING, CandidateModule
from ...candidate.inputs import random_inputs
from ...compile import build_library
from ...costs.cost import Cost, CostStatus
from ...exec.arrays import save_arrays
from ...exec.launch import make_scratch
from ...exec.pool import Job, WorkerPool
from ...exec.resolve import call_of, path_of
from ...machine.compiler import require_compiler
from ...machine.cpu_lock import cpus_for_measuring
from ...measure.builder import build_candidate
from ...measure.race.comparison import Comparison, RightOutputs, compared
from ...measure.race.race import Contestant, RaceOptions
from ...messages.progress import OnStep, untold, waiting
from ...tuning import TuningRecords

UNTUNED = "untuned"
# A search's first schedules can be a hundred times slower than the best: the ratio of one that is
# surely slower than this is known well enough after few rounds.
_GIVE_UP_RATIO = 4.0
_BUILD_SECONDS = 1200.0


def compare_records(
    candidate: CandidateModule,
    records: Mapping[str, TuningRecords],
    workers: WorkerPool,
    rounds: int = 30,
    on_step: OnStep = untold,
) -> list[Comparison]:
    """Measure a model as TVM builds it with each of these records and, as UNTUNED, with none; the
    fastest first. What cannot be built, or gives other outputs than untuned, is among them with the
    reason.

    Equal records are built and measured once. MachineError without a C++ compiler.
    """
    require_compiler()
    tuned = {UNTUNED: TuningRecords(), **records}
    first: dict[str, str] = {}
    same_as = {name: first.setdefault(each.digest(), name) for name, each in tuned.items()}
    names = list(first.values())
    on_wait = waiting(on_step, 0, len(names) + 1)
    with make_scratch() as folder, cpus_for_measuring(on_wait):
        inputs = Path(folder, "inputs.npz")
        contestants, failed = [], []
        for done, name in enumerate(names):
            on_step(f"building {name}", done, len(names) + 1)
            library = str(Path(folder, f"{done}.so"))
            [reply] = workers.run([_job(candidate, tuned[name], library)])
            if reply.outcome != "ok":
                cost = Cost.failed(CostStatus.COMPILE_FAILED, reply.message)
                failed.append(Comparison(name, cost))
                continue
            if not inputs.exists():
                save_arrays(str(inputs), random_inputs(reply.value["inputs"], 0))
            contestants.append(Contestant.of_library(name, library, str(inputs)))
        on_step(f"measuring {len(contestants)}", len(names), len(names) + 1)
        if contestants:
            reference = [item.name for item in contestants if item.name == UNTUNED]
            right = RightOutputs(references=reference, rtol=1e-3)
            options = RaceOptions(rounds=rounds, give_up_ratio=_GIVE_UP_RATIO)
            found = [*compared(contestants, right, options), *failed]
        else:
            found = failed
    by_name = {item.name: item for item in found}
    equals = [
        dataclasses.replace(by_name[other], name=name, same_as=other)
        for name, other in same_as.items()
        if other != name
    ]
    return [*found, *equals]


def _job(candidate: CandidateModule, records: TuningRecords, library: str) -> Job:
    options = {**candidate.build_options, **({TUNING: records.named()} if records else {})}
    tuned = dataclasses.replace(candidate, build_options=options, records=records.to_json())
    arguments = {
        "candidate": tuned.to_json(),
        "library": library,
        "builder": path_of(build_library),
        "seed": 0,
        "why_unavailable": path_of(why_unavailable),
    }
    return Job("call", call_of(build_candidate, **arguments), _BUILD_SECONDS)
