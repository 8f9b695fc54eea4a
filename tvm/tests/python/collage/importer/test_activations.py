# SPDX-License-Identifier: Apache-2.0
"""Softplus and Mish, for numbers where TVM's own formula overflows or loses its digits."""

import numpy as np
import onnx_nets
import pytest
import tvm
from onnx import helper
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.importer.activations import ACTIVATIONS, activation

EXTREMES = [
    0.0,
    -0.0,
    1e-6,
    -1e-6,
    1.0,
    -1.0,
    19.9,
    20.1,
    88.0,
    89.0,
    1e4,
    3e38,
    -17.0,
    -88.0,
    -1e4,
]


def exact(op, x):
    """In float64, whose exponential does not overflow for what is below 700."""
    x = x.astype("float64")
    softplus = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return softplus if op == "Softplus" else x * np.tanh(softplus)


def run(mod, x):
    return relay.create_executor("graph", mod, target="llvm").evaluate()(x).numpy()


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_it_is_exact_where_tvm_is_not(op):
    x = np.concatenate([np.linspace(-30, 30, 501), EXTREMES]).astype("float32")
    nodes = [helper.make_node(op, ["x"], ["y"])]
    model = onnx_nets.model(nodes, [("x", x.shape)], [("y", x.shape)], {}, 18)
    ours = run(collage.from_onnx(model)[0], x)
    np.testing.assert_allclose(ours, exact(op, x), rtol=1e-6, atol=1e-37)
    with np.errstate(over="ignore"):
        stock = run(relay.frontend.from_onnx(model)[0], x)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(stock, exact(op, x), rtol=1e-6, atol=1e-37)


def test_other_types_are_left_to_tvm():
    x = relay.var("x", shape=(2,), dtype="float16")
    assert activation("Mish", [x], "float16") is None
    assert isinstance(activation("Mish", [x], "float32"), tvm.relay.Call)
