# SPDX-License-Identifier: Apache-2.0
"""Bounds of rounding errors: a table, by the coarsest type inside, and a comparison.

Assumption: rounding errors are independent, so they grow with the root of a sum's length; a table
of three steps is enough, because wrong results are wrong by far more than rounding. A file of its
own, since backends name its types and measuring compares by it. Test:
measure/outputs/test_reference.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Coarsest type inside -> tolerance when all sums together have up to SHORT terms, up to LONG, more.
# An element may be off by the tolerance times (its size + the root mean square of its tensor).
# "8 bit" stands for floats that were rounded to 8 bits on the way: one step is 1/128 of the range;
# "int8 weights" for products whose weights are, by column, and what they are multiplied with.
SHORT, LONG = 1024, 65536
RELATIVE = {
    "float64": (1e-10, 1e-9, 1e-8),
    "float32": (1e-4, 3e-4, 1e-3),
    "float16": (1e-2, 3e-2, 1e-1),
    "bfloat16": (5e-2, 1e-1, 2e-1),
    "int8 weights": (5e-2, 1e-1, 2e-1),
    "8 bit": (3e-2, 1e-1, 3e-1),
}
# The same of a whole model's outputs, as a share of the largest value: its errors add up, and one
# step of 8 bits that falls the other way moves all that follows.
OUTPUT = {
    "float64": 1e-4,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "int8 weights": 5e-2,
    "8 bit": 1e-1,
}
# What is off by more than that is not off by the rounding of 32 bits, whoever computed it.
ROUNDING = 1e-2
# Types of outputs that may be off by steps.
EIGHT_BITS = ("int8", "uint8")
# Booleans, and indices of a greatest value, computed from floats: so many may flip at a near tie.
_FLIPS = 1e-3


class Tolerance(NamedTuple):
    """relative: as in RELATIVE, 0 where all is whole numbers; steps: of an 8-bit output."""

    relative: float
    steps: int


def mismatch(
    outputs: Iterable[np.ndarray], truth: Iterable[np.ndarray], tolerance: Tolerance
) -> str:
    """Say where outputs differ most and by how much; "" when they are within the tolerance.

    Nothing is asked where the reference is no finite number: what it stands for is not defined.
    """
    outputs, truth = list(outputs), list(truth)
    if len(outputs) != len(truth):
        return f"{len(outputs)} outputs, TVM has {len(truth)}"
    for number, (a, b) in enumerate(zip(outputs, truth, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"output {number} is {a.dtype}{a.shape}, TVM's is {b.dtype}{b.shape}"
        text = _worst(a, b, tolerance)
        if text:
            return f"output {number} {text}"
    return ""


def widened(
    tolerance: Tolerance, outputs: Iterable[np.ndarray], truth: Iterable[np.ndarray]
) -> Tolerance:
    """The tolerance that these outputs need too, which are off the truth by rounding alone."""
    found = max(map(_relative, outputs, truth), default=0.0)
    is_rounding = tolerance.relative < found <= ROUNDING
    return tolerance._replace(relative=found) if is_rounding else tolerance


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    """The tolerance that floats need; 0 for what has no floats."""
    if b.dtype.kind != "f" or not b.size:
        return 0.0
    defined = np.isfinite(b)
    known = np.where(defined, b, 0.0).astype("float64")
    bound = np.abs(known) + _root_mean_square(known)
    error = np.where(defined, np.abs(a.astype("float64") - known), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(error > 0, error / bound, 0.0)))


def _worst(a: np.ndarray, b: np.ndarray, tolerance: Tolerance) -> str:
    """The element that is furthest out of its bounds; "" when none is."""
    flips = _FLIPS if tolerance.relative else 0.0
    is_float = b.dtype.kind not in "biu"
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    with np.errstate(invalid="ignore"):
        error = np.abs(wide_a - wide_b)
    defined = np.isfinite(wide_b)
    error = np.where(defined, np.where(np.isfinite(error), error, np.inf), 0.0)
    known = np.where(defined, wide_b, 0.0)
    bound = tolerance.relative * (np.abs(known) + _root_mean_square(known))
    if b.dtype.name in EIGHT_BITS:
        bound = np.full(b.shape, float(tolerance.steps))
    elif not is_float and np.count_nonzero(error) <= flips * error.size:
        return ""
    if not error.size or not (error > bound).any():
        return ""
    at = np.unravel_index(np.argmax(error - bound), error.shape)
    place = f"[{', '.join(str(int(i)) for i in at)}]"
    return (
        f"at {place} is {a[at]}, TVM's is {b[at]}: off by {error[at]:.3g}, allowed {bound[at]:.3g}"
    )


def _root_mean_square(values: np.ndarray) -> float:
    return math.sqrt(np.mean(values**2)) if values.size else 0.0
