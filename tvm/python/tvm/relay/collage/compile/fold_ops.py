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

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tvm import ir, relay

from ..relay_util.walk import static_shape
from .layout import transform_layout, transform_loops

Value = np.ndarray | tuple
Evaluator = Callable[[Any, Sequence[Any], Any], Value | None]


def _to_shape(function: Callable) -> Evaluator:
    """Return the evaluator of an array's function that only its result's shape is given to."""

    def evaluate(_attrs: ir.Attrs, args: Sequence[Any], result: relay.TensorType) -> Value | None:
        shape = static_shape(result)
        return None if shape is None else function(args[0], shape)

    return evaluate


def _moved(function: Callable[[ir.Attrs, Any], Value | None]) -> Evaluator:
    """Return the evaluator of a function of a call's attributes and its one operand."""
    return lambda attrs, args, _result: function(attrs, args[0])


def _transpose(attrs: ir.Attrs, array: np.ndarray) -> Value | None:
    return array.transpose(None if attrs.axes is None else _integers_of(attrs.axes) or None)


def _split(attrs: ir.Attrs, array: np.ndarray) -> Value | None:
    given = attrs.indices_or_sections
    sections = _integers_of(given) if hasattr(given, "__len__") else int(given)
    return tuple(np.split(array, sections, axis=int(attrs.axis)))


def _integers_of(values: Iterable[Any]) -> list[int]:
    return [int(value) for value in values]


def _strided_slice(attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
    if len(args) != 1 or attrs.begin is None or attrs.end is None:
        return None
    begin, end = _integers_of(attrs.begin), _integers_of(attrs.end)
    strides = _integers_of(attrs.strides) if attrs.strides else [1]
    if str(attrs.slice_mode) != "end" or min(strides) < 1:
        return None
    if len(strides) == 1:
        strides = strides * len(begin)
    axes = range(len(begin)) if attrs.axes is None else _integers_of(attrs.axes)
    index: list[slice] = [slice(None)] * args[0].ndim
    for axis, *bounds in zip(axes, begin, end, strides, strict=True):
        index[axis] = slice(*bounds)
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


def _elementwise(function: Callable, takes: Callable[..., bool]) -> Evaluator:
    """Return the evaluator of a function of arrays, of those that `takes` tells."""

    def evaluate(_attrs: ir.Attrs, args: Sequence[Any], _result: relay.TensorType) -> Value | None:
        return function(*args) if takes(*args) else None

    return evaluate


def _are_of(kinds: str, *arrays: np.ndarray) -> bool:
    """Tell whether arrays are of one type of these kinds, and floats not of halves."""
    dtype = arrays[0].dtype
    is_one = all(array.dtype == dtype for array in arrays)
    return is_one and dtype.kind in kinds and dtype.name != "float16"


_floats, _integers, _numbers, _signed, _bools = (
    functools.partial(_are_of, kinds) for kinds in ("f", "iu", "fiu", "fi", "b")
)


def _ordered(*arrays: np.ndarray) -> bool:
    has_nan = arrays[0].dtype.kind == "f" and any(np.isnan(array).any() for array in arrays)
    return _numbers(*arrays) and not has_nan


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
    axis = None if attrs.axis is None else tuple(_integers_of(attrs.axis))
    value = np.prod(args[0], axis or None, args[0].dtype, keepdims=bool(attrs.keepdims))
    return np.asarray(value)


# Operators that are numpy's functions of their names, by what these are exact for.
_NUMPYS: dict[str, Callable[..., bool]] = {
    "add subtract multiply": _numbers,
    "maximum minimum": _integers,
    "equal not_equal less less_equal greater greater_equal": _ordered,
    "logical_and logical_or logical_not": _bools,
    "ceil floor sqrt": _floats,
    "abs": _signed,
}
EVALUATORS: dict[str, Evaluator] = {
    **{
        name: _elementwise(getattr(np, name), takes)
        for names, takes in _NUMPYS.items()
        for name in names.split()
    },
    **dict.fromkeys(
        ("reshape", "contrib_reverse_reshape", "reshape_like", "expand_dims", "squeeze")
        + ("nn.batch_flatten",),
        _to_shape(np.reshape),
    ),
    **dict.fromkeys(("broadcast_to", "broadcast_to_like"), _to_shape(np.broadcast_to)),
    "transpose": _moved(_transpose),
    "layout_transform": _moved(
        lambda attrs, array: transform_layout(array, str(attrs.src_layout), str(attrs.dst_layout))
    ),
    "auto_scheduler_layout_transform": _moved(
        lambda attrs, array: transform_loops(array, str(attrs.src_layout), str(attrs.dst_layout))
    ),
    "concatenate": _moved(lambda attrs, arrays: np.concatenate(arrays, axis=int(attrs.axis))),
    "stack": _moved(lambda attrs, arrays: np.stack(arrays, axis=int(attrs.axis))),
    "split": _moved(_split),
    "repeat": _moved(lambda attrs, array: np.repeat(array, int(attrs.repeats), int(attrs.axis))),
    "strided_slice": _strided_slice,
    "copy": _moved(lambda attrs, array: array),
    "cast": _cast,
    "cast_like": _cast,
    "full": _full,
    "full_like": lambda attrs, args, result: _full(attrs, args[1:], result),
    "zeros_like": _moved(lambda attrs, array: np.full_like(array, 0)),
    "ones_like": _moved(lambda attrs, array: np.full_like(array, 1)),
    "divide": _elementwise(_divide, _numbers),
    "floor_divide": _elementwise(_quotient(np.floor_divide), _integers),
    "mod": _elementwise(_quotient(np.fmod), _integers),
    "floor_mod": _elementwise(_quotient(np.mod), _integers),
    "where": _where,
    "take": _take,
    "arange": _arange,
    "prod": _product,
    # As TVM's kernels have it: of zero it is +0.
    "negative": _elementwise(lambda array: array.dtype.type(0) - array, _signed),
    "rsqrt": _elementwise(lambda array: array.dtype.type(1) / np.sqrt(array), _floats),
}
