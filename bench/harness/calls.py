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
from tvm.relay.collage.measure.peers import PeerRunnable, arrays_of, open_session


def runner_called(library: str, inputs: str) -> Any:
    """Open Collage's runner."""
    from tvm_collage.runner import load_runner

    runner, values = load_runner(library), arrays_of(inputs)
    return PeerRunnable(lambda: runner(values), lambda answer: answer)


def graph_module_called(library: str, inputs: str) -> Any:
    """Open TVM's GraphModule: each input is set, then a run, and each output is read."""
    executor, values = _graph_module(library), arrays_of(inputs)
    outputs = range(executor.get_num_outputs())

    def run() -> list[Any]:
        for name, value in values.items():
            executor.set_input(name, value)
        executor.run()
        return [executor.get_output(index).numpy() for index in outputs]

    return PeerRunnable(run, lambda answer: answer)


def _graph_module(library: str) -> Any:
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    return GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))


def onnxruntime_called(model: str, inputs: str, threads: int) -> Any:
    """Open onnxruntime as its `run` is called, with arrays and for arrays."""
    session, values = open_session(model, threads), arrays_of(inputs)
    return PeerRunnable(lambda: session.run(None, values), lambda answer: answer)


def paused(contestant: Contestant, pause: float) -> Contestant:
    """Return the same, sleeping for `pause` seconds before each run; the sleep is not in its
    times."""
    arguments = {"factory": contestant.factory, "arguments": dict(contestant.arguments)}
    arguments |= {"pause": pause}
    return dataclasses.replace(contestant, factory=path_of(open_paused), arguments=arguments)


def open_paused(factory: str, arguments: dict[str, Any], pause: float) -> _Paused:
    """Open it in the worker."""
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
