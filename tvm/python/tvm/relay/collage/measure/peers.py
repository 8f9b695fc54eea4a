# SPDX-License-Identifier: Apache-2.0
"""The frameworks that a user could pick instead, as contestants of measure.compare on an ONNX file.
Test: measure/test_peers.py, cli/test_bench.py.

Factories are called in a process of their own, with the file and the inputs (.npz, arrays by name).
What is not installed is found out without importing it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..exec.arrays import sets_of
from ..ops.onnx_session import session_of
from .race.race import Contestant


@dataclasses.dataclass(frozen=True)
class Peer:
    """A framework: the package it needs, the factory of its contestant ("module:function")."""

    name: str
    package: str
    factory: str

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def contestant(
        self, model: str, inputs: str, environment: Mapping[str, str], name: str = "", **more: Any
    ) -> Contestant:
        """Return the contestant, by its own name unless another is given; the environment's
        TVM_NUM_THREADS says how many threads it takes. `more`: further arguments of the factory."""
        threads = int(environment["TVM_NUM_THREADS"])
        arguments = {"model": model, "inputs": inputs, "threads": threads, **more}
        environment = {**environment, **untouched_variables()}
        return Contestant(name or self.name, self.factory, arguments, environment=environment)


PEERS = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", "onnxruntime", f"{__name__}:onnxruntime_session"),
        Peer("openvino", "openvino", f"{__name__}:openvino_model"),
    )
}

# Variables that our `import tvm` sets where the user has not, with the libraries' own defaults:
# OpenMP's spins (the one of torch), TVM's binding of its threads to CPUs (stock TVM).
_DEFAULTS = {"GOMP_SPINCOUNT": "300000", "TVM_BIND_THREADS": "1"}


def untouched_variables(file: str = "/proc/self/environ") -> dict[str, str]:
    """Return the variables for who is not ours: _DEFAULTS, or what the user had set when this
    process started."""
    pairs = (item.partition("=") for item in Path(file).read_text().split("\0"))
    users = {name: value for name, _, value in pairs}
    return {name: users.get(name, value) for name, value in _DEFAULTS.items()}


def onnxruntime_session(model: str, inputs: str, threads: int, sets: int = 0) -> Any:
    """onnxruntime on its own CPU provider, on arrays that are bound once: a run neither takes nor
    gives any, as nobody's does. An output of which the file says a wrong rank cannot be bound: then
    a run gives arrays. Of so many stacked sets of inputs the first is timed."""
    session, rows = session_of(model, threads, is_optimized=True), sets_of(arrays_of(inputs), sets)
    values = rows[0]

    def outputs(_: Any) -> list[np.ndarray]:
        return [array for row in rows for array in session.run(None, row)]

    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    try:
        for _ in range(2):  # the second writes to what the first has given
            session.run_with_iobinding(binding)
    except RuntimeError:
        return PeerRunnable(lambda: session.run(None, values), outputs)
    return PeerRunnable(lambda: session.run_with_iobinding(binding), outputs)


def openvino_model(
    model: str, inputs: str, threads: int, precision: str = "f32", sets: int = 0
) -> Any:
    """OpenVINO set up for latency, in fp32 unless another type is given (on some CPUs it would
    choose bf16). Of so many stacked sets of inputs the first is timed."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    rows = sets_of(arrays_of(inputs), sets)

    def set_inputs(row: Mapping[str, np.ndarray]) -> None:
        for name, value in row.items():
            request.set_tensor(name, openvino.Tensor(value))

    def outputs(_: Any) -> list[np.ndarray]:
        found = []
        for row in rows:
            set_inputs(row)
            request.infer(share_outputs=True)
            found += [np.array(request.get_tensor(port).data) for port in compiled.outputs]
        set_inputs(rows[0])
        return found

    set_inputs(rows[0])
    # Shared: its outputs are not copied in each run, as nobody's are.
    return PeerRunnable(lambda: request.infer(share_outputs=True), outputs)


class PeerRunnable:
    """A contestant as measuring wants it: run() and outputs()."""

    def __init__(self, run: Callable[[], Any], outputs: Callable[[Any], list[np.ndarray]]) -> None:
        self.run = run
        self._outputs = outputs

    def outputs(self) -> list[np.ndarray]:
        return self._outputs(self.run())


def arrays_of(file: str) -> dict[str, np.ndarray]:
    """Read what an .npz file holds, by name."""
    with np.load(file, allow_pickle=False) as values:
        return {name: values[name] for name in values.files}
