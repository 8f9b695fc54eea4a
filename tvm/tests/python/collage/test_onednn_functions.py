# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions are recognised by their values, with their parameters."""

import math

import numpy as np
import pytest
import tvm
from onednn_nets import assert_close, build, constant, function_of, hand_placed, reference, run
from tvm import relay
from tvm.relay.collage.backends import greedy_partition
from tvm.relay.collage.backends.dnnl.functions import match_function

KNOWN = [
    (lambda x: 3.0 * x - 1.5, "linear", 3.0, -1.5),
    (lambda x: np.maximum(x, 0), "relu", 0.0, 0.0),
    (lambda x: np.where(x > 0, x, 0.2 * x), "relu", 0.2, 0.0),
    (lambda x: np.clip(x, -1.0, 2.5), "clip", -1.0, 2.5),
    (lambda x: 1 / (1 + np.exp(-x)), "sigmoid", 0.0, 0.0),
    (lambda x: x / (1 + np.exp(-1.702 * x)), "swish", 1.702, 0.0),
    (lambda x: np.clip(x, 0, 20), "clip", 0.0, 20.0),
    (lambda x: np.clip(x, 0, 255), "clip", 0.0, 255.0),
    (lambda x: np.clip(x, -20, 20), "clip", -20.0, 20.0),
    (lambda x: np.minimum(np.maximum(x, -15), 50), "clip", -15.0, 50.0),
    (lambda x: np.clip(x, -3.0e38, 3.0e38), "linear", 1.0, 0.0),
    (lambda x: x * np.clip(x + 3, 0, 6) / 6, "hardswish", 1 / 6, 0.5),
    (lambda x: x * np.clip(x + 15, 0, 30) / 30, "hardswish", 1 / 30, 0.5),
    (lambda x: np.clip(0.2 * x + 0.5, 0, 1), "hardsigmoid", 0.2, 0.5),
    (lambda x: np.clip(x + 3, 0, 6) / 6, "hardsigmoid", 1 / 6, 0.5),
    (
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "gelu_tanh", 0.0, 0.0,
    ),
    (lambda x: x * np.tanh(np.log(1 + np.exp(x))), "mish", 0.0, 0.0),
    (lambda x: x * x, "square", 0.0, 0.0),
    (np.sqrt, "sqrt", 0.0, 0.0),
    (lambda x: x**3, "pow", 1.0, 3.0),
    (lambda x: 2.0 / x, "pow", 2.0, -1.0),
    (lambda x: 1.0 / np.sqrt(x), "pow", 1.0, -0.5),
    (lambda x: 1e-8 * x, "linear", 1e-8, 0.0),
]  # fmt: skip


@pytest.mark.parametrize("function, kind, alpha, beta", KNOWN)
def test_known(function, kind, alpha, beta):
    found = match_function(function)
    assert found is not None and found.kind == kind
    assert found.alpha == pytest.approx(alpha, abs=1e-6)
    assert found.beta == pytest.approx(beta, abs=1e-6)


UNKNOWN = [
    np.sin,
    np.floor,
    np.sinh,
    lambda x: x**3 + x,
    lambda x: np.exp(np.clip(x, -30, 30)),
    lambda x: np.maximum(x - 13, 0),
    lambda x: 1e-8 * np.tanh(x),
    lambda x: np.clip(1e-8 * np.tanh(x), -1, 1),
]


@pytest.mark.parametrize("function", UNKNOWN)
def test_unknown(function):
    assert match_function(function) is None


def const(value):
    return relay.const(float(value))


# Functions that differ from simpler ones only where values are large, or small.
FAR = {
    "relu20": lambda x: relay.clip(x, 0, 20),
    "clip20": lambda x: relay.clip(x, -20, 20),
    "minimum_of_maximum": lambda x: relay.minimum(relay.maximum(x, const(-15)), const(50)),
    "byte": lambda x: relay.clip(x, 0, 255),
    "wide_hardswish": lambda x: x * relay.clip(x + const(15), 0, 30) / const(30),
    "exp_of_clip": lambda x: relay.exp(relay.clip(x, -30, 30)),
    "small_tanh": lambda x: relay.tanh(x) * const(1e-8),
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("place", [greedy_partition, hand_placed])
def test_large_inputs(name, place):
    """dense, then the function, on values of up to some hundreds."""
    body = FAR[name](relay.nn.dense(relay.var("x", shape=(16, 32)), constant(1, 24, 32)))
    function = function_of(body)
    if place is greedy_partition:
        mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
        assert any("Compiler" in (f.attrs or {}) for f in mod.functions.values())
    else:
        mod = hand_placed(function)
    inputs = {"x": np.random.default_rng(0).standard_normal((16, 32)).astype("float32") * 20}
    assert_close(run(build(mod), inputs), reference(function, inputs))
