# SPDX-License-Identifier: Apache-2.0
"""Functions of one number as Relay, numpy and exact, and how far results are off in units of the
last place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import scipy.special
from tvm import relay


@dataclasses.dataclass(frozen=True)
class Function:
    """`numpy` computes in the type that it is given: in float64 it is what float32 is held to.

    `is_positive`: are numbers below zero outside of what it is for? `arguments`: x, then y.
    """

    name: str
    relay: Callable[..., relay.Expr]
    numpy: Callable[..., np.ndarray]
    is_positive: bool = False
    arguments: int = 1

    def exact(self, *arguments: np.ndarray) -> np.ndarray:
        """In float64, of float32."""
        with np.errstate(all="ignore"):
            return self.numpy(*(each.astype("float64") for each in arguments))


FUNCTIONS = {
    function.name: function
    for function in (
        Function("exp", relay.exp, np.exp),
        Function("tanh", relay.tanh, np.tanh),
        Function("erf", relay.erf, scipy.special.erf),
        Function("sigmoid", relay.sigmoid, scipy.special.expit),
        Function("log", relay.log, np.log, is_positive=True),
        Function("log2", relay.log2, np.log2, is_positive=True),
        Function("log10", relay.log10, np.log10, is_positive=True),
        Function("pow", relay.power, np.power, is_positive=True, arguments=2),
    )
}


def ulps_off(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far float32 is from float64, in distances of the float32 numbers there.

    Infinite where one is NaN, or infinite as a float32, and the other is not.
    """
    with np.errstate(all="ignore"):
        nearest = wanted.astype("float32")
        limit = np.float32(np.finfo("float32").max)
        distance = np.spacing(np.minimum(np.abs(nearest), limit)).astype("float64")
        off = np.abs(got.astype("float64") - wanted) / distance
    is_special = ~np.isfinite(nearest) | ~np.isfinite(got)
    is_equal = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    return np.where(is_special, np.where(is_equal, 0.0, np.inf), off)


def all_floats(every: int, chunk: int, offset: int = 0) -> Iterator[np.ndarray]:
    """Each `every`-th of the 2^32 numbers of float32 from the offset on, by their bits, in arrays
    of `chunk`; the last one begins again at the first number."""
    count = -(-(2**32) // every)
    for start in range(0, count, chunk):
        bits = (np.arange(start, start + chunk, dtype="uint64") * every + offset) % 2**32
        yield bits.astype("uint32").view("float32")
