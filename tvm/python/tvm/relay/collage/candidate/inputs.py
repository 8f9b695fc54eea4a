# SPDX-License-Identifier: Apache-2.0
"""Random tensors that are safe and typical for a candidate's parameters.

Tests: candidate/test_inputs.py, candidate/test_reads.py.

Data are normal random numbers: left-over memory holds denormals, which slow kernels down by orders
of magnitude. What an operator reads as an index, a length or a structure (reads.py) stays inside
what it indexes, by whatever way it comes there (flows.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import tvm
from tvm.relay import expr as _expr
from tvm.relay.function import Function

from ..exec.reply import Unsupported
from .flows import leaves_read
from .reads import Need, shape_of

# Integers of no known use stay under this: small enough for most axes.
_UNKNOWN_INTEGER_BOUND = 16
# Integers of which only the least is known.
_LARGE_INTEGER = 1 << 15


def describe_inputs(mod: tvm.IRModule, given: Collection[str] = ()) -> list[dict]:
    """Name, shape, dtype and kind of numbers of each parameter of main, as JSON values, but for
    those that are given.

    Raises Unsupported for a parameter that is no tensor of a fixed shape.
    """
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    needs = leaves_read(functions, mod).needs
    return [_describe(param, needs) for param in mod["main"].params if param.name_hint not in given]


def random_inputs(descriptions: Iterable[dict], seed: int) -> dict[str, np.ndarray]:
    """Return arrays by name for describe_inputs' answer; the same for equal descriptions and
    seeds."""
    generator = np.random.default_rng(seed)
    return {d["name"]: random_tensor(d, generator) for d in descriptions}


def random_weights(
    params: Iterable[_expr.Var], function: Function, generator: np.random.Generator
) -> list[np.ndarray]:
    """Values for weights of `function`, scaled so that sums over their inner axes stay near 1."""
    needs = leaves_read([function]).needs
    values = []
    for param in params:
        description = _describe(param, needs)
        value, shape = random_tensor(description, generator), description["shape"]
        if len(shape) > 1 and value.dtype.kind == "f" and not description.keys() & {"low", "form"}:
            value /= value.dtype.type(math.sqrt(math.prod(shape[1:])))
        values.append(value)
    return values


def random_tensor(description: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Return a numpy array for one description of describe_inputs."""
    shape, dtype = tuple(description["shape"]), np.dtype(description["dtype"])
    low: Any = description.get("low")
    high: Any = description.get("high")
    form = description.get("form")
    if form == "pointers":
        return np.linspace(low, high, math.prod(shape)).astype(dtype).reshape(shape)
    if form in ("regions", "boxes") and dtype.kind == "f":
        return _corners(description, generator).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(2, size=shape).astype(dtype)
    if dtype.kind in "iu":
        if low is not None:
            return generator.integers(low, high, size=shape, endpoint=True).astype(dtype)
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, size=shape, endpoint=True, dtype=dtype)
    if low is not None:
        return generator.uniform(low, high, size=shape).astype(dtype)
    value = generator.standard_normal(shape, dtype="float32")
    if form == "positive":
        value = np.abs(value) + np.float32(0.5)
    return np.asarray(value).astype(dtype)


def _corners(description: dict, generator: np.random.Generator) -> np.ndarray:
    """Return the rows of a box's least corner and its greatest, behind the number of its image for
    regions."""
    shape = tuple(description["shape"])
    is_region = description["form"] == "regions"
    scale = np.array(description["extent"] if is_region else (1.0, 1.0))
    least = generator.uniform(0.0, 0.5, (*shape[:-1], 2))
    greatest = least + generator.uniform(0.25, 0.5, (*shape[:-1], 2))
    corners = np.concatenate([least * scale, greatest * scale], axis=-1)
    if not is_region:
        return corners
    images = generator.integers(0, description["high"], size=(*shape[:-1], 1), endpoint=True)
    return np.concatenate([images, corners], axis=-1)


def _describe(param: _expr.Var, needs: dict[_expr.Var, Need]) -> dict:
    shape = shape_of(param)
    if shape is None:
        raise Unsupported(f"input {param.name_hint} is no tensor of a fixed shape; not measured")
    dtype = str(param.type_annotation.dtype)
    try:
        np.dtype(dtype)
    except TypeError:
        raise Unsupported(
            f"input {param.name_hint} has dtype {dtype}, which numpy lacks; not measured"
        ) from None
    result = {"name": param.name_hint, "shape": shape, "dtype": dtype}
    need = needs.get(param, Need())
    if need.low is not None or need.high is not None:
        result["low"], result["high"] = _limits(need, dtype)
    elif dtype in ("int32", "int64", "uint32", "uint64"):
        known = [n.high for n in needs.values() if n.decides and n.low == 0 and n.high is not None]
        result["low"], result["high"] = 0, min(known, default=_UNKNOWN_INTEGER_BOUND - 1)
    if need.form:
        result["form"] = need.form
    if need.form == "regions":
        result["extent"] = list(need.extent)
    return result


def _limits(need: Need, dtype: str) -> tuple[float, float]:
    """Return both limits of a need of which one at least is given, within those of the type."""
    low, high = need.low, need.high
    if low is None:
        low = 0 if high is None else min(0, high)
    if high is None:
        high = max(low, _LARGE_INTEGER)
    if not dtype.startswith(("int", "uint")):
        return low, high
    limits = np.iinfo(dtype)
    return int(min(max(low, limits.min), limits.max)), int(min(max(high, limits.min), limits.max))
