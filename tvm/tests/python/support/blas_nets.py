# SPDX-License-Identifier: Apache-2.0
"""What the BLAS tests share: which of the two libraries are here, partitions, numpy's results."""

import numpy as np
import pytest
import tvm
from onednn_nets import build, hand_placed, run
from tvm import relay
from tvm.relay.collage.backends import get_backend

BACKENDS = ("cblas", "mkl")


def require(backend: str) -> None:
    """Skip the test, saying why, where the backend cannot run."""
    reason = get_backend(backend).available()
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")


@pytest.fixture(params=BACKENDS)
def backend(request) -> str:
    """Each BLAS backend that can run here."""
    require(request.param)
    return request.param


def values(seed: int, shape, dtype="float32") -> np.ndarray:
    """Return normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def partition(backend: str, body) -> tvm.IRModule:
    """Return a module whose main calls the expression as one partition of the backend."""
    function = relay.Function(relay.analysis.free_vars(body), body)
    mod = hand_placed(function, "part")
    part = mod.get_global_var("part")
    mod[part] = mod[part].with_attr("Compiler", backend)
    return relay.transform.InferType()(mod)


def run_partition(backend: str, body, inputs: dict) -> list[np.ndarray]:
    """Return the outputs of the expression as one partition, run by the graph executor."""
    return run(build(partition(backend, body)), inputs)


def assert_equal(got: np.ndarray, wanted: np.ndarray) -> None:
    """Compare within what the order of additions can change, and exactly in shape and dtype."""
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    accuracy = 1e-4 if got.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, wanted, rtol=accuracy, atol=accuracy * np.abs(wanted).max())


def swapped(array: np.ndarray) -> np.ndarray:
    """Return the array with its last two axes exchanged, compact."""
    return np.ascontiguousarray(np.swapaxes(array, -1, -2))
