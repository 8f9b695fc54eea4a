# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions are recognised by their values, with their parameters."""

import math

import numpy as np
import pytest
import tvm
from onednn_nets import (
    assert_close,
    build,
    check_all,
    constant,
    function_of,
    hand_placed,
    reference,
    run,
)
from tvm import relay
from tvm.relay.collage.backends import greedy_partition
from tvm.relay.collage.backends.partition.functions import match_function

nn = relay.nn

erf = np.vectorize(math.erf, otypes=["float64"])

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
    (lambda x: np.clip(x, -0.1, 0.1), "clip", -0.1, 0.1),
    (lambda x: x * np.clip(x + 3, 0, 6) / 6, "hardswish", 1 / 6, 0.5),
    (lambda x: x * np.clip(x + 15, 0, 30) / 30, "hardswish", 1 / 30, 0.5),
    (lambda x: np.clip(0.2 * x + 0.5, 0, 1), "hardsigmoid", 0.2, 0.5),
    (lambda x: np.clip(x + 3, 0, 6) / 6, "hardsigmoid", 1 / 6, 0.5),
    (
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "gelu_tanh", 0.0, 0.0,
    ),
    (lambda x: x * np.tanh(np.log(1 + np.exp(x))), "mish", 0.0, 0.0),
    (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), "gelu_erf", 0.0, 0.0),
    (lambda x: np.maximum(x, 0) - 1.5 * np.maximum(1 - np.exp(x), 0), "elu", 1.5, 0.0),
    (np.tanh, "tanh", 0.0, 0.0),
    (lambda x: 2 / (1 + np.exp(-2 * x)) - 1, "tanh", 0.0, 0.0),
    (lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)), "swish", 1.0, 0.0),
    (np.exp, "exp", 0.0, 0.0),
    (np.log, "log", 0.0, 0.0),
    (np.abs, "relu", -1.0, 0.0),
    (lambda x: x * x, "square", 0.0, 0.0),
    (np.sqrt, "sqrt", 0.0, 0.0),
    (lambda x: x**3, "pow", 1.0, 3.0),
    (lambda x: 2.0 / x, "pow", 2.0, -1.0),
    (lambda x: 1.0 / np.sqrt(x), "pow", 1.0, -0.5),
    (lambda x: 1e-8 * x, "linear", 1e-8, 0.0),
]  # fmt: skip

# How exactly functions are compared whose scalars are of this type.
FLOAT32, BFLOAT16 = 2e-6, 2e-2


@pytest.mark.parametrize("function, kind, alpha, beta", KNOWN)
def test_known(function, kind, alpha, beta):
    found = match_function(function)
    assert found is not None and found.kind == kind
    assert found.alpha == pytest.approx(alpha, abs=1e-6)
    assert found.beta == pytest.approx(beta, abs=1e-6)


def rounded(value):
    """Return the nearest bfloat16."""
    bits = np.array(value, "float32").view("uint32")
    return float(((bits + 0x8000) & 0xFFFF0000).astype("uint32").view("float32"))


SCALED_GELU = rounded(math.sqrt(2 / math.pi)), rounded(0.044715)
KNOWN_IN_BFLOAT16 = [
    (lambda x: 0.5 * x * (1 + erf(x * rounded(math.sqrt(0.5)))), {"gelu_erf"}),
    # The two differ by less than a unit in bfloat16's last place.
    (
        lambda x: 0.5 * x * (1 + np.tanh(SCALED_GELU[0] * (x + SCALED_GELU[1] * x**3))),
        {"gelu_erf", "gelu_tanh"},
    ),
    (lambda x: x * np.clip(x + 3, 0, 6) * rounded(1 / 6), {"hardswish"}),
    (lambda x: np.clip(rounded(0.2) * x + 0.5, 0, 1), {"hardsigmoid"}),
    (lambda x: x / (1 + np.exp(-rounded(1.702) * x)), {"swish"}),
    *[(function, {kind}) for function, kind, _, _ in KNOWN if "gelu" not in kind],
]


@pytest.mark.parametrize("function, kinds", KNOWN_IN_BFLOAT16)
def test_known_in_bfloat16(function, kinds):
    assert match_function(function, BFLOAT16).kind in kinds


UNKNOWN = [
    np.sin,
    np.floor,
    np.sinh,
    lambda x: x**3 + x,
    lambda x: np.exp(np.clip(x, -30, 30)),
    lambda x: np.maximum(x - 13, 0),
    lambda x: 1e-8 * np.tanh(x),
    lambda x: np.clip(1e-8 * np.tanh(x), -1, 1),
    # Saturated where x is small.
    lambda x: np.clip(2 * x, -0.1, 0.1),
    lambda x: np.clip(20 * x, 0, 0.1),
    lambda x: 0.1 * np.tanh(100 * x),
    lambda x: np.clip(1e4 * x, -0.01, 0.01),
    # No line: infinity has another value.
    lambda x: np.maximum(x, np.finfo("float32").min),
    lambda x: np.minimum(x, np.finfo("float32").max),
    # Not 0 where its like is, so that one may divide by it.
    lambda x: np.sqrt(x + 1e-6),
    lambda x: np.sqrt(x + 1e-14),
    lambda x: 1 / np.sqrt(x + 1e-12),
    lambda x: np.log(np.maximum(x, 0) + 1e-6),
    lambda x: np.abs(x) + 1e-8,
    lambda x: x * x + 1e-8,
    lambda x: 1 / (1 + np.exp(-x)) + 1e-8,
    lambda x: np.exp(x) + 1e-8,
]


@pytest.mark.parametrize("precision", [FLOAT32, BFLOAT16])
@pytest.mark.parametrize("function", UNKNOWN)
def test_unknown(function, precision):
    assert match_function(function, precision) is None


LIMIT = float(np.finfo("float32").max)


@pytest.mark.parametrize(
    "low, high", [(-LIMIT, LIMIT), (1e-5, LIMIT), (-LIMIT, 6.0), (-1e36, 1e36)]
)
def test_clip_keeps_its_bounds(low, high):
    found = match_function(lambda x: np.clip(x, low, high))
    assert (found.kind, found.alpha, found.beta) == ("clip", low, high)


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
    "steep_clip": lambda x: relay.clip(const(2) * x, -0.1, 0.1),
}


def test_large_inputs():
    """dense, then the function, on values of up to some hundreds."""
    data = relay.var("x", shape=(16, 32))
    bodies = {name: make(nn.dense(data, constant(1, 24, 32))) for name, make in FAR.items()}
    inputs = {"x": np.random.default_rng(0).standard_normal((16, 32)).astype("float32") * 20}
    check_all(bodies, inputs_of=lambda _: inputs)
    function = function_of(relay.Tuple(list(bodies.values())))
    mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
    assert any("Compiler" in (f.attrs or {}) for f in mod.functions.values())
    assert_close(run(build(mod), inputs), reference(function, inputs))


# What has other values at infinity than a simpler function: masks are made of it.
AT_INFINITY = {
    "mask": lambda x: relay.maximum(x, const(-LIMIT)),
    "clamp_min": lambda x: relay.clip(x, 0.5, LIMIT),
    "clamp": lambda x: relay.clip(x, -0.5, 0.5),
    "at_least": lambda x: relay.clip(x, 0.5, math.inf),
    "at_most": lambda x: relay.clip(x, -math.inf, 0.5),
    "at_least_0": lambda x: relay.clip(x, 0.0, math.inf),
    "unbounded": lambda x: relay.clip(x, -math.inf, math.inf),
    "relu": relay.nn.relu,
    "leaky_relu": lambda x: relay.nn.leaky_relu(x, 0.1),
    "linear": lambda x: x * const(-2) + const(1),
    "sigmoid": relay.sigmoid,
    "tanh": relay.tanh,
    "exp": relay.exp,
    "abs": relay.abs,
}


def test_values_at_infinity_are_tvms():
    values = np.array([np.inf, -np.inf, LIMIT, -LIMIT, 1e33, 0.0], "float32")
    x = relay.var("x", shape=values.shape)
    function = function_of(relay.Tuple([make(x) for make in AT_INFINITY.values()]))
    found = run(build(hand_placed(function)), {"x": values})
    wanted = reference(function, {"x": values})
    for name, got, right in zip(AT_INFINITY, found, wanted, strict=True):
        np.testing.assert_allclose(got, right, err_msg=name)


def test_a_row_that_is_masked_as_a_whole_is_uniform():
    scores = relay.var("x", shape=(2, 4)) + relay.var("mask", shape=(2, 4))
    function = function_of(relay.nn.softmax(relay.maximum(scores, const(-LIMIT))))
    mask = np.array([[-np.inf] * 4, [0, 0, -np.inf, -np.inf]], "float32")
    inputs = {"x": np.ones((2, 4), "float32"), "mask": mask}
    (got,) = run(build(hand_placed(function)), inputs)
    np.testing.assert_allclose(got, [[0.25] * 4, [0.5, 0.5, 0, 0]])
