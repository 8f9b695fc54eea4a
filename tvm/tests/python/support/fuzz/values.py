# SPDX-License-Identifier: Apache-2.0
"""What an element must be: its value in float64, and a bound of how far a right result may be off.

Bounds follow the operations (running error analysis): each adds its own roundings to what its
operands may be off by, times the operation's slope there. Test: backends/test_fuzz.py.
Docs: docs/testing.md.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Limits:
    """unit: the largest relative error of one rounding; tiny: below it numbers may become 0."""

    unit: float
    tiny: float
    largest: float


FLOATS = {
    "float32": Limits(2.0**-24, 2.0**-126, float(np.finfo("float32").max)),
    # The reference itself is no more precise.
    "float64": Limits(2.0**-52, 2.0**-1022, float(np.finfo("float64").max)),
    "float16": Limits(2.0**-11, 2.0**-14, 65504.0),
    "bfloat16": Limits(2.0**-8, 2.0**-126, 3.3e38),
}
# Errors that are no bounds.
NOT_ASKED = np.inf  # what is right depends on the order of operations or on the implementation
NOT_FINITE = -1.0  # an infinity or NaN, whichever


@dataclasses.dataclass(frozen=True)
class Value:
    """`value`: float64, or integers of `dtype`; `error`: a bound for each element, or one of the
    two above; 0 also says that an infinity or NaN is one for certain."""

    value: np.ndarray
    error: np.ndarray
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def rank(self) -> int:
        return self.value.ndim

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> "Value":
        """The value with elements moved, repeated or left out."""
        return Value(change(self.value), change(self.error), self.dtype)

    def asked(self) -> "Value":
        """As an operand: of what is one of two things nothing is known."""
        error = np.where(self.error < 0, NOT_ASKED, self.error)
        return Value(self.value, error, self.dtype)

    def array(self) -> np.ndarray:
        """The nearest array of the type: what to feed where this is an input; NaN if not asked."""
        with np.errstate(all="ignore"):
            return self.value.astype("float32" if self.dtype == "bfloat16" else self.dtype)


def exact(array: np.ndarray, dtype: str | None = None) -> Value:
    """What is given. Denormals may be taken for 0."""
    dtype = dtype or str(array.dtype)
    if dtype not in FLOATS:
        return Value(array, np.zeros(array.shape), dtype)
    wide = array.astype("float64")
    small = np.abs(wide) < FLOATS[dtype].tiny
    return Value(wide, np.where(small & (wide != 0), np.abs(wide), 0.0), dtype)


def rounded(
    value: np.ndarray,
    error: np.ndarray,
    dtype: str,
    operands: Sequence[Value],
    units: float = 1.0,
    absolute: float = 0.0,
    keeps_nan: bool = True,
) -> Value:
    """The result of an elementwise operation. error: what comes of the operands'.

    units, absolute: what the operation adds, in units of the type, of the value and of 1. Nothing
    is asked where finite operands give none, infinities a NaN, or (unless keeps_nan) of NaN.
    """
    limits = FLOATS[dtype]
    with np.errstate(all="ignore"):
        size = np.abs(value)
        error = error + limits.unit * (units * size + absolute)
        error = error + np.where((value != 0) | (error > 0), limits.tiny, 0.0)
        is_large = size + error > limits.largest * (1 - 4 * limits.unit)
        error = np.where(np.isnan(error) | is_large, NOT_ASKED, error)
        finite = np.isfinite(value)
        given = [np.broadcast_arrays(each.value, each.error, value)[:2] for each in operands]
        if not given:
            return Value(value, error, dtype)
        was_nan = np.any([np.isnan(v) for v, _ in given], axis=0)
        was_finite = np.all([np.isfinite(v) for v, _ in given], axis=0)
        sure = np.all([(e == 0) | (np.abs(v) > e) for v, e in given], axis=0)
        is_known = sure & np.where(np.isnan(value), was_nan & keeps_nan, ~was_finite)
        error = np.where(finite, error, np.where(is_known, 0.0, NOT_ASKED))
        if not keeps_nan:
            error = np.where(was_nan, NOT_ASKED, error)
        unknown = np.any([np.isinf(e) for _, e in given], axis=0)
    return Value(value, np.where(unknown, NOT_ASKED, error), dtype)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b for bounds: none of something infinite is none."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | (b == 0), 0.0, a * b)


def bilinear(
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    a: Value,
    b: Value,
    length: int,
    whole_units: float = 0.0,
) -> Value:
    """The result of sums of `length` products; whole_units: of the largest sum of magnitudes, for
    an algorithm that mixes elements (Winograd)."""
    limits = FLOATS[a.dtype]
    a, b = a.asked(), b.asked()
    finite = [np.where(np.isfinite(each.value), each.value, 0.0) for each in (a, b)]
    known = [np.where(np.isfinite(each.error), each.error, 0.0) for each in (a, b)]
    sizes = [np.abs(each) for each in finite]
    value, magnitude = apply(*finite), apply(*sizes)

    def of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return apply(x, y) if x.any() and y.any() else np.zeros(value.shape)

    # Each product is rounded and so is each sum; scales may have been multiplied in before.
    error = (length + 8) * limits.unit * magnitude
    error += of(known[0], sizes[1] + known[1]) + of(sizes[0], known[1])
    error += (length + 8) * limits.tiny
    if whole_units and magnitude.size:
        error += whole_units * limits.unit * magnitude.max()
    error = np.where(magnitude + error > limits.largest / 4096, NOT_ASKED, error)
    ones = [np.ones(each.shape) for each in (a, b)]

    def touched(is_so: Callable[[Value], np.ndarray]) -> np.ndarray:
        of_a, of_b = (is_so(each).astype("float64") for each in (a, b))
        return of(of_a, ones[1]) + of(ones[0], of_b) > 0

    broken = touched(lambda each: ~np.isfinite(each.value))
    error = np.where(broken, NOT_ASKED if whole_units else NOT_FINITE, error)
    if whole_units and broken.any():
        error = np.full(error.shape, NOT_ASKED)  # whole tiles of its outputs become NaN
    error = np.where(touched(lambda each: np.isinf(each.error)), NOT_ASKED, error)
    return Value(np.where(broken, np.nan, value), error, a.dtype)


def worst(got: np.ndarray, wanted: Value) -> tuple[float, str]:
    """(how many times its bound the worst element is off, where and what); 0 when all is right."""
    if wanted.dtype == "bfloat16" and got.dtype == "uint16":  # numpy has no such type
        got = (got.astype("uint32") << 16).view("float32")
        wanted = Value(wanted.value, wanted.error, "float32")
    if got.shape != wanted.shape or str(got.dtype) != wanted.dtype:
        return np.inf, f"{got.dtype}{got.shape} in place of {wanted.dtype}{wanted.shape}"
    if not got.size:
        return 0.0, ""
    wide = got.astype("float64")
    right, error = wanted.value.astype("float64"), wanted.error
    with np.errstate(all="ignore"):
        same = (wide == right) | (np.isnan(wide) & np.isnan(right))
        off = np.where(same, 0.0, np.abs(wide - right))
        off = np.where(np.isnan(off), np.inf, off)
        off = np.where(error < 0, np.where(np.isfinite(wide), np.inf, 0.0), off)
        off = np.where(np.isinf(error), 0.0, off)
        times_bound = np.where(off == 0, 0.0, off / np.maximum(error, 0.0))
    if not (times_bound > 1).any():
        return 0.0, ""
    at = np.unravel_index(np.argmax(times_bound), got.shape)
    place = [int(i) for i in at]
    bad = int((times_bound > 1).sum())
    wrong = "no finite number" if error[at] < 0 else f"{right[at]:.9g}"
    return float(times_bound[at]), (
        f"at {place} {wide[at]:.9g} in place of {wrong}, off by {off[at]:.3g}, allowed "
        f"{max(error[at], 0):.3g}; {bad} of {got.size} elements are wrong"
    )
