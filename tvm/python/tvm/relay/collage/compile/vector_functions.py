# SPDX-License-Identifier: Apache-2.0
"""exp, tanh, erf, sigmoid, logarithms and pow of float32, without a branch or a call.

Each is written for one number and computed for all lanes of a vector. Signs, NaNs and denormal
numbers are treated by their bits, so that a code generator told that floats are no NaNs (TVM's is)
cannot go wrong. The polynomials are those that tools/minimax.py prints; docs/accuracy.md has the
errors. Test: compile/test_vector_math.py
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from .llvm_text import LlvmValue

# (e^r - 1 - r) / r^2, |r| <= log(2) / 2
_EXP = (
    0.4999999345169554, 0.1666652068981002, 0.04166838736281886, 0.008368709826384456,
    0.001381461322334192,
)  # fmt: skip
# (log(1 + f) - f + f^2 / 2) / f^3, sqrt(1/2) <= 1 + f < sqrt(2)
_LOG = (
    0.3333331260409185, -0.2500000959925387, 0.20002118656890394, -0.1666799586154843,
    0.14219552400636437, -0.12405588800237363, 0.11888161886193682, -0.11675652423924522,
    0.06746642059426305,
)  # fmt: skip
# (tanh(x) / x - 1) / z of z = x^2 <= 0.625^2
_TANH = (
    -0.33333283925396384, 0.13331491289100403, -0.05374349821425996, 0.020650587640996382,
    -0.005717045370013682,
)  # fmt: skip
# erf(x) / x - 1 of z = x^2 <= 1
_ERF = (
    0.12837916591375287, -0.37612627136052046, 0.11283600177438792, -0.026854444645297803,
    0.005189535445386305, -0.000802084223939062, 7.889122768669112e-05,
)  # fmt: skip
# log(1 - erf(x)), 1 <= x <= 4
_LOG_ERFC = (
    -0.000341523394518566, -1.1270891885995011, -0.6381448354862166, -0.10310675212380158,
    0.021838062765452748, -0.0029476579708807445, 0.00018637915541891255,
)  # fmt: skip
# log2((1 + s) / (1 - s)) / s of z = s^2, sqrt(1/2) <= (1 + s) / (1 - s) < sqrt(2), for float64
_LOG2 = (
    2.8853900817901406, 0.9617966732843641, 0.5770835944340588, 0.41167221926396314,
    0.34073834258958363,
)  # fmt: skip
# 2^r, |r| <= 1/2, for float64
_EXP2 = (
    1.0000000005541707, 0.6931472057372844, 0.24022646890630323, 0.05550328776947638,
    0.009618488957069606, 0.001339993122419811, 0.000153458120590299,
)  # fmt: skip

_SIGN, _ONE, _INFINITY = -(2**31), 0x3F800000, 0x7F800000  # bits of float32
_ROOT, _ROOT_64 = 0x3F3504F3, 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
# Added to a number of the type, they leave it rounded to an integer, which its last bits then hold.
_ROUND, _ROUND_64 = 1.5 * 2**23, 1.5 * 2**52
_ROUND_BITS, _ROUND_BITS_64 = 0x4B400000, 0x4338000000000000


def _short(number: float) -> tuple[float, float]:
    """Split a number into a sum: one of 15 bits after the point, which is exact times an exponent,
    and the rest."""
    high = round(number * 2**15) / 2**15
    return high, number - high


def _polynomial(x: LlvmValue, coefficients: Sequence[float]) -> LlvmValue:
    """Evaluate coefficients from x^0 on, in one chain: kernels have other vectors to fill pipes."""
    *others, last, first = coefficients
    return functools.reduce(lambda so_far, c: so_far * x + c, reversed(others), x * first + last)


def _magnitude(x: LlvmValue) -> LlvmValue:
    return (x.as_bits() & ~_SIGN).as_floats()


def _with_sign_of(x: LlvmValue, magnitude: LlvmValue) -> LlvmValue:
    return (magnitude.as_bits() | (x.as_bits() & _SIGN)).as_floats()


def _or_nan(x: LlvmValue, result: LlvmValue) -> LlvmValue:
    """Return `result`, or x where that is NaN."""
    return x.is_nan().choose(x, result)


def _power_of_two(n: LlvmValue) -> LlvmValue:
    """Compute 2^n of an integer, where that is a normal number."""
    return ((n + 127) << 23).as_floats()


def _exp_parts(x: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Return p about 1 and an integer n of e^x = p 2^n."""
    shifted = x * (1 / math.log(2)) + _ROUND
    count = shifted - _ROUND
    high, low = _short(math.log(2))
    r = (x - count * high) - count * low
    return r * r * _polynomial(r, _EXP) + r + 1.0, shifted.as_bits() - _ROUND_BITS


def _exp_normal(x: LlvmValue) -> LlvmValue:
    """Compute e^x where that is a normal number."""
    p, n = _exp_parts(x)
    return p * _power_of_two(n)


def _exp_any(x: LlvmValue) -> LlvmValue:
    """Compute e^x, -104 <= x <= 89, in two steps: neither 2^n nor the result need be normal."""
    p, n = _exp_parts(x)
    half = n >> 1
    return p * _power_of_two(half) * _power_of_two(n - half)


def exp(x: LlvmValue) -> LlvmValue:
    # Infinite from 89 on, and zero below -104.
    at_most = (x > 89.0).choose(89.0, x)
    return _or_nan(x, _exp_any((at_most < -104.0).choose(-104.0, at_most)))


def sigmoid(x: LlvmValue) -> LlvmValue:
    # By e^-|x|, which is never infinite: 1 / (1 + e) or e / (1 + e).
    size = _magnitude(x)
    e = _exp_any((size > 104.0).choose(-104.0, 0.0 - size))
    return _or_nan(x, (x < 0.0).choose(e, 1.0) / (e + 1.0))


def tanh(x: LlvmValue) -> LlvmValue:
    size = _magnitude(x)
    square = x * x
    near_zero = size * square * _polynomial(square, _TANH) + size
    e = _exp_normal((size > 10.0).choose(20.0, size + size))
    away = 1.0 - 2.0 / (e + 1.0)
    return _or_nan(x, _with_sign_of(x, (size < 0.625).choose(near_zero, away)))


def erf(x: LlvmValue) -> LlvmValue:
    size = _magnitude(x)
    near_zero = size * _polynomial(x * x, _ERF) + size
    away = 1.0 - _exp_normal(_polynomial((size > 4.0).choose(4.0, size), _LOG_ERFC))
    return _or_nan(x, _with_sign_of(x, (size < 1.0).choose(near_zero, away)))


def _log_parts(x: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
    """Return e, f and log(1 + f) - f of x = (1 + f) 2^e for a finite x > 0, e as a float."""
    is_small = x.as_bits() < 0x00800000  # no normal number
    bits = is_small.choose(x * 2.0**23, x).as_bits() - _ROOT
    count = bits >> 23
    # An integer as a float: its bits are the last ones of a number that is as large as `_ROUND`.
    e = (is_small.choose(count - 23, count) + _ROUND_BITS).as_floats() - _ROUND
    f = ((bits & 0x007FFFFF) + _ROOT).as_floats() - 1.0
    square = f * f
    return e, f, square * f * _polynomial(f, _LOG) - square * 0.5


def _log_or_special(x: LlvmValue, result: LlvmValue) -> LlvmValue:
    """Return `result`, or the logarithm of 0, infinity, NaN and numbers below 0."""
    bits = x.as_bits()
    result = bits.equals(_INFINITY).choose(x, result)
    result = bits.above(_INFINITY).choose(math.nan, result)
    return (bits & ~_SIGN).equals(0).choose(-math.inf, result)


def _log_of_base(x: LlvmValue, log_of_two: float, log_of_e: float) -> LlvmValue:
    e, f, rest = _log_parts(x)
    high, low = _short(log_of_two)
    return _log_or_special(x, e * high + ((f + rest) * log_of_e + e * low))


def log(x: LlvmValue) -> LlvmValue:
    e, f, rest = _log_parts(x)
    high, low = _short(math.log(2))
    return _log_or_special(x, e * high + (f + (rest + e * low)))


def log2(x: LlvmValue) -> LlvmValue:
    return _log_of_base(x, 1.0, 1 / math.log(2))


def log10(x: LlvmValue) -> LlvmValue:
    return _log_of_base(x, math.log10(2), math.log10(math.e))


def _rounded(x: LlvmValue) -> LlvmValue:
    """Round a float64 below 2^51 to the nearest integer."""
    return (x + _ROUND_64) - _ROUND_64


def power(x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Compute C's pow, special cases included: 2^(y log2 |x|) in float64, then rounded once."""
    size, bits = _magnitude(x), x.as_bits()
    # A log2 that overflows what follows, times any y, where |x| is zero; infinity is 2^128 here.
    wide = size.widened().as_bits() - _ROOT_64
    e = ((wide >> 52) + _ROUND_BITS_64).as_floats() - _ROUND_64
    f = ((wide & (2**52 - 1)) + _ROOT_64).as_floats() - 1.0
    s = f / (f + 2.0)
    logarithm = s * _polynomial(s * s, _LOG2) + e
    logarithm = (bits & ~_SIGN).equals(0).choose(-(2.0**200), logarithm)
    logarithm = (bits & ~_SIGN).equals(_INFINITY).choose(2.0**200, logarithm)
    # A finite y that overflows, too, for an infinite one: times log2(1) that is zero, no NaN.
    wide_y = y.widened()
    finite = (wide_y > 2.0**128).choose(2.0**128, wide_y)
    exponent = (finite < -(2.0**128)).choose(-(2.0**128), finite) * logarithm
    exponent = (exponent > 200.0).choose(200.0, exponent)
    exponent = (exponent < -200.0).choose(-200.0, exponent)
    shifted = exponent + _ROUND_64
    r = exponent - (shifted - _ROUND_64)
    scale = ((shifted.as_bits() - (_ROUND_BITS_64 - 1023)) << 52).as_floats()
    result = (_polynomial(r, _EXP2) * scale).narrowed()
    # Below zero an odd y gives the sign, and what is no integer a NaN. Large ones are even.
    count = (_magnitude(y) < 2.0**24).choose(wide_y, 2.0)
    is_integer, is_even = _rounded(count).equals(count), _rounded(count * 0.5).equals(count * 0.5)
    sign = is_even.choose(bits & 0, is_integer.choose(bits & _SIGN, 0))
    result = (result.as_bits() | sign).as_floats()
    is_negative = (bits < 0) & (bits & ~_SIGN).above(0) & (bits.equals(_INFINITY | _SIGN) ^ True)
    result = (is_negative & (is_integer ^ True)).choose(math.nan, result)
    result = (x.is_nan() | y.is_nan()).choose(math.nan, result)
    return (bits.equals(_ONE) | (y.as_bits() & ~_SIGN).equals(0)).choose(1.0, result)


# pow with an exponent that is known: what is computed instead of it.
def square(x: LlvmValue) -> LlvmValue:
    return x * x


def cube(x: LlvmValue) -> LlvmValue:
    return x * x * x


def before_root(x: LlvmValue) -> LlvmValue:
    """Return what has x^0.5 for its square root: +0 for -0 and infinity for -infinity."""
    return x.as_bits().equals(_INFINITY | _SIGN).choose(math.inf, x + 0.0)
