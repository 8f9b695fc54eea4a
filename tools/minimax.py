#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the coefficients of compile/vector_functions.py: polynomials of least largest error.

Remez's exchange on Chebyshev points. A row names a function, the interval, the degree and what the
error is weighed with; the functions themselves are series or 60 digits of `decimal`, so nothing is
taken from anybody's table. Needs numpy. Run: python tools/minimax.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext
from typing import NamedTuple

import numpy as np

getcontext().prec = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


class Fit(NamedTuple):
    """`weight(x)` times the polynomial's error at x is what shall be small; powers of x from 0."""

    name: str
    function: Callable[[float], float]
    low: float
    high: float
    degree: int
    weight: Callable[[float], float]


def exp_tail(r: float) -> float:
    """(e^r - 1 - r) / r^2"""
    return math.fsum(r**k / math.factorial(k + 2) for k in range(25))


def log_tail(f: float) -> float:
    """(log(1 + f) - f + f^2 / 2) / f^3"""
    return math.fsum((-f) ** k / (k + 3) for k in range(120))


def tanh_tail(z: float) -> float:
    """(tanh(x) / x - 1) / z of z = x^2"""
    if z < 1e-12:
        return -1 / 3
    x = Decimal(z).sqrt()
    power = (2 * x).exp()
    return float(((power - 1) / (power + 1) / x - 1) / Decimal(z))


def erf(x: Decimal) -> Decimal:
    term = total = x
    k = 0
    while abs(term) > Decimal("1e-55"):
        k += 1
        term *= -x * x / k
        total += term / (2 * k + 1)
    return 2 * total / PI.sqrt()


def erf_tail(z: float) -> float:
    """erf(x) / x - 1 of z = x^2"""
    x = Decimal(z).sqrt() if z > 1e-12 else Decimal("1e-6")
    return float(erf(x) / x - 1)


def log_erfc(x: float) -> float:
    return float((1 - erf(Decimal(x))).ln())


def erfc(x: float) -> float:
    return math.erfc(x)


def log2_tail(z: float) -> float:
    """log2((1 + s) / (1 - s)) / s of z = s^2"""
    return 2 * math.fsum(z**k / (2 * k + 1) for k in range(40)) / math.log(2)


def exp2_all(r: float) -> float:
    return math.exp(r * math.log(2))


HALF_LN2 = math.log(2) / 2
ROOT = math.sqrt(2)
FITS = (
    Fit("EXP", exp_tail, -HALF_LN2, HALF_LN2, 4, lambda r: r * r / math.exp(r)),
    Fit("LOG", log_tail, 1 / ROOT - 1, ROOT - 1, 8, lambda f: f**3 / math.log1p(f) if f else 0.0),
    Fit("TANH", tanh_tail, 0.0, 0.625**2, 4, lambda z: z),
    Fit("ERF", erf_tail, 0.0, 1.0, 6, lambda z: 1.0),
    Fit("LOG_ERFC", log_erfc, 1.0, 4.0, 6, lambda x: erfc(x) / math.erf(x)),
    Fit("LOG2", log2_tail, 0.0, (3 - 2 * ROOT) ** 2, 4, lambda z: 1.0),
    Fit("EXP2", exp2_all, -0.5, 0.5, 6, lambda r: 1 / exp2_all(r)),
)


def minimax(fit: Fit) -> tuple[np.ndarray, float]:
    """Return coefficients, and the largest weighted error on a fine grid."""
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    grid = middle - half * np.cos(np.linspace(0, math.pi, 4001))
    wanted = np.array([fit.function(x) for x in grid])
    weight = np.array([fit.weight(x) for x in grid])
    scale = max(abs(fit.low), abs(fit.high))  # powers of numbers near 1 solve well
    powers = np.vander(grid / scale, fit.degree + 1, increasing=True)
    count = fit.degree + 2
    at = np.linspace(0, len(grid) - 1, count).round().astype(int)
    at = np.array([k if weight[k] else k + 1 for k in at])
    for _ in range(40):
        signs = (-1.0) ** np.arange(count)
        system = np.column_stack([powers[at] * weight[at, None], signs])
        solved = np.linalg.solve(system, wanted[at] * weight[at])
        coefficients = solved[:-1]
        error = (powers @ coefficients - wanted) * weight
        found = _extrema(error, count)
        if np.array_equal(found, at):
            break
        at = found
    return coefficients / scale ** np.arange(fit.degree + 1), float(abs(error).max())


def _extrema(error: np.ndarray, count: int) -> np.ndarray:
    """Return where the error is largest, one place for each run of equal sign; the `count` in a row
    with the largest errors."""
    edges = np.flatnonzero(np.diff(np.sign(error))) + 1
    runs = np.split(np.arange(len(error)), edges)
    tops = np.array([run[np.argmax(abs(error[run]))] for run in runs])
    while len(tops) > count:
        tops = tops[1:] if abs(error[tops[0]]) < abs(error[tops[-1]]) else tops[:-1]
    if len(tops) < count:
        raise ValueError("the error changes its sign too seldom: another degree or interval")
    return tops


def main() -> None:
    for fit in FITS:
        coefficients, error = minimax(fit)
        print(f"# {fit.low:.6g} to {fit.high:.6g}, off by 2^{math.log2(error):.1f}")
        print(f"_{fit.name} = (")
        for value in coefficients:
            print(f"    {value!r},".replace("np.float64(", "").replace(")", ""))
        print(")")


if __name__ == "__main__":
    main()
