# SPDX-License-Identifier: Apache-2.0
"""Operators as numpy computes them, which needs no build and shares no code with any backend.

Only floats of 32 or 64 bits, and bytes as quantised models have them, only fixed shapes, only the
layouts of frontends: for the rest the answer is None, and the caller asks TVM.
Test: measure/outputs/test_numpy_operators.py, operator by operator against TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.relay import expr as _expr

Array = np.ndarray
_DTYPES = ("float32", "float64")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


def compute(call: _expr.Call, operands: Sequence[Array | list[Array]]) -> Array | None:
    """Compute an operator call on these operands, a tuple's fields as a list, in their type, which
    may be finer than the call's; None where numpy is not asked. Precondition: types are
    inferred."""
    rule = OPERATORS.get(call.op.name)
    kind = call.checked_type
    if rule is None or not isinstance(kind, tvm.ir.TensorType):
        return None
    if not all(isinstance(dim, tvm.tir.IntImm) for dim in kind.shape):
        return None
    arrays = [array for each in operands for array in (each if isinstance(each, list) else [each])]
    dtypes = {array.dtype.name for array in arrays}
    is_of_floats = kind.dtype in _DTYPES and len(dtypes) == 1 and dtypes.issubset(_DTYPES)
    if not (is_of_floats or call.op.name in _OF_SEVERAL_TYPES):
        return None
    if not all(each.size for each in arrays):
        return None
    with np.errstate(all="ignore"):  # what is not finite is not compared
        result = rule(call, *operands)
    # An attribute that numpy reads otherwise gives another shape.
    if result is None or list(result.shape) != _shape(call):
        return None
    return np.asarray(result, arrays[0].dtype if is_of_floats else kind.dtype)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda call, *operands: function(*operands)


# As TVM compares: what is no number is not the larger one, unlike np.maximum's.
def _larger(one: Any, other: Any) -> Array:
    return np.where(one > other, one, other)


def _smaller(one: Any, other: Any) -> Array:
    return np.where(one < other, one, other)


def _clip(call: _expr.Call, data: Array) -> Array:
    return _larger(_smaller(data, call.attrs.a_max), call.attrs.a_min)


def _leaky_relu(call: _expr.Call, data: Array) -> Array:
    return np.where(data > 0, data, data * data.dtype.type(call.attrs.alpha))


def _erf(call: _expr.Call, data: Array) -> Array | None:
    """Compute erf with 64 bits alone, for which TVM's own has no more digits than for 32."""
    if data.dtype != "float64":
        return None
    return np.frompyfunc(math.erf, 1, 1)(data).astype(data.dtype)


def _bias_add(call: _expr.Call, data: Array, bias: Array) -> Array:
    return data + _along(call, data, bias)


def _reshaped(call: _expr.Call, data: Array) -> Array:
    """Compute any operator that only names the dimensions anew."""
    return data.reshape(_shape(call))


def _transpose(call: _expr.Call, data: Array) -> Array:
    axes = call.attrs.axes
    return np.ascontiguousarray(data.transpose(None if axes is None else _ints(axes)))


def _concatenate(call: _expr.Call, fields: list[Array]) -> Array:
    return np.concatenate(fields, axis=int(call.attrs.axis))


def _reduction(function: Callable[..., Array]) -> Callable[..., Array | None]:
    def rule(call: _expr.Call, data: Array) -> Array | None:
        attrs = call.attrs
        if attrs.exclude:
            return None
        axes = None if attrs.axis is None else tuple(_ints(attrs.axis))
        return function(data, axis=axes, keepdims=bool(attrs.keepdims))

    return rule


def _softmax(call: _expr.Call, data: Array) -> Array:
    axis = call.attrs.axis
    raised = np.exp(data - data.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _global_avg_pool2d(call: _expr.Call, data: Array) -> Array | None:
    if call.attrs.layout != "NCHW" or call.attrs.out_layout not in ("", "NCHW"):
        return None
    return data.mean(axis=(2, 3), keepdims=True)


def _matmul(call: _expr.Call, left: Array, right: Array) -> Array:
    """nn.matmul and nn.batch_matmul, whose two batches may be one."""
    left = left.swapaxes(-1, -2) if call.attrs.transpose_a else left
    return left @ (right.swapaxes(-1, -2) if call.attrs.transpose_b else right)


_LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


def _convolution(call: _expr.Call, data: Array, weight: Array) -> Array | None:
    """Convolve in one, two or three dimensions: a matrix product for each tap of the kernel."""
    attrs, rank = call.attrs, data.ndim - 2
    layout, kernel_layout = _LAYOUTS.get(rank, ("", ""))
    if attrs.data_layout != layout or attrs.kernel_layout != kernel_layout:
        return None
    padding = _ints(attrs.padding)  # one for each dimension, or all before and all behind
    if attrs.out_layout not in ("", layout) or len(padding) not in (rank, 2 * rank):
        return None
    if min(padding) < 0:
        return None
    padded = [(0, 0), (0, 0), *zip(padding[:rank], padding[-rank:], strict=True)]
    data = np.pad(data, padded)
    shape, groups = _shape(call), attrs.groups
    data = data.reshape(data.shape[0], groups, data.shape[1] // groups, *data.shape[2:])
    weight = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    result = np.zeros((*data.shape[:2], weight.shape[1], int(np.prod(shape[2:]))), data.dtype)
    steps = list(zip(_ints(attrs.strides), _ints(attrs.dilation), shape[2:], strict=True))
    for tap in np.ndindex(weight.shape[3:]):
        seen: list[Any] = [
            slice(at * dilation, at * dilation + stride * (size - 1) + 1, stride)
            for at, (stride, dilation, size) in zip(tap, steps, strict=True)
        ]
        window = data[:, :, :, *seen].reshape(*data.shape[:3], -1)
        result += weight[:, :, :, *tap] @ window
    return result.reshape(shape)


def _quantize(call: _expr.Call, data: Array, scale: Array, zero: Array) -> Array | None:
    """Round to integers, halves to the even one; what is over an end becomes the end."""
    dtype = call.checked_type.dtype
    if data.dtype.name not in _DTYPES or dtype not in _INTEGERS:
        return None
    scale, zero = _along(call, data, scale), _along(call, data, zero)
    steps = np.rint(data / scale).astype("float64") + zero
    limits = np.iinfo(dtype)
    return np.clip(steps, limits.min, limits.max).astype(dtype)


def _dequantize(call: _expr.Call, data: Array, scale: Array, zero: Array) -> Array | None:
    dtype = call.checked_type.dtype
    if data.dtype.name not in _INTEGERS or dtype not in _DTYPES:
        return None
    steps = data.astype("int32") - _along(call, data, zero)
    return steps.astype(dtype) * _along(call, data, scale)


def _along(call: _expr.Call, data: Array, values: Array) -> Array:
    """Return one value for all, or those of the axis in its place."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * data.ndim
    shape[call.attrs.axis] = -1
    return values.reshape(shape)


def _shape(call: _expr.Call) -> list[int]:
    return _ints(call.checked_type.shape)


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


OPERATORS: dict[str, Callable[..., Array | None]] = {
    "add": _plain(np.add),
    "subtract": _plain(np.subtract),
    "multiply": _plain(np.multiply),
    "divide": _plain(np.divide),
    "maximum": _plain(_larger),
    "minimum": _plain(_smaller),
    "power": _plain(np.power),
    "abs": _plain(np.abs),
    "negative": _plain(np.negative),
    "exp": _plain(np.exp),
    "log": _plain(np.log),
    "sqrt": _plain(np.sqrt),
    "rsqrt": _plain(lambda data: 1 / np.sqrt(data)),
    "erf": _erf,
    "tanh": _plain(np.tanh),
    "sigmoid": _plain(lambda data: 1 / (1 + np.exp(-data))),
    "nn.relu": _plain(lambda data: _larger(data, 0)),
    "nn.leaky_relu": _leaky_relu,
    "clip": _clip,
    "nn.bias_add": _bias_add,
    "copy": _reshaped,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "nn.batch_flatten": _reshaped,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "mean": _reduction(np.mean),
    "sum": _reduction(np.sum),
    "max": _reduction(np.max),
    "min": _reduction(np.min),
    "nn.softmax": _softmax,
    "nn.global_avg_pool2d": _global_avg_pool2d,
    "nn.dense": _plain(lambda data, weight: data @ weight.T),
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.conv1d": _convolution,
    "nn.conv2d": _convolution,
    "nn.conv3d": _convolution,
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
}
# These look at types themselves.
_OF_SEVERAL_TYPES = {"qnn.quantize", "qnn.dequantize"}
