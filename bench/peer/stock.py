# SPDX-License-Identifier: Apache-2.0
"""A library on stock TVM, its own thread pool included, as a contestant of measure.compare.

Without Collage (COLLAGE_DISABLE=1) its measuring is not there either: the worker starts this file
as a process that runs the library on request and takes the time. Test: test_bench_peers.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


class StockLibrary:
    """run(), seconds(number) and outputs() of a library file in a process of stock TVM."""

    def __init__(self, library: str, inputs: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__, library, inputs],
            env={**os.environ, "COLLAGE_DISABLE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask("0")

    def run(self) -> None:
        self._ask("1")

    def seconds(self, number: int) -> float:
        return float(self._ask(str(number)))

    def outputs(self) -> list[np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "outputs.npz")
            self._ask(file)
            with np.load(file) as values:
                return [values[name] for name in values.files]

    def _ask(self, request: str) -> str:
        try:
            self._server.stdin.write(request + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"the process of stock TVM ended with {self._server.wait()}")
        return answer


def stock_library(library: str, inputs: str) -> StockLibrary:
    return StockLibrary(library, inputs)


def serve(library: str, inputs: str) -> None:
    """A number: the seconds of so many runs; a file: the outputs go there. Ends with stdin."""
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    executor = GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))
    with np.load(inputs, allow_pickle=False) as values:
        executor.set_input(**{name: values[name] for name in values.files})
    run = executor.module["run"]
    for line in sys.stdin:
        request = line.strip()
        began = time.perf_counter()
        if request.isdigit():
            for _ in range(int(request)):
                run()
        else:
            count = executor.get_num_outputs()
            np.savez(request, *(executor.get_output(k).numpy() for k in range(count)))
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
