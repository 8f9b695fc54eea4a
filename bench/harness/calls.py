# SPDX-License-Identifier: Apache-2.0
"""Ways to call a library, as contestants of measure.compare: with arrays, as a program that serves
a model does, and after a sleep, as between its requests. Test: bench/test_variants.py."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from tvm.relay.collage.exec.resolve import path_of, resolve
from tvm.relay.collage.measure import Contestant

from .contestants import Runnable, arrays_of


def runner_called(library: str, inputs: str) -> Any:
    """Collage's runner."""
    from tvm_collage.runner import load_runner

    runner, values = load_runner(library), arrays_of(inputs)
    return Runnable(lambda: runner(values), lambda answer: answer)


def graph_module_called(library: str, inputs: str) -> Any:
    """TVM's GraphModule: each input set, a run, each output read."""
    executor, values = _graph_module(library), arrays_of(inputs)
    outputs = range(executor.get_num_outputs())

    def run() -> list[Any]:
        for name, value in values.items():
            executor.set_input(name, value)
        executor.run()
        return [executor.get_output(index).numpy() for index in outputs]

    return Runnable(run, lambda answer: answer)


def _graph_module(library: str) -> Any:
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    return GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))


def job_of(contestant: Contestant) -> dict[str, Any]:
    """What a process needs that runs it: a factory and its arguments."""
    return {"factory": contestant.factory, "arguments": dict(contestant.arguments)}


def within(contestant: Contestant, factory: Any, **arguments: Any) -> Contestant:
    """The same, opened by a factory that gets its job and these arguments."""
    arguments |= job_of(contestant)
    return dataclasses.replace(contestant, factory=path_of(factory), arguments=arguments)


def paused(contestant: Contestant, pause: float) -> Contestant:
    """The same, sleeping for `pause` seconds before each run; the sleep is not in its times."""
    return within(contestant, open_paused, pause=pause)


def open_paused(factory: str, arguments: dict[str, Any], pause: float) -> _Paused:
    """What runs in the worker."""
    return _Paused(resolve(factory)(**arguments), pause)


class _Paused:
    def __init__(self, model: Any, pause: float) -> None:
        self._model, self._pause = model, pause

    def run(self) -> None:
        self._model.run()

    def outputs(self) -> list[np.ndarray]:
        return self._model.outputs()

    def seconds(self, number: int) -> float:
        total = 0.0
        for _ in range(number):
            time.sleep(self._pause)
            began = time.perf_counter()
            self._model.run()
            total += time.perf_counter() - began
        return total
