# SPDX-License-Identifier: Apache-2.0
"""A net of the benchmarks: a builder, the published figures, inputs to run it on.

Test: bench/test_models.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx


@dataclasses.dataclass(frozen=True)
class Net:
    """A net by name.

    build(batch) gives the model, with static shapes. parameters, macs: the figures to be checked
    against, of batch 1, from `source`; None where none is published. tolerance: how far, as a
    fraction, counted figures may be from them. limits: for inputs that are indices, how many
    values there are.
    """

    name: str
    title: str
    build: Callable[[int], onnx.ModelProto]
    source: str
    parameters: float | None = None
    macs: float | None = None
    tolerance: float = 0.0
    mac_tolerance: float = 0.01
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def Summary(self) -> str:
        return f"{self.name}: {self.title} ({self.source})"


def random_inputs(net: Net, model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Make arrays by input name: normal random numbers, indices below the net's limits; ones for
    other integers (masks, positions)."""
    rng = np.random.default_rng(seed)
    weights = {item.name for item in model.graph.initializer}
    arrays = {}
    for item in model.graph.input:
        if item.name in weights:
            continue
        tensor = item.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if item.name in net.limits:
            arrays[item.name] = rng.integers(0, net.limits[item.name], shape, "int64")
        elif dtype.kind == "f":
            arrays[item.name] = rng.standard_normal(shape, "float32").astype(dtype)
        else:
            arrays[item.name] = np.ones(shape, dtype)
    return arrays


def save(net: Net, model: onnx.ModelProto, folder: Path) -> tuple[str, str]:
    """Save the ONNX file in the folder, and an .npz file with random_inputs, arrays by name."""
    # Not above: a process of stock TVM builds nets, too.
    from tvm.relay.collage.exec.arrays import save_arrays

    file, inputs = folder / "net.onnx", folder / "inputs.npz"
    onnx.save(model, file)
    save_arrays(inputs, random_inputs(net, model))
    return str(file), str(inputs)
