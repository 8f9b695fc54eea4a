# SPDX-License-Identifier: Apache-2.0
"""Contestants whose library runs in a process that has no measuring: TVM's runtime without the
compiler, the C++ program of demos/cpp_deploy.

The worker starts such a process and asks for runs; it runs the library and takes the time. This
file is that process for Python. Test: bench/test_variants.py.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

# TVM's own variable: `import tvm` loads libtvm_runtime.so, and there is no Relay.
_RUNTIME_ALONE = "TVM_USE_RUNTIME_LIB"


class Served:
    """run() and seconds(number) of a process that answers a number on stdin with "seconds" and
    those of so many runs; a subclass knows how to get at outputs(). printed: the other lines that
    it wrote."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe, merged = subprocess.PIPE, {**os.environ, **environment}
        self._server = subprocess.Popen(command, env=merged, stdin=pipe, stdout=pipe, text=True)
        self.printed: list[str] = []
        self._ask("0")

    def run(self) -> None:
        self._ask("1")

    def seconds(self, number: int) -> float:
        return self._ask(str(number))

    def _ask(self, request: str) -> float:
        try:
            self._server.stdin.write(request + "\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and no line follows
        for line in self._server.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
            self.printed.append(line)
        raise RuntimeError(f"{self._server.args[0]} ended with {self._server.wait()}")


class ServedByPython(Served):
    """A library in a Python of other variables; a file's name is answered by outputs there."""

    def __init__(self, library: str, inputs: str, environment: Mapping[str, str]) -> None:
        super().__init__([sys.executable, "-P", __file__, library, inputs], environment)

    def outputs(self) -> list[np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "outputs.npz")
            self._ask(file)
            with np.load(file) as values:
                return [values[name] for name in values.files]


class ServedByCpp(Served):
    """A library in the C++ program, which prints the outputs first: "output" and the extents, then
    a number a line."""

    def __init__(self, program: str, library: str, inputs: str) -> None:
        with np.load(inputs) as values, tempfile.TemporaryDirectory() as folder:
            if [values[name].dtype for name in values.files] != ["float32"]:
                raise ValueError(f"{program} takes nets of one input of float32")
            (name,) = values.files
            file = str(Path(folder) / "input.bin")
            values[name].tofile(file)
            shape = "x".join(map(str, values[name].shape))
            super().__init__([program, library, name, shape, file, "serve"], {})

    def outputs(self) -> list[np.ndarray]:
        heads = [k for k, line in enumerate(self.printed) if line.startswith("output")]
        return [
            np.array(self.printed[head + 1 : end], "float32").reshape(
                [int(extent) for extent in self.printed[head].split()[1:]]
            )
            for head, end in zip(heads, [*heads[1:], len(self.printed)], strict=True)
        ]


def runtime_library(library: str, inputs: str) -> Served:
    """Serve a library in Python on libtvm_runtime.so and our runtime library, without Relay."""
    return ServedByPython(library, inputs, {_RUNTIME_ALONE: "1"})


def two_pools_library(library: str, inputs: str) -> Served:
    """Serve the same on TVM's own thread pool, beside the threads of the libraries of parts."""
    return ServedByPython(library, inputs, {_RUNTIME_ALONE: "1", "COLLAGE_DISABLE": "1"})


def cpp_library(program: str, library: str, inputs: str) -> Served:
    """Serve a library in the program of demos/cpp_deploy; the net has one input of float32."""
    return ServedByCpp(program, library, inputs)


def serve(library: str, inputs: str) -> None:
    """Answer requests: a number on stdin is so many runs of the library, a file's name wants
    outputs there. Ends with stdin."""
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    if os.environ.get(_RUNTIME_ALONE):
        import tvm_collage

        if tvm.get_global_func("relay._transform.InferType", allow_missing=True) is not None:
            raise RuntimeError("Relay is here, so this is not TVM's runtime alone")
        ours = tvm_collage.library_path("tvm_collage_runtime")
        ctypes.CDLL(ours, mode=ctypes.RTLD_GLOBAL)
    executor = GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))
    with np.load(inputs, allow_pickle=False) as values:
        for name in values.files:  # not as keywords: an input may be called "key"
            executor.set_input(name, values[name])

    for line in sys.stdin:
        request = line.strip()
        began = time.perf_counter()
        if request.isdigit():
            for _ in range(int(request)):
                executor.run()
        else:
            count = executor.get_num_outputs()
            np.savez(request, *(executor.get_output(k).numpy() for k in range(count)))
        print("seconds", time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
