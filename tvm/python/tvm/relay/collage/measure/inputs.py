# SPDX-License-Identifier: Apache-2.0
"""Random tensors that are safe and typical for a candidate's parameters.

Test: test_measure_candidate.py.

Data are normal random numbers: left-over memory holds denormals, which slow kernels down by orders
of magnitude. Integers that are used as indices stay inside what they index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import tvm
from tvm.relay import expr as _expr
from tvm.relay.analysis import post_order_visit
from tvm.relay.function import Function

from .cost import Unsupported

# Integers of no known use stay under this: small enough for most axes, if they are indices after
# all by a way that is not looked through.
_UNKNOWN_INTEGER_BOUND = 16


def _along_axis(call, shape: list[int]) -> int:
    axis = call.attrs.axis
    return math.prod(shape) if axis is None else shape[int(axis)]


def _smallest(call, shape: list[int]) -> int:
    return min(shape, default=1)


# op -> (position of the indices, position of what they index, its bound)
_INDEXING: dict[str, tuple[int, int, Callable]] = {
    "take": (1, 0, _along_axis),
    "gather": (1, 0, _along_axis),
    "gather_nd": (1, 0, _smallest),
    "scatter_elements": (1, 0, _along_axis),
    "scatter_nd": (1, 0, _smallest),
    "sequence_mask": (1, 0, lambda call, shape: shape[int(call.attrs.axis)]),
    "reverse_sequence": (1, 0, lambda call, shape: shape[int(call.attrs.seq_axis)]),
    "one_hot": (0, 0, lambda call, shape: int(call.attrs.depth)),
}
# op -> position of an operand that must be positive for the result to be a number
_POSITIVE = {"nn.batch_norm": 4, "sqrt": 0, "rsqrt": 0, "log": 0}
# ops through which a value stays the same number or index
_SEE_THROUGH = {"cast", "cast_like", "reshape", "expand_dims", "squeeze", "transpose", "copy"}


def describe_inputs(mod: tvm.IRModule) -> list[dict]:
    """Name, shape, dtype and kind of numbers of each parameter of main, as JSON values.

    Raises Unsupported for a parameter that is no tensor of a fixed shape.
    """
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    kinds = _kinds(functions, _arguments(functions, mod))
    return [_describe(param, kinds) for param in mod["main"].params]


def random_inputs(descriptions: Iterable[dict], seed: int) -> dict[str, np.ndarray]:
    """Arrays by name for describe_inputs' answer; the same for equal descriptions and seeds."""
    generator = np.random.default_rng(seed)
    return {d["name"]: random_tensor(d, generator) for d in descriptions}


def random_weights(
    params: Iterable[_expr.Var], function: Function, generator: np.random.Generator
) -> list[np.ndarray]:
    """Values for weights of `function`, scaled so that sums over their inner axes stay near 1."""
    kinds = _kinds([function], _arguments([function]))
    values = []
    for param in params:
        description = _describe(param, kinds)
        value, shape = random_tensor(description, generator), description["shape"]
        if len(shape) > 1 and value.dtype.kind == "f" and "positive" not in description:
            value /= value.dtype.type(math.sqrt(math.prod(shape[1:])))
        values.append(value)
    return values


def random_tensor(description: dict, generator: np.random.Generator) -> np.ndarray:
    """A numpy array for one description of describe_inputs."""
    shape, dtype = tuple(description["shape"]), np.dtype(description["dtype"])
    if dtype.kind == "b":
        return generator.integers(2, size=shape).astype(dtype)
    if dtype.kind in "iu":
        if "bound" in description:
            return generator.integers(description["bound"], size=shape).astype(dtype)
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, size=shape, endpoint=True, dtype=dtype)
    value = generator.standard_normal(shape, dtype="float32")
    if description.get("positive"):
        value = np.abs(value) + np.float32(0.5)
    return np.asarray(value).astype(dtype)


def _describe(param: _expr.Var, kinds: tuple[dict, set]) -> dict:
    bounds, positive = kinds
    shape = _shape_of(param)
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
    if param in positive:
        result["positive"] = True
    if param in bounds:
        result["bound"] = bounds[param]
    elif dtype in ("int32", "int64", "uint32", "uint64"):
        result["bound"] = min(bounds.values(), default=_UNKNOWN_INTEGER_BOUND)
    return result


def _arguments(functions: Iterable[Function], mod: tvm.IRModule | None = None) -> dict:
    """Parameter -> what calls in these functions give for it, for functions called there: parts of
    external backends hold the calls that tell what a candidate's inputs are."""
    found: dict[_expr.Var, list] = {}

    def visit(node):
        if not isinstance(node, _expr.Call):
            return
        called = node.op
        if isinstance(called, tvm.ir.GlobalVar) and mod is not None:
            called = mod[called]
        if isinstance(called, Function):
            for param, argument in zip(called.params, node.args, strict=True):
                found.setdefault(param, []).append(argument)

    for function in functions:
        post_order_visit(function.body, visit)
    return found


def _kinds(functions: Iterable[Function], arguments: dict) -> tuple[dict, set]:
    """Exclusive upper bounds of the variables that are indices, and the variables that must be
    positive, in all these functions."""
    bounds: dict[_expr.Var, int] = {}
    positive: set[_expr.Var] = set()

    def visit(node):
        if not (isinstance(node, _expr.Call) and isinstance(node.op, tvm.ir.Op)):
            return
        name = node.op.name
        if name in _POSITIVE:
            positive.update(_sources(node.args[_POSITIVE[name]], arguments))
        if name in _INDEXING:
            at, of, bound = _INDEXING[name]
            shape = _shape_of(node.args[of])
            limit = bound(node, shape) if shape else 1
            for source in _sources(node.args[at], arguments):
                bounds[source] = max(1, min(limit, bounds.get(source, limit)))

    for function in functions:
        post_order_visit(function.body, visit)
    return bounds, positive


def _sources(node, arguments: dict) -> list[_expr.Var]:
    """The variables whose numbers `node` holds, outside of called functions."""
    while (
        isinstance(node, _expr.Call)
        and isinstance(node.op, tvm.ir.Op)
        and node.op.name in _SEE_THROUGH
    ):
        node = node.args[0]
    if not isinstance(node, _expr.Var):
        return []
    given = arguments.get(node)
    if given is None:
        return [node]
    return [source for argument in given for source in _sources(argument, arguments)]


def _shape_of(node) -> list[int] | None:
    """The fixed shape of a tensor, or None when it is not known or no tensor."""
    if isinstance(node, _expr.Var):
        kind = node.type_annotation
    else:
        try:
            kind = node.checked_type
        except (ValueError, tvm.TVMError):  # not inferred
            return None
    if not isinstance(kind, tvm.ir.TensorType):
        return None
    if not all(isinstance(d, tvm.tir.IntImm) for d in kind.shape):
        return None
    return [int(d) for d in kind.shape]
