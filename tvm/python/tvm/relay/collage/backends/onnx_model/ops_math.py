# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops, comparisons and reductions of Relay in ONNX.
Test: backends/onnx_model/test_export.py."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ints import ints_of
from .builder import Value
from .call import FLOATS, NUMBERS, ExportedCall

# Relay op -> ONNX operator, for ops that mean the same.
_OF_FLOATS = {
    **{op: op.title() for op in ("abs", "ceil", "cos", "erf", "exp", "floor", "log", "sigmoid")},
    **{op: op.title() for op in ("sin", "sqrt", "tanh")},
    "negative": "Neg",
    "nn.relu": "Relu",
    "power": "Pow",  # of integers it differs between runtimes
}
_ARITHMETIC = {
    "add": "Add",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "subtract": "Sub",
}
_COMPARISON = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}
COMPARISONS = frozenset((*_COMPARISON, "not_equal"))
_LOGICAL = {"logical_and": "And", "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor"}
_REDUCTION = {op: f"Reduce{op.title()}" for op in ("max", "mean", "min", "prod", "sum")}
_ARG = {"argmax": "ArgMax", "argmin": "ArgMin"}


def _same(dtypes: Sequence[str], operator: str, call: ExportedCall) -> Value:
    call.require_dtypes(*dtypes)
    return call.result(operator, call.values)


def _rsqrt(call: ExportedCall) -> Value:
    call.require_floats()
    (data,) = call.values
    root = call.graph.node("Sqrt", [data], call.shape, call.dtype)
    return call.result("Reciprocal", [root])


def _not_equal(call: ExportedCall) -> Value:
    call.require_dtypes(*NUMBERS)
    return call.result("Not", [call.graph.node("Equal", call.values, call.shape, "bool")])


def _where(call: ExportedCall) -> Value:
    condition, first, second = call.values
    call.require(condition.dtype == "bool", "dtype of the condition", condition.dtype)
    call.require(call.dtype in NUMBERS, "dtype", call.dtype)
    return call.result("Where", [condition, first, second])


def _clip(call: ExportedCall) -> Value:
    call.require_floats()
    (data,) = call.values
    low, high = (call.graph.scalar(float(v), data) for v in (call.attrs.a_min, call.attrs.a_max))
    return call.result("Clip", [data, low, high])


def _leaky_relu(call: ExportedCall) -> Value:
    call.require_floats()
    return call.result("LeakyRelu", call.values, alpha=float(call.attrs.alpha))


def _prelu(call: ExportedCall) -> Value:
    call.require_floats()
    data, slope = call.values
    shape = [1] * data.rank
    axis = int(call.attrs.axis) % data.rank
    shape[axis] = data.shape[axis]
    call.require(slope.shape == (shape[axis],), "shape of alpha", list(slope.shape))
    return call.result("PRelu", [data, call.reshaped(slope, shape)])


def _softmax(operator: str, call: ExportedCall) -> Value:
    call.require_floats()
    (data,) = call.values
    return call.result(operator, [data], axis=int(call.attrs.axis) % data.rank)


def _cast(call: ExportedCall) -> Value:
    # Floats and wide integers become bytes in other ways in each library.
    call.require(call.dtype not in ("int8", "uint8"), "dtype", call.dtype)
    return call.cast(call.values[0], call.dtype)


def _axes(call: ExportedCall) -> list[int]:
    """Return the reduced axes, sorted and not negative."""
    rank = call.values[0].rank
    axes = {axis % rank for axis in ints_of(call.attrs.axis)}
    if not axes:  # neither for an empty list nor for none does Relay look at `exclude`
        return list(range(rank))
    return sorted(set(range(rank)) - axes if call.attrs.exclude else axes)


def _reduce(operator: str, call: ExportedCall) -> Value:
    call.require_dtypes(*NUMBERS)
    axes, (data,), keep = _axes(call), call.values, int(call.attrs.keepdims)
    if not axes:  # all are excluded; to ONNX that means all are reduced
        return data
    if operator == "ReduceSum":  # whose axes are an input since opset 13, others' since 18
        return call.result(operator, [data, call.graph.ints(axes)], keepdims=keep)
    return call.result(operator, [data], axes=axes, keepdims=keep)


def _variance(call: ExportedCall) -> Value:
    """mean((data - mean)^2), written as in a LayerNorm, which runtimes fuse."""
    call.require_floats()
    data, mean = call.values
    call.require(not call.attrs.unbiased, "unbiased", call.attrs.unbiased)
    call.require(_axes(call), "axis", call.attrs.axis)
    kept = [1 if i in _axes(call) else extent for i, extent in enumerate(data.shape)]
    if list(mean.shape) != kept:
        mean = call.reshaped(mean, kept)
    centred = call.graph.node("Sub", [data, mean], data.shape, data.dtype)
    two = call.graph.scalar(2.0, data)
    square = call.graph.node("Pow", [centred, two], data.shape, data.dtype)
    keep = int(call.attrs.keepdims)
    return call.result("ReduceMean", [square], axes=_axes(call), keepdims=keep)


def _arg(operator: str, call: ExportedCall) -> Value:
    call.require_dtypes(*NUMBERS)
    axes = _axes(call)
    data, keep = call.values[0], int(call.attrs.keepdims)
    if len(axes) != 1:
        call.require(len(axes) == data.rank, "axis", axes)
        call.require(not keep, "keepdims", keep)
        data, axes = call.reshaped(data, [int(np.prod(data.shape))]), [0]
    last = int(call.attrs.select_last_index)
    attrs = {"axis": axes[0], "keepdims": keep, "select_last_index": last}
    [found] = call.graph.nodes(operator, [data], [(call.shape, "int64")], **attrs)
    return call.cast(found, call.dtype)


def _each(converter: Callable[..., Any], table: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    return {op: functools.partial(converter, operator) for op, operator in table.items()}


# Relay op -> function of an ExportedCall that adds its nodes and returns the result.
MATH = {
    **_each(functools.partial(_same, FLOATS), _OF_FLOATS),
    **_each(functools.partial(_same, NUMBERS), {**_ARITHMETIC, **_COMPARISON}),
    **_each(functools.partial(_same, ["bool"]), _LOGICAL),
    **_each(_reduce, _REDUCTION),
    **_each(_arg, _ARG),
    **_each(_softmax, {"nn.softmax": "Softmax", "nn.log_softmax": "LogSoftmax"}),
    "cast": _cast,
    "clip": _clip,
    "copy": lambda call: call.values[0],
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "not_equal": _not_equal,
    "rsqrt": _rsqrt,
    "variance": _variance,
    "where": _where,
}
