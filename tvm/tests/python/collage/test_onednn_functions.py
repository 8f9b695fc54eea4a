# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions are recognised by their values, with their parameters."""

import math

import numpy as np
import pytest
from tvm.relay.collage.backends.dnnl.functions import match_function

KNOWN = [
    (lambda x: 3.0 * x - 1.5, "linear", 3.0, -1.5),
    (lambda x: np.maximum(x, 0), "relu", 0.0, 0.0),
    (lambda x: np.where(x > 0, x, 0.2 * x), "relu", 0.2, 0.0),
    (lambda x: np.clip(x, -1.0, 2.5), "clip", -1.0, 2.5),
    (lambda x: 1 / (1 + np.exp(-x)), "sigmoid", 0.0, 0.0),
    (lambda x: x / (1 + np.exp(-1.702 * x)), "swish", 1.702, 0.0),
    (lambda x: x * np.clip(x + 3, 0, 6) / 6, "hardswish", 1 / 6, 0.5),
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
]  # fmt: skip


@pytest.mark.parametrize("function, kind, alpha, beta", KNOWN)
def test_known(function, kind, alpha, beta):
    found = match_function(function)
    assert found is not None and found.kind == kind
    assert found.alpha == pytest.approx(alpha, abs=1e-6)
    assert found.beta == pytest.approx(beta, abs=1e-6)


@pytest.mark.parametrize("function", [np.sin, np.floor, np.sinh, lambda x: x**3 + x])
def test_unknown(function):
    assert match_function(function) is None
