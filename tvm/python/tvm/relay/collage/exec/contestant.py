# SPDX-License-Identifier: Apache-2.0
"""What a worker keeps open between requests: something to run again and again, with outputs.
Test: timing/test_interleave.py.

A factory (named "module:function") answers an object with run() and outputs() -> list of arrays.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..machine.memory import forget_peak, peak_bytes, resident_bytes
from .arrays import numbers_of, save_arrays, set_inputs
from .resolve import resolve


class Runnable(Protocol):
    """A model with its inputs set. An optional `seconds(number)` replaces the wall clock."""

    def run(self) -> None: ...

    def outputs(self) -> list[np.ndarray]: ...


class Stage:
    """The one open contestant of a worker."""

    def __init__(self) -> None:
        self._model: Runnable | None = None

    def open(self, factory: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make the contestant and run it twice; returns the second run's seconds, and the most
        memory that the process took for all of it over what it had."""
        before = resident_bytes(os.getpid())
        forget_peak()
        self._model = resolve(factory)(**arguments)
        self._model.run()
        seconds = self._seconds(1)
        return {"seconds": seconds, "memory_bytes": max(0, peak_bytes() - before)}

    def time(self, runs: int, number: int, warm_seconds: float) -> list[float]:
        """Seconds of one run, `runs` times, each over `number` runs.

        Before them it runs for warm_seconds by the wall clock, or once where that takes longer.
        """
        warm_until = time.perf_counter() + warm_seconds
        self._seconds(number)
        while time.perf_counter() < warm_until:
            self._seconds(number)
        return [self._seconds(number) / number for _ in range(runs)]

    def save_outputs(self, file: str) -> None:
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


def library_contestant(
    library: str,
    inputs: str,
    device: str = "llvm",
    mod_name: str = "default",
    weights: str = "",
) -> Runnable:
    """A library file of the graph or the AOT executor on inputs by name from an .npz file.

    mod_name: the name that the model was built under. weights: the file that says where the weights
    of a library without them are (graph_search/shared_weights.py).
    """
    import tvm

    def load(entry: list[str]) -> tvm.nd.NDArray:
        file, dtype = entry
        bits = np.load(file, mmap_mode="r", allow_pickle=False)
        return tvm.nd.empty(bits.shape, dtype).copyfrom(bits)

    class Library:
        def __init__(self) -> None:
            factory = tvm.runtime.load_module(library)
            shared: dict[str, Any] = {"parts": {}, "params": {}}
            if weights:
                with open(weights, encoding="utf-8") as stream:
                    shared = json.load(stream)
            for symbol, entries in shared["parts"].items():
                give = factory.get_function(f"__init_{symbol}", query_imports=True)
                give([load(entry) for entry in entries])
            self._executor = factory[mod_name](tvm.device(device, 0))
            for name, entry in shared["params"].items():
                self._executor["set_input"](name, load(entry))
            with np.load(inputs, allow_pickle=False) as values:
                set_inputs(self._executor, values)
            self.run = self._executor["run"]

        def outputs(self) -> list[np.ndarray]:
            get_output = self._executor["get_output"]
            return [numbers_of(get_output(i)) for i in range(self._executor["get_num_outputs"]())]

    return Library()
