# SPDX-License-Identifier: Apache-2.0
"""A worker's measurement of one library file on this machine.
Test: measure/profiler/test_profile.py.

Precondition: nothing else that needs the cores runs; the driver sees to that.
"""

from __future__ import annotations

import dataclasses
import statistics as _stdlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm.contrib.graph_executor import GraphModule

from ...candidate.inputs import random_inputs
from ...costs.statistics import fewest_samples, is_narrow, median_interval
from ...exec.arrays import numbers_of, set_inputs
from ...exec.machine_fault import blaming_the_library
from ...exec.spent import phase
from ..outputs.reference import check_outputs
from .borders import border_share
from .in_network import MOST_TURNS, Place, timer_of_part

MIN_SAMPLES = fewest_samples()
# In one sample.
_MOST_RUNS = 100_000
# Samples between two looks at the interval: enough that one disturbed sample at either end does not
# count (median_interval), and few, since most candidates are known well enough at the first look.
_CHUNK = 10
# How many times as wide the interval may be of one that wakes threads of its own: what that takes
# depends on what ran before, and the next network differs by more (docs/decisions.md).
_WAKING = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """The way in which a worker times a candidate's library; JSON values alone."""

    network_bytes: int  # what its network touches between two runs (in_network.py)
    seed: int  # of the inputs
    budget_seconds: float
    interval_width: float  # at which timing ends before its budget
    sample_seconds: float
    split_borders: bool = False  # layout transforms at its borders are timed apart
    has_own_threads: bool = False  # other ones than TVM's compute, which have to wake
    # "module:function" that tells why its backend cannot run here any more; "" for TVM's own
    why_unavailable: str = ""


def measure_library(
    library: str,
    build: dict[str, Any],
    reference: str | None,
    tolerance: Sequence[float],
    timing: Mapping[str, Any],
) -> dict[str, Any]:
    """Time a library that build_candidate made (`build` is its reply) on random inputs.

    `timing`: the fields of a Timing. Returns "samples" (seconds of one run, borders taken off) and
    "border_seconds". WrongResult when the first run's outputs are not those in the file
    `reference`, if any, within the tolerance; MachineFault when its backend cannot run here any
    more.
    """
    how = Timing(**timing)
    device = tvm.device(build["device"], 0)
    values = random_inputs(build["inputs"], how.seed)

    def opened() -> tuple[Any, GraphModule]:
        factory = tvm.runtime.load_module(library)  # each time with parts and weights of its own
        executor = GraphModule(factory["default"](device))
        set_inputs(executor.module, values)
        return factory, executor

    with blaming_the_library(build["backend"], how.why_unavailable):
        factory, executor = opened()
        if reference is not None:
            with phase("verify"):
                executor.run()
                count = executor.get_num_outputs()
                outputs = [numbers_of(executor.get_output(i)) for i in range(count)]
                check_outputs(outputs, reference, tolerance)

        def run(number: int, repeat: int) -> list[float]:
            timer = executor.module.time_evaluator("run", device, number=number, repeat=repeat)
            return list(timer().results)

        with phase("time"):
            place = Place(
                build["weight_bytes"],
                build["inner_bytes"],
                how.network_bytes,
                has_own_threads=how.has_own_threads,
            )
            in_network = timer_of_part(
                run, executor.module, lambda: opened()[1].module, inputs=values, place=place
            )
            samples = sample_until_narrow(
                in_network,
                how.budget_seconds,
                how.interval_width * (_WAKING if how.has_own_threads else 1.0),
                sample_seconds=how.sample_seconds,
                most_runs=_MOST_RUNS if in_network is run else MOST_TURNS,
            )
        whole = _stdlib.median(samples)
        border_seconds = 0.0
        with phase("time borders"):
            share = border_share(factory, device, values) if how.split_borders else 0.0
            if share > 0:
                # It is of runs again and again on one copy of the weights. What a run takes longer
                # on other copies is not the borders', which read none.
                number = runs_in(how.sample_seconds, whole)
                alone = whole if in_network is run else _stdlib.median(run(number, MIN_SAMPLES))
                border_seconds = share * min(alone, whole)
        kept = 1.0 - border_seconds / whole if border_seconds else 1.0
        return {"samples": [s * kept for s in samples], "border_seconds": border_seconds}


def runs_in(sample_seconds: float, run_seconds: float) -> int:
    """Return how many runs a sample spans; the most by a clock that stands still or tells no
    number."""
    if not run_seconds > 1e-9:
        return _MOST_RUNS
    return max(1, min(_MOST_RUNS, round(sample_seconds / run_seconds)))


def sample_until_narrow(
    run: Callable[[int, int], list[float]],
    budget_seconds: float,
    interval_width: float,
    sample_seconds: float,
    most_runs: int = _MOST_RUNS,
) -> list[float]:
    """Return samples of `run(number, repeat)`, which times `repeat` samples of `number` runs each
    and answers seconds per run, until the median's interval is narrow or the budget is spent, also
    by what runs beside them. `number` is `most_runs` at most.

    The first runs warm caches and lazy initialisation up and are not kept. At least MIN_SAMPLES
    samples are taken even when they overrun the budget.
    """
    run(1, 1)
    began = time.perf_counter()
    once = run(1, 3)[-1]
    whole = (time.perf_counter() - began) / 3
    number = min(most_runs, runs_in(sample_seconds, once))
    longest = max(whole, once)  # `whole` where the timer's clock tells no number
    chunk = max(MIN_SAMPLES, min(_CHUNK, int(budget_seconds / (4 * number * longest))))
    samples: list[float] = []
    spent, began = 0.0, time.perf_counter()
    while True:
        new = run(number, chunk)
        samples += new
        spent = max(spent + number * sum(new), time.perf_counter() - began)
        # a clock that stands still or runs wild must not make a loop without end
        if spent >= budget_seconds or not spent > 0 or len(samples) >= 1000:
            return samples
        if is_narrow(median_interval(samples), interval_width):
            return samples
