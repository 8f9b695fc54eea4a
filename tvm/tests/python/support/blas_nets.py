# SPDX-License-Identifier: Apache-2.0
"""What the BLAS tests share: which of the two libraries are here, parts, numpy's results."""

import numpy as np
import pytest
import tvm
from onednn_nets import function_of, hand_placed
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


def variable(name: str, array: np.ndarray) -> relay.Var:
    """Return a variable of the array's type."""
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def partition(backend: str, body) -> tvm.IRModule:
    """Return a module whose main calls the expression as one partition of the backend."""
    mod = hand_placed(function_of(body), "part")
    part = mod.get_global_var("part")
    mod[part] = mod[part].with_attr("Compiler", backend)
    return relay.transform.InferType()(mod)


def compiled(backend: str, body):
    """Return the function that runs the expression as one part: inputs, then its output."""
    part = partition(backend, body)["part"]
    module = get_backend(backend).compile(part)
    if weights := [node.data for node in constants_of(part)]:
        module["__init_part"](weights)
    module["part"].keep_alive = module
    return module["part"]


def constants_of(function) -> list[relay.Constant]:
    """Return the function's constants in the order in which they are first read."""
    found = []
    relay.analysis.post_order_visit(function, found.append)
    return [node for node in found if isinstance(node, relay.Constant)]


def computed(backend: str, body, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return the expression's value, computed as one part."""
    given = [tvm.nd.array(inputs[var.name_hint]) for var in relay.analysis.free_vars(body)]
    kind = relay.transform.InferTypeLocal(body)
    out = tvm.nd.empty([int(extent) for extent in kind.shape], kind.dtype)
    compiled(backend, body)(*given, out)
    return out.numpy()


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product, computed in float64."""
    return np.matmul(a.astype("float64"), b.astype("float64")).astype(a.dtype)


def assert_equal(got: np.ndarray, wanted: np.ndarray) -> None:
    """Compare within what the order of additions can change, and exactly in shape and dtype."""
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    accuracy = 1e-4 if got.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, wanted, rtol=accuracy, atol=accuracy * np.abs(wanted).max())


def swapped(array: np.ndarray) -> np.ndarray:
    """Return the array with its last two axes exchanged, compact."""
    return np.ascontiguousarray(np.swapaxes(array, -1, -2))
