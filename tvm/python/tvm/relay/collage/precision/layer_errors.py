# SPDX-License-Identifier: Apache-2.0
"""Errors of choices of precisions, each by one run of the model with switches for each layer: it
computes in float32 what bytes and short floats hold, so that nothing is built.
Test: precision/test_layer_errors.py.

Assumption: what a library rounds otherwise within a byte's step is small beside the step; the final
check measures what is built.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ..errors import ModelError
from ..exec.arrays import load_arrays, save_arrays, sets_of
from ..exec.process import ask_own
from ..exec.reply import Unsupported
from ..exec.resolve import call_of
from ..ops.onnx_session import session_of
from .calibration import Samples, by_sample, stacked
from .layers import Quantised
from .metrics import Arrays, square_error

# Samples are left out where all choices on all of them would take longer.
_BUDGET_SECONDS, _SECONDS = 10.0, 1800.0


class Switchboard:
    """A quantised model with its switches in a file, and samples; runs in processes of its own."""

    def __init__(
        self, quantised: Quantised, samples: Samples, folder: str, short: str = ""
    ) -> None:
        """`short`: the short floats that layers may have beside 8 bits (layers.SHORT_FLOATS)."""
        self._quantised, self._count, self._folder = quantised, len(samples), folder
        self._short = short
        model, self._switches = quantised.switched(short)
        self._model = os.path.join(folder, "switched.onnx")
        self._samples = os.path.join(folder, "errors.npz")
        onnx.save(model, self._model)
        save_arrays(self._samples, stacked(samples))

    def square_errors(self, choices: Sequence[Mapping[str, str]]) -> list[float]:
        """Return the mean over samples of the relative squared error of each choice of precisions
        by layer, the others being in float32. ModelError where the model does not run."""
        found: list[float] = self._ask(choices, outputs="")
        return found

    def outputs(self, choices: Sequence[Mapping[str, str]]) -> Iterator[list[Arrays]]:
        """Yield the outputs of each choice, sample by sample; ModelError as above. They wait in
        files, since those of several choices may be more than memory holds."""
        if not choices:
            return
        prefix = os.path.join(self._folder, "outputs")
        self._ask(choices, outputs=prefix)
        for place in range(len(choices)):
            file = _outputs_file(prefix, place)
            yield by_sample(list(load_arrays(file).values()), self._count)
            os.unlink(file)

    def _ask(self, choices: Sequence[Mapping[str, str]], outputs: str) -> Any:
        states = [self._quantised.states(choice, self._short) for choice in choices]
        call = call_of(
            run_switched,
            model=self._model,
            samples=self._samples,
            count=self._count,
            switches=self._switches,
            states=states,
            outputs=outputs,
        )
        try:
            return ask_own("its layers cannot be judged", _SECONDS, {"call": call})
        except Unsupported as error:
            raise ModelError(str(error)) from None


def _outputs_file(prefix: str, place: int) -> str:
    return f"{prefix}_{place}.npz"


def run_switched(
    model: str,
    samples: str,
    count: int,
    switches: Sequence[str],
    states: Sequence[Sequence[bool]],
    outputs: str,
) -> list[float]:
    """Run a model's file in a worker with each state of its switches, on the samples that are
    stacked in an .npz file.

    Returns the mean relative squared error of each state beside all switches being off; or, where
    `outputs` begins names of files, writes the outputs of each state to one, sample by sample.
    """
    session = session_of(model, is_optimized=True)
    rows = sets_of(load_arrays(samples), count)

    def run(row: dict[str, np.ndarray], state: Sequence[bool]) -> list[np.ndarray]:
        flags = zip(switches, map(np.array, state), strict=True)
        found: list[np.ndarray] = session.run(None, {**row, **dict(flags)})
        return found

    if outputs:
        for place, state in enumerate(states):
            found = [array for row in rows for array in run(row, state)]
            own = {f"output_{i}": array for i, array in enumerate(found)}
            save_arrays(_outputs_file(outputs, place), own)
        return []
    off = [False] * len(switches)
    run(rows[0], off)
    began = time.perf_counter()
    right = [run(rows[0], off)]
    seconds = max(time.perf_counter() - began, 1e-6)
    rows = rows[: max(1, int(_BUDGET_SECONDS / (seconds * max(1, len(states)))))]
    right += [run(row, off) for row in rows[1:]]

    def error(state: Sequence[bool]) -> float:
        found = [run(row, state) for row in rows]
        pairs = zip(found, right, strict=True)
        return statistics.fmean(
            sum(square_error(a, b) for a, b in zip(own, true, strict=True)) for own, true in pairs
        )

    return [error(state) for state in states]
