# SPDX-License-Identifier: Apache-2.0
"""A library as contestants of measure.compare that take arrays and give arrays in each run, as a
program that serves a model does. Test: bench/test_runner.py."""

from __future__ import annotations

from typing import Any

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


def only_run(library: str, inputs: str) -> Any:
    """The run alone, on inputs that were set before: what no way of calling can be faster than."""
    executor = _graph_module(library)
    for name, value in arrays_of(inputs).items():
        executor.set_input(name, value)
    count = executor.get_num_outputs()
    return Runnable(
        executor.module["run"], lambda _: [executor.get_output(k).numpy() for k in range(count)]
    )


def _graph_module(library: str) -> Any:
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    return GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))
