# SPDX-License-Identifier: Apache-2.0
"""Relay operators on numpy arrays: the table of what constant folding may compute by itself.

An evaluator takes the call's attributes, its arguments (arrays, or tuples of arrays) and the type
of its result, and returns the result, or None to leave the call to TVM. Listed are only operators
whose result is exactly that of TVM's kernel: data movement, and arithmetic that IEEE 754 rounds
correctly. Sums, products of matrices and transcendental functions are TVM's.

Every plan of a model is folded alike, so the comparison of plans cannot see a wrong evaluator: what
is right is what TVM's own kernel gives, zeros' signs and numbers that are none included.

Tests: compile/test_fold.py, compile/test_fold_ops.py (each row against TVM's own
FoldConstant, on numbers at the edges of their types)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import ir, relay

from ..relay_util.walk import static_shape
from .layout import transform_layout, transform_loops

Value = np.ndarray | tuple
Evaluator = Callable[[Any, Sequence[Any], Any], Value | None]

# Types that numpy and TVM hold alike in memory.
PLAIN_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
_EXACT_FLOATS = ("float32", "float64")


def _is_exact_float(array: np.ndarray) -> bool:
    return array.dtype.name in _EXACT_FLOATS


def _reshape(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    shape = static_shape(result)
    return None if shape is None else args[0].reshape(shape)


def _broadcast(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    shape = static_shape(result)
    return None if shape is None else np.broadcast_to(args[0], shape)


def _transpose(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    axes = None if attrs.axes is None else [int(axis) for axis in attrs.axes]
    return args[0].transpose(axes or None)


def _layout_transform(
    attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType
) -> Value | None:
    return transform_layout(args[0], str(attrs.src_layout), str(attrs.dst_layout))


def _loops_transform(
    attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType
) -> Value | None:
    return transform_loops(args[0], str(attrs.src_layout), str(attrs.dst_layout))


def _concatenate(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    return np.concatenate(args[0], axis=int(attrs.axis))


def _stack(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    return np.stack(args[0], axis=int(attrs.axis))


def _split(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    sections = attrs.indices_or_sections
    if hasattr(sections, "__len__"):
        return tuple(np.split(args[0], [int(i) for i in sections], axis=int(attrs.axis)))
    return tuple(np.split(args[0], int(sections), axis=int(attrs.axis)))


def _repeat(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    return np.repeat(args[0], int(attrs.repeats), int(attrs.axis))


def _strided_slice(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    if len(args) != 1 or attrs.begin is None or attrs.end is None:
        return None
    begin = [int(i) for i in attrs.begin]
    end = [int(i) for i in attrs.end]
    strides = [int(i) for i in attrs.strides] if attrs.strides else [1]
    if str(attrs.slice_mode) != "end" or any(stride < 1 for stride in strides):
        return None
    if len(strides) == 1:
        strides = strides * len(begin)
    if len(begin) != len(end) or len(begin) != len(strides):
        return None
    axes = range(len(begin)) if attrs.axes is None else [int(axis) for axis in attrs.axes]
    index: list[slice] = [slice(None)] * args[0].ndim
    for axis, first, last, stride in zip(axes, begin, end, strides, strict=True):
        index[axis] = slice(first, last, stride)
    return args[0][tuple(index)]


def _cast(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    source, wanted = args[0].dtype, np.dtype(str(result.dtype))
    if source == wanted:
        return args[0]
    if source.name == "float16" or wanted.name == "float16":
        return None
    if source.kind == "f" and wanted.kind in "iu":
        # Out of range the result is whatever the hardware does: TVM's to say.
        limits = np.iinfo(wanted)
        in_range = np.isfinite(args[0]) & (args[0] > limits.min) & (args[0] < limits.max)
        if not in_range.all():
            return None
    if source.kind == "f" and wanted.kind == "b" and np.isnan(args[0]).any():
        return None  # true in numpy, false in TVM's kernels, which ask for ordered and not equal
    return args[0].astype(wanted)


def _full(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    shape = static_shape(result)
    if shape is None or args[0].dtype != np.dtype(str(result.dtype)) or args[0].ndim:
        return None
    return np.full(shape, args[0])


def _full_like(attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    return _full(attrs, args[1:], result)


def _filled_like(value: int) -> Evaluator:
    def evaluate(_attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
        return np.full_like(args[0], value)

    return evaluate


def _elementwise(function: Callable, takes: Callable[..., bool]) -> Evaluator:
    """Return the evaluator of a function of arrays, of those that `takes` tells."""

    def evaluate(_attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
        return function(*args) if takes(*args) else None

    return evaluate


def _floats(*arrays: np.ndarray) -> bool:
    return _are_of_one_type(arrays) and _is_exact_float(arrays[0])


def _integers(*arrays: np.ndarray) -> bool:
    return _are_of_one_type(arrays) and arrays[0].dtype.kind in "iu"


def _numbers(*arrays: np.ndarray) -> bool:
    return _floats(*arrays) or _integers(*arrays)


def _signed(array: np.ndarray) -> bool:
    return array.dtype.kind == "i" or _is_exact_float(array)


def _ordered(*arrays: np.ndarray) -> bool:
    has_nan = arrays[0].dtype.kind == "f" and any(np.isnan(array).any() for array in arrays)
    return _numbers(*arrays) and not has_nan


def _bools(*arrays: np.ndarray) -> bool:
    return all(array.dtype == np.bool_ for array in arrays)


def _are_of_one_type(arrays: Sequence[np.ndarray]) -> bool:
    return all(array.dtype == arrays[0].dtype for array in arrays)


def _negative(array: np.ndarray) -> np.ndarray:
    # As TVM's kernels have it: of zero it is +0.
    return array.dtype.type(0) - array


def _rsqrt(array: np.ndarray) -> np.ndarray:
    return array.dtype.type(1) / np.sqrt(array)


def _quotient(function: Callable) -> Callable:
    """Leave out what the hardware has no answer for: x / 0, and the least number by -1."""

    def divide(left: np.ndarray, right: np.ndarray) -> Value | None:
        is_least = left.dtype.kind == "i" and (left == np.iinfo(left.dtype).min).any()
        if (right == 0).any() or (is_least and (right == -1).any()):
            return None
        return function(left, right)

    return divide


def _truncated(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left - np.fmod(left, right)) // right


def _divide(left: np.ndarray, right: np.ndarray) -> Value | None:
    return (np.divide if left.dtype.kind == "f" else _quotient(_truncated))(left, right)


def _where(_attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    condition, left, right = args
    if condition.dtype != np.bool_ or left.dtype != right.dtype:
        return None
    return np.where(condition, left, right)


def _take(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    data, indices = args
    if int(attrs.batch_dims) != 0 or indices.dtype.kind not in "iu":
        return None
    axis = None if attrs.axis is None else int(attrs.axis)
    # Outside of the data it depends on the mode what is taken.
    limit = data.size if axis is None else data.shape[axis]
    is_inside = (indices >= 0).all() and (indices < limit).all()
    return np.take(data, indices.astype("int64"), axis) if is_inside else None


def _arange(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    start, stop, step = args
    shape, dtype = static_shape(result), np.dtype(str(result.dtype))
    if shape is None or any(item.dtype != dtype or item.ndim for item in (start, stop, step)):
        return None
    return start + np.arange(shape[0], dtype=dtype) * step if dtype.kind in "iu" else None


def _product(attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
    if args[0].dtype.kind not in "iu" or attrs.exclude:
        return None
    axis = None if attrs.axis is None else tuple(int(item) for item in attrs.axis)
    value = np.prod(args[0], axis or None, args[0].dtype, keepdims=bool(attrs.keepdims))
    return np.asarray(value)


def _identity(_attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    return args[0]


EVALUATORS: dict[str, Evaluator] = {
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "reshape_like": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "nn.batch_flatten": _reshape,
    "broadcast_to": _broadcast,
    "broadcast_to_like": _broadcast,
    "transpose": _transpose,
    "layout_transform": _layout_transform,
    "auto_scheduler_layout_transform": _loops_transform,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "repeat": _repeat,
    "strided_slice": _strided_slice,
    "copy": _identity,
    "cast": _cast,
    "cast_like": _cast,
    "full": _full,
    "full_like": _full_like,
    "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1),
    "add": _elementwise(np.add, _numbers),
    "subtract": _elementwise(np.subtract, _numbers),
    "multiply": _elementwise(np.multiply, _numbers),
    "divide": _elementwise(_divide, _numbers),
    "floor_divide": _elementwise(_quotient(np.floor_divide), _integers),
    "mod": _elementwise(_quotient(np.fmod), _integers),
    "floor_mod": _elementwise(_quotient(np.mod), _integers),
    "maximum": _elementwise(np.maximum, _integers),
    "minimum": _elementwise(np.minimum, _integers),
    "equal": _elementwise(np.equal, _ordered),
    "not_equal": _elementwise(np.not_equal, _ordered),
    "less": _elementwise(np.less, _ordered),
    "less_equal": _elementwise(np.less_equal, _ordered),
    "greater": _elementwise(np.greater, _ordered),
    "greater_equal": _elementwise(np.greater_equal, _ordered),
    "logical_and": _elementwise(np.logical_and, _bools),
    "logical_or": _elementwise(np.logical_or, _bools),
    "logical_not": _elementwise(np.logical_not, _bools),
    "where": _where,
    "take": _take,
    "arange": _arange,
    "prod": _product,
    "ceil": _elementwise(np.ceil, _floats),
    "floor": _elementwise(np.floor, _floats),
    "negative": _elementwise(_negative, _signed),
    "abs": _elementwise(np.abs, _signed),
    "sqrt": _elementwise(np.sqrt, _floats),
    "rsqrt": _elementwise(_rsqrt, _floats),
}
