# SPDX-License-Identifier: Apache-2.0
"""Forms in which importers write an operator and that no library knows, as operators that they do.

- An einsum of two operands is a product of matrices between transposes. No library takes TVM's
  operator, and its own kernel is one loop without a schedule: 20 of them, with relative positions,
  took a fifth of MViTv2's time. Assumptions: each letter stands once in an operand and in the
  result, with one extent; one that stands in one operand alone is in the result; some letter is
  summed over.
- A PReLU with one slope a channel, or one for all. TVM's importer of ONNX lays data and slopes out
  flat, a slope for each number: no library and no schedule of TVM's knows that form, and the slopes
  are read from memory as the data is. Assumptions: the slopes are known, and the result has the
  shape of the data.
- A take of neighbours, in their order, is a slice. Exporters write what is one of three or the
  first of a row so: queries, keys and values of one product, the token of the class. Libraries know
  slices as views or copies, while a take by numbers that might be any ends a backend's parts.
  Assumptions: shapes are static, the indices are constants inside the axis.

Test: rewrites/test_table.py, rewrites/test_forms.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard

from ..relay_util.walk import static_shape
from .engine import is_call

_flat = is_op("nn.prelu")(is_op("reshape")(wildcard()), wildcard())
FLAT_PRELU = is_op("reshape")(_flat)
# Those that numpy holds: bfloat16 are bits there.
_FLOATS = ("float16", "float32", "float64")


def product_of_matrices(einsum: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make nn.dense where the second operand is a matrix of weights, nn.batch_matmul elsewhere."""
    operands, equation = post.args[0], str(einsum.attrs.equation).replace(" ", "")
    is_float = "float" in einsum.checked_type.dtype  # products of bytes TVM computes otherwise
    if not is_float or not isinstance(operands, relay.Tuple) or len(operands.fields) != 2:
        return None
    first, second, result = _letters(equation)
    extents = _extents((first, second), einsum.args[0].checked_type.fields)
    if not extents or 0 in extents.values() or not _is_product(first, second, result):
        return None
    a, b = operands.fields
    if isinstance(a, relay.Constant):
        (a, first), (b, second) = (b, second), (a, first)
    shared = [letter for letter in first if letter in second]
    batch = [letter for letter in shared if letter in result]
    summed = [letter for letter in shared if letter not in result]
    rows = [letter for letter in first if letter not in second]
    columns = [letter for letter in second if letter not in first]
    groups = (batch, rows, columns, summed)
    n, m, k, depth = (math.prod(extents[letter] for letter in group) for group in groups)
    left = _laid_out(a, first, [*batch, *rows, *summed])
    right = _laid_out(b, second, [*batch, *columns, *summed])
    if batch or not isinstance(b, relay.Constant):
        left, right = relay.reshape(left, (n, m, depth)), relay.reshape(right, (n, k, depth))
        product = relay.nn.batch_matmul(left, right)
    else:
        left, right = relay.reshape(left, (m, depth)), relay.reshape(right, (k, depth))
        product = relay.nn.dense(left, right)
    axes = [*batch, *rows, *columns]
    whole = relay.reshape(product, [extents[letter] for letter in axes])
    return _laid_out(whole, axes, list(result))


def _letters(equation: str) -> tuple[str, str, str]:
    """Return those of the operands and the result; none of an equation without a result."""
    operands, _, result = equation.partition("->")
    first, _, second = operands.partition(",")
    return (first, second, result) if "->" in equation else ("", "", "")


def _is_product(first: str, second: str, result: str) -> bool:
    is_plain = all(text.isalpha() and len(set(text)) == len(text) for text in (first, second))
    alone, shared = set(first) ^ set(second), set(first) & set(second)
    is_summed = not shared <= set(result)
    return is_plain and is_summed and len(set(result)) == len(result) and alone <= set(result)


def _extents(operands: tuple[str, str], types: Iterable[relay.Type]) -> Mapping[str, int] | None:
    """Return extents by letter; None where a shape is open, or a letter has two extents."""
    found: dict[str, int] = {}
    for letters, each in zip(operands, types, strict=True):
        shape = static_shape(each)
        if shape is None or len(letters) != len(shape):
            return None
        for letter, extent in zip(letters, shape, strict=True):
            if found.setdefault(letter, extent) != extent:
                return None
    return found


def _laid_out(value: relay.Expr, letters: Sequence[str], wanted: list[str]) -> Any:
    """Return a value with axes in another order."""
    order = [list(letters).index(letter) for letter in wanted]
    return value if order == sorted(order) else relay.transpose(value, order)


def is_flat_prelu(node: relay.Expr) -> bool:
    """Tell whether a reshape is behind a PReLU of one axis."""
    return is_call(node.args[0], "nn.prelu") and len(node.args[0].checked_type.shape) == 1


def prelu(flat: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make nn.prelu or nn.leaky_relu on the data as it was."""
    before, laid_out = flat.args[0], post.args[0].args[0]
    shape, dtype = static_shape(before.args[0].args[0].checked_type), flat.checked_type.dtype
    values = _value_of(before.args[1])
    if shape is None or 0 in shape or dtype not in _FLOATS or values is None:
        return None
    # The data's reshape may be gone: with a line, which was restored before.
    if static_shape(flat.checked_type) != shape or not is_call(laid_out, "reshape"):
        return None
    [data], whole = laid_out.args, values.reshape(shape)
    if (whole == whole.flat[0]).all():
        return relay.nn.leaky_relu(data, float(whole.flat[0]))
    for axis, extent in enumerate(shape):
        a_channel = np.moveaxis(whole, axis, -1).reshape(-1, extent)
        if (a_channel == a_channel[0]).all():
            return relay.nn.prelu(data, relay.const(a_channel[0].copy(), dtype), axis=axis)
    return None


def _value_of(expr: relay.Expr) -> np.ndarray | None:
    """Return a constant's array, however it was laid out or broadcast: TVM folds no broadcast to
    the shape of a tensor that is computed."""
    if isinstance(expr, relay.Constant):
        return expr.data.numpy()
    if not is_call(expr, "reshape", "broadcast_to", "broadcast_to_like"):
        return None
    value, shape = _value_of(expr.args[0]), static_shape(expr.checked_type)
    if value is None or shape is None:
        return None
    return value.reshape(shape) if is_call(expr, "reshape") else np.broadcast_to(value, shape)


def is_take_of_neighbours(node: relay.Expr) -> bool:
    if not isinstance(node.args[1], relay.Constant):
        return False
    if node.attrs.axis is None or int(node.attrs.batch_dims):
        return False
    values = node.args[1].data.numpy().reshape(-1)
    return values.size > 0 and bool((np.diff(values.astype("int64")) == 1).all())


def slice_of(take: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make a slice, with the axes of the indices in the place of the one that it is along."""
    data, result = (static_shape(each.checked_type) for each in (take.args[0], take))
    if data is None or result is None:
        return None
    axis, indices = int(take.attrs.axis) % len(data), take.args[1].data.numpy()
    first, last = int(indices.min()), int(indices.max())
    if first < 0 or last >= data[axis]:
        return None
    part = relay.strided_slice(post.args[0], [first], [last + 1], [1], [axis])
    return relay.reshape(part, result)
