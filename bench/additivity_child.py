# SPDX-License-Identifier: Apache-2.0
"""Timing for bench/additivity.py in a worker process: whole libraries, and each of their kernels.

Called through a worker's `call`; what is open stays so between calls.
Test: bench/test_additivity.py.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm.relay.collage.candidate.inputs import random_tensor
from tvm.relay.collage.exec.arrays import set_inputs
from tvm.relay.collage.measure.profiler.borders import border_nodes, is_kernel
from tvm.relay.collage.measure.profiler.in_network import (
    Copy,
    Place,
    seconds_in_turn,
    timer_of_part,
)

# Processor time of the process leaves out what a busy machine does besides, but counts all threads:
# good for one thread only.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_SAMPLE_SECONDS = 2e-3
_SAMPLES = 4
_open: list[Library] = []


class Library:
    """A library in the executor that can also run one kernel at a time.

    file: as exported. inputs: their descriptions (measure.inputs). has_borders: whether its border
    transforms are no part of its cost, as with TVM's candidates. clock: of CLOCKS. place: the
    fields of a part's Place, by which it is timed as candidates are.
    """

    def __init__(
        self,
        file: str,
        inputs: list[dict],
        seed: int,
        clock: str,
        has_borders: bool = False,
        place: dict[str, Any] | None = None,
    ) -> None:
        generator = np.random.default_rng(seed)
        values = {d["name"]: random_tensor(d, generator) for d in inputs}

        def opened() -> tuple[Any, Any]:
            factory = tvm.runtime.load_module(file)
            executor = factory["debug_create"]("default", tvm.cpu())
            set_inputs(executor, values)
            executor["run"]()
            return factory, executor

        factory, executor = opened()
        graph = json.loads(factory["get_graph_json"]())
        self._clock = CLOCKS[clock]
        self._kernels = [i for i, node in enumerate(graph["nodes"]) if is_kernel(node)]
        self._borders = border_nodes(graph, set(values)) if has_borders else []
        self._run, self._execute = executor["run"], executor["execute_node"]
        self._repeat = executor["run_individual_node"]
        # Node 0 is an input: to "execute" it is what a call takes besides the kernel.
        assert not is_kernel(graph["nodes"][0])
        by_itself = seconds_in_turn([Copy(self._run)], clock=self._clock)
        self._number = _number_of(*by_itself(1, 1))
        as_measured = timer_of_part(
            by_itself, executor, lambda: opened()[1], values, Place(**(place or {})), self._clock
        )
        self._timers = as_measured, by_itself
        self._numbers = {i: _number_of(self._repeated(i, 2)) for i in self._kernels}

    def seconds(self) -> tuple[float, float]:
        """Of one run as a candidate's are timed, and of one after the other on one copy of the
        weights: the medians of a few samples, the first of which warms up."""
        samples = [timer(self._number, _SAMPLES)[1:] for timer in self._timers]
        as_measured, one_after_the_other = map(statistics.median, samples)
        return as_measured, one_after_the_other

    def alone(self) -> dict[int, float]:
        """Seconds of each kernel run by itself again and again, by node."""
        return {
            i: statistics.median(self._repeated(i, number) for _ in range(_SAMPLES - 1))
            for i, number in self._numbers.items()
        }

    def in_place(self) -> dict[int, float]:
        """Seconds of each kernel in its place in a run, by node."""
        samples: dict[int, list[float]] = {i: [] for i in self._kernels}
        for _ in range(_SAMPLES):
            self._run()
            empty = min(self._sample(self._execute, 1, 0) for _ in range(20))
            for i in self._kernels:  # execute_node runs what lies between the last one and this
                samples[i].append(max(0.0, self._sample(self._execute, 1, i) - empty))
        return {i: statistics.median(values) for i, values in samples.items()}

    def border_share(self, alone: dict[int, float]) -> float:
        """The share of a run that measuring takes off for border transforms."""
        total = sum(alone.values())
        return sum(alone[i] for i in self._borders) / total if total > 0 else 0.0

    def _repeated(self, node: int, number: int) -> float:
        """Seconds of one of many calls of a kernel, without what the measuring call itself takes.

        TVM's timer calls a kernel once before it counts, here too, and has a clock of its own.
        """
        short = self._sample(self._repeat, 1, node, 1, 1, 0, 100, 0, 1)
        long = self._sample(self._repeat, 1, node, number + 1, 1, 0, 100, 0, 1)
        return max(0.0, (long - short) / number)

    def _sample(self, call: Callable[..., Any], number: int, *arguments: int) -> float:
        began = self._clock()
        for _ in range(number):
            call(*arguments)
        return (self._clock() - began) / number


def _number_of(once: float) -> int:
    return max(1, min(10_000, round(_SAMPLE_SECONDS / max(once, 1e-7))))


def open_libraries(libraries: list[dict[str, Any]]) -> None:
    """Open these, in place of those that were open; each is keywords of Library."""
    _open.clear()
    _open.extend(Library(**item) for item in libraries)


def time_libraries() -> list[tuple[float, float]]:
    """Seconds of a run of each, as measured and one after the other."""
    return [library.seconds() for library in _open]


def time_kernels_alone() -> list[dict[str, Any]]:
    """For each library seconds of its kernels by node, run by themselves, and the border share."""
    found = []
    for library in _open:
        alone = library.alone()
        found.append({"kernels": list(alone.items()), "border_share": library.border_share(alone)})
    return found


def time_kernels_in_place() -> list[list]:
    """Seconds of the kernels of the first library in a run, by node."""
    return list(_open[0].in_place().items())
