# SPDX-License-Identifier: Apache-2.0
"""`collage run`: a library on given or made-up inputs, and how long it takes.

Docs: docs/tools.md. Test: cli/test_run.py.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from tvm_collage.runner import Runner, TensorInfo

from ..costs.cost import format_seconds
from ..costs.statistics import Interval, median_interval
from ..exec.arrays import save_arrays
from ..files.text import check_file_path
from ..loaded import load as load_library
from ..machine.load import LoadMeter
from ..messages.progress import one_step
from ..plans.sample_inputs import SampleInputs, load_samples
from ..report.facts import time_text
from . import tell

# Timed runs: at least so many, and for so long.
LEAST_RUNS, MEASURED_SECONDS = 10, 2.0
_SHOWN = 6


def run_library(options: argparse.Namespace) -> int:
    check_file_path(options.outputs, "--outputs")
    with one_step("running", os.path.basename(options.library), options.progress):
        runner = load_library(options.library).runner()
        inputs = inputs_for(runner, load_samples(options.inputs, "--inputs"), options.seed)
        outputs = runner(inputs)
    if options.outputs:
        save_arrays(options.outputs, {f"output_{i}": array for i, array in enumerate(outputs)})
    # Of a library of the VM a run alone may tell a size.
    given = [
        info._replace(shape=array.shape)
        for info, array in zip(runner.outputs, outputs, strict=True)
    ]
    outputs_told = [{**info._asdict(), "dtype": str(info.dtype)} for info in given]
    facts: dict[str, Any] = {"outputs": outputs_told}
    lines = [_shown(info, array) for info, array in zip(given, outputs, strict=True)]
    if options.time:
        with one_step("timing", os.path.basename(options.library), options.progress):
            meter = LoadMeter()
            meter.begin()
            runs, interval = timed(runner, inputs)
            load = meter.load()
        low, high = (interval.low, interval.high) if interval.is_bounded else (None, None)
        measured = {"seconds": interval.value, "low": low, "high": high}
        facts["time"] = {**measured, "runs": runs, "load": load}
        lines.append(
            f"{time_text(interval.value, ['busy'] if load else [])} a run"
            + (f" [{format_seconds(low)}, {format_seconds(high)}]" if low and high else "")
            + f", the median of {runs} with its 95 % interval"
            + (f"; others took {load:.0%} of the CPUs: time it again without them" if load else "")
        )
    tell(options, facts, lines)
    return 0


def inputs_for(runner: Runner, given: SampleInputs, seed: int) -> dict[str, np.ndarray]:
    """Return arrays by name: those given, the others made up. OptionError for one that does not
    fit."""
    generator = np.random.default_rng(seed)
    known = {info.name: info for info in runner.inputs}
    for name, array in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise given.misfit(f"{name!r} is no input of the library (inputs: {names})")
        info = known[name]
        if array.shape != info.shape or array.dtype != info.dtype:
            raise given.misfit(
                f"the library takes {info.Summary()}, got {array.dtype} of shape {array.shape}"
            )
    return {name: given.get(name, _made_up(known[name], generator)) for name in known}


def timed(runner: Runner, inputs: dict[str, np.ndarray]) -> tuple[int, Interval]:
    """Time it; return the number of runs, and the median of their seconds with its interval."""
    samples: list[float] = []
    until = time.perf_counter() + MEASURED_SECONDS
    while len(samples) < LEAST_RUNS or time.perf_counter() < until:
        began = time.perf_counter()
        runner(inputs)
        samples.append(time.perf_counter() - began)
    return len(samples), median_interval(samples)


def _made_up(info: TensorInfo, generator: np.random.Generator) -> np.ndarray:
    """Make up normal random numbers; of integers zeros and ones, which are good as most indices."""
    if info.dtype.kind in "iub":
        return generator.integers(2, size=info.shape).astype(info.dtype)
    return generator.standard_normal(info.shape, dtype="float32").astype(info.dtype)


def _shown(info: TensorInfo, array: np.ndarray) -> str:
    values = ", ".join(f"{value:.4g}" for value in array.ravel()[:_SHOWN].tolist())
    return f"{info.Summary()} = {values}{', ...' if array.size > _SHOWN else ''}"
