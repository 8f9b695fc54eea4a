# SPDX-License-Identifier: Apache-2.0
"""Contestants, which a worker keeps open between requests: something to run again, with outputs.
Test: measure/race/test_race.py.

A factory (named "module:function") answers an object with run() and outputs() -> list of arrays.
measure/race/library_contestant.py has the one of libraries.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..machine.memory import forget_peak, peak_bytes, resident_bytes
from .arrays import save_arrays
from .resolve import resolve


class Runnable(Protocol):
    """A model with its inputs set. An optional `seconds(number)` replaces the wall clock."""

    def run(self) -> None: ...

    def outputs(self) -> list[np.ndarray]: ...


class Stage:
    """The one open contestant of a worker."""

    def __init__(self) -> None:
        self._model: Runnable | None = None
        self._before = 0  # bytes that the process had before the opening

    def open(self, factory: str, arguments: dict[str, Any]) -> None:
        """Make the contestant and run it once, which does what is done once."""
        self._before = resident_bytes(os.getpid())
        forget_peak()
        self._model = resolve(factory)(**arguments)
        self._model.run()

    def probe(self) -> dict[str, Any]:
        """Run the contestant again; return the seconds, its own and those of the wall clock, and
        the most memory that the process took since the opening over what it had."""
        began = time.perf_counter()
        seconds = self._seconds(1)
        return {
            "seconds": seconds,
            "wall_seconds": time.perf_counter() - began,
            "memory_bytes": max(0, peak_bytes() - self._before),
        }

    def time(self, runs: int, number: int, warm_seconds: float) -> list[float]:
        """Return the seconds of one run, `runs` times, each over `number` runs.

        Before them it runs for warm_seconds by the wall clock, or once where that takes longer.
        """
        warm_until = time.perf_counter() + warm_seconds
        self._seconds(number)
        while time.perf_counter() < warm_until:
            self._seconds(number)
        return [self._seconds(number) / number for _ in range(runs)]

    def outputs(self, file: str) -> None:
        """Write the outputs of a run to an .npz file: arrays output_0, output_1, ..."""
        self._opened().run()
        outputs = self._opened().outputs()
        save_arrays(file, {f"output_{i}": np.asarray(a) for i, a in enumerate(outputs)})

    def close(self) -> None:
        """Let go of the contestant, with its memory."""
        self._model = None
        gc.collect()

    def _opened(self) -> Runnable:
        if self._model is None:
            raise RuntimeError("no contestant is open in this worker")
        return self._model

    def _seconds(self, number: int) -> float:
        model = self._opened()
        own_clock: Callable | None = getattr(model, "seconds", None)
        if own_clock is not None:
            return own_clock(number)
        start = time.perf_counter()
        for _ in range(number):
            model.run()
        return time.perf_counter() - start
