# SPDX-License-Identifier: Apache-2.0
"""Activations that TVM's importer writes in a way that overflows or loses digits.

TVM writes log(1 + exp(x)), which is infinite from 89 on, and has few digits left where exp(x) is
small. Test: importer/test_activations.py. Docs: docs/import.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

# Of the series of log(1 + e) = 2 artanh(z) with z = e / (2 + e) <= 1/3: 1/3, 1/5, ... The first
# term that is left out is below 2^-24 of the sum.
_TERMS = tuple(1.0 / power for power in range(3, 15, 2))
# From here on tanh(log(1 + exp(x))) is 1 in float32, and exp(x)^2 is far from overflowing.
_ONE = 20.0


def activation(op: str, inputs: Sequence[relay.Expr], dtype: str) -> Any | None:
    """Return the result of a node of an operator of ACTIVATIONS; None for a type that is left to
    TVM."""
    return ACTIVATIONS[op](inputs[0]) if dtype == "float32" else None


def _number(value: float) -> relay.Constant:
    return relay.const(np.float32(value))


def softplus(x: relay.Expr) -> Any:
    """Return max(x, 0) + log(1 + exp(-|x|)), whose exponential is at most 1."""
    small = relay.exp(relay.negative(relay.abs(x)))
    z = small / (small + _number(2.0))
    square = z * z
    series = _number(_TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        series = series * square + _number(term)
    return relay.nn.relu(x) + (series * square + _number(1.0)) * (z + z)


def mish(x: relay.Expr) -> Any:
    """Return x * tanh(log(1 + e)) = x * e (e + 2) / (e (e + 2) + 2) with e = exp(x)."""
    e = relay.exp(relay.minimum(x, _number(_ONE)))
    n = e * (e + _number(2.0))
    return x * (n / (n + _number(2.0)))


ACTIVATIONS = {"Mish": mish, "Softplus": softplus}
