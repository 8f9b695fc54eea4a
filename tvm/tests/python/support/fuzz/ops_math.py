# SPDX-License-Identifier: Apache-2.0
"""Makers of elementwise operators, comparisons and casts, with what they compute.

Test: backends/test_fuzz.py.
"""

import functools
import math

import numpy as np
from tvm import relay

from .values import FLOATS, NOT_ASKED, Value, rounded, times

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _interval(function, value):
    """What a monotone function makes of the operand's error."""
    high, low = function(value.value + value.error), function(value.value - value.error)
    middle = function(value.value)
    error = np.fmax(np.abs(high - middle), np.abs(low - middle))
    # Where an end lies outside of the function's domain, nothing is known.
    broken = np.isnan(high) | np.isnan(low)
    error = np.where(broken & ~np.isnan(value.value), NOT_ASKED, error)
    return np.where(value.error == 0, 0.0, error)


def _wavy(function, value):
    """The same for a function whose slope is one at most."""
    del function
    return value.error


# Relay op -> (value, what becomes of errors, units of the value, units of 1 that it adds,
# whether NaN stays NaN). Libraries approximate: absolute errors are those of formulas that are
# good to some 1e-6 of the function's range.
_UNARY = {
    "exp": (np.exp, _interval, 16, 0, False),
    "log": (np.log, _interval, 8, 128, True),  # oneDNN is off by 5e-6 near 1 without AVX-512
    "sqrt": (np.sqrt, _interval, 4, 0, True),
    "rsqrt": (lambda x: 1 / np.sqrt(x), _interval, 8, 0, True),
    "tanh": (np.tanh, _interval, 16, 16, False),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), _interval, 16, 8, False),
    "erf": (_erf, _interval, 16, 16, False),
    "abs": (np.abs, _wavy, 0, 0, True),
    "negative": (np.negative, _wavy, 0, 0, True),
    "nn.relu": (lambda x: np.maximum(x, 0), _wavy, 0, 0, False),
    "cos": (np.cos, _wavy, 8, 16, True),
    "sin": (np.sin, _wavy, 8, 16, True),
    "floor": (np.floor, None, 0, 0, True),
    "ceil": (np.ceil, None, 0, 0, True),
}
_DNNL_UNARY = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "abs", "negative", "nn.relu",
)  # fmt: skip
_POSITIVE = ("log", "sqrt", "rsqrt")


def unary_reference(op, value: Value) -> Value:
    function, errors, units, absolute, keeps_nan = _UNARY[op]
    x = value.value
    result = function(x)
    if errors is None:
        # Where the operand's error crosses a whole number, either is right.
        crosses = function(x + value.error) != function(x - value.error)
        error = np.where(crosses & np.isfinite(x), NOT_ASKED, 0.0)
    else:
        error = errors(function, value)
    if op in ("cos", "sin"):
        error = np.where(np.abs(x) > 100.0, NOT_ASKED, error)  # libraries reduce them differently
    if op == "exp":
        error = error + 4 * FLOATS[value.dtype].unit * times(np.abs(x), np.abs(result))
    return rounded(result, error, value.dtype, [value], units, absolute, keeps_nan)


def add_unary(g, op, data) -> int:
    make = relay.op.get(op)
    reference = functools.partial(unary_reference, op)
    return g.call(op, [data], lambda x: relay.Call(make, [x]), reference)


def unary(ops):
    def make(g):
        op = g.pick(ops)
        data = g.data()
        if op in _POSITIVE and g.chance(0.8):
            data = add_unary(g, "abs", data)
        return add_unary(g, op, data)

    return make


def add_reference(sign, a, b):
    # Of the terms, not of the sum: libraries may scale them apart, (x + 3) / 6 as x / 6 + 0.5.
    sizes = np.abs(a.value) + np.abs(b.value)
    terms = 2 * FLOATS[a.dtype].unit * np.where(np.isfinite(sizes), sizes, 0.0)
    return rounded(a.value + sign * b.value, a.error + b.error + terms, a.dtype, [a, b])


def multiply_reference(a, b):
    error = times(np.abs(a.value), b.error) + times(np.abs(b.value) + b.error, a.error)
    return rounded(a.value * b.value, error, a.dtype, [a, b])


def _divide_reference(a, b):
    value = a.value / b.value
    least = np.abs(b.value) - b.error
    error = (a.error + times(np.abs(value), b.error)) / least
    known = np.isinf(b.value) & np.isfinite(a.value)
    error = np.where(least <= 0, NOT_ASKED, np.where(known, 0.0, error))
    return rounded(value, error, a.dtype, [a, b], 4)


def _ordered_reference(function, a, b):
    error = np.maximum(a.error, b.error)
    return rounded(function(a.value, b.value), error, a.dtype, [a, b], 0, 0, False)


def _power_reference(a, b):
    value = np.power(a.value, b.value)
    slope = np.abs(b.value * value / a.value)
    error = 2 * times(slope, a.error) + times(np.abs(value * np.log(np.abs(a.value))), b.error)
    error = np.where(np.abs(a.value) <= 2 * a.error, NOT_ASKED, error)
    units = 16 + 8 * np.abs(b.value * np.log(np.abs(a.value)))
    error = error + FLOATS[a.dtype].unit * times(units, np.abs(value))
    return rounded(value, error, a.dtype, [a, b], 0, 0, False)


_BINARY = {
    "add": functools.partial(add_reference, 1.0),
    "subtract": functools.partial(add_reference, -1.0),
    "multiply": multiply_reference,
    "divide": _divide_reference,
    "maximum": functools.partial(_ordered_reference, np.maximum),
    "minimum": functools.partial(_ordered_reference, np.minimum),
    "power": _power_reference,
}
_INTEGERS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip


def _integer_reference(op, a, b):
    if op == "divide":
        known = b.value != 0
        value = truncated(a.value, np.where(known, b.value, 1))
        error = np.where(known, a.error + b.error, NOT_ASKED)
        return Value(value, error, a.dtype)
    value = _INTEGERS[op](a.value, b.value)
    return Value(value, a.error + b.error, a.dtype)


def truncated(a, b):
    """The quotient of integers, rounded towards 0."""
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def add_binary(g, op, a, b) -> int:
    make = relay.op.get(op)
    reference = _BINARY.get(op)
    if not g.value(a).is_float:
        reference = functools.partial(_integer_reference, op)
    return g.call(op, [a, b], lambda x, y: relay.Call(make, [x, y]), reference)


def _operand(g, shape, dtype) -> int:
    """Something that broadcasts to the shape: a value, a constant, a scalar."""
    shape = list(shape)
    kind = g.int(0, 5)
    if kind == 0:
        same = [
            index
            for index, value in enumerate(g.values)
            if list(value.shape) == shape and value.dtype == dtype
        ]
        if same:
            return g.pick(same)
    if kind == 1:
        number = g.pick([0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, 255.0, -1e-3, 1e4])
        if not dtype.startswith("float"):
            number = int(number)
        return g.constant(np.array(number, dtype))
    cut = [extent if g.chance(0.6) else 1 for extent in shape]
    if kind == 2 and shape:
        cut = shape[-1:]
    if kind == 3 and len(shape) > 1:
        cut = [1] * len(shape)
        axis = g.pick([1, len(shape) - 1])
        cut[axis] = shape[axis]
    if kind == 4:
        cut = shape
    if dtype.startswith("float") and g.chance(0.6):
        return g.weight(cut)
    return g.input(cut, dtype)


def binary(ops):
    def make(g):
        op = g.pick(ops)
        a = g.data()
        if op == "power":
            a = add_unary(g, "abs", a) if g.chance(0.7) else a
            exponent = g.pick([2.0, 3.0, 0.5, -1.0, 1.0, 0.0, 1.7])
            return add_binary(g, op, a, g.constant(np.array(exponent, "float32")))
        b = _operand(g, g.value(a).shape, "float32")
        if g.chance(0.25):
            a, b = b, a
        return add_binary(g, op, a, b)

    return make


def sum_of_alike(g):
    """A residual sum: with an earlier value of the shape, or an input."""
    a = g.data()
    value = g.value(a)
    same = [
        index
        for index, other in enumerate(g.values)
        if other.shape == value.shape and other.dtype == value.dtype
    ]
    b = g.pick(same) if g.chance(0.5) else g.input(value.shape)
    return add_binary(g, "add", *((a, b) if g.chance(0.5) else (b, a)))


def binary_of_integers(g):
    dtype = g.pick(["int32", "int64"])
    a = g.data(dtype=dtype)
    b = _operand(g, g.value(a).shape, dtype)
    return add_binary(g, g.pick([*_INTEGERS, "divide"]), a, b)


def bias_add(g):
    a = g.data(range(2, 5))
    axis = g.int(-1, g.value(a).rank - 1)
    extent = g.value(a).shape[axis]
    bias = g.weight([extent])
    rank = g.value(a).rank

    def reference(x, b):
        shape = [1] * rank
        shape[axis] = extent
        return add_reference(1.0, x, b.mapped(lambda v: v.reshape(shape)))

    return g.call("nn.bias_add", [a, bias], lambda x, b: relay.nn.bias_add(x, b, axis), reference)


_OPEN = [(0.0, math.inf), (-math.inf, 1.5), (-3.4028234663852886e38, 0.0)]


def clip(g):
    data = g.data()
    low, high = g.pick(
        [(0.0, 6.0), (-1.0, 1.0), (0.0, 1e30), (-0.5, 0.25), (2.0, 2.0), (0, 255.0)] + _OPEN
    )

    def reference(x):
        return rounded(np.clip(x.value, low, high), x.error, x.dtype, [x], 0, 0, False)

    return g.call("clip", [data], lambda x: relay.clip(x, low, high), reference)


def leaky_relu(g):
    slope = g.pick([0.1, 0.0, 1.0, 2.0, -0.5])

    def reference(x):
        value = np.where(x.value > 0, x.value, slope * x.value)
        error = x.error * max(1.0, abs(slope))
        return rounded(value, error, x.dtype, [x], 1, 0, False)

    return g.call("nn.leaky_relu", [g.data()], lambda x: relay.nn.leaky_relu(x, slope), reference)


def prelu(g):
    data = g.data(4)
    slope = g.weight([g.value(data).shape[1]])

    def reference(x, a):
        alpha = a.value.reshape(1, -1, 1, 1)
        value = np.where(x.value > 0, x.value, alpha * x.value)
        error = x.error * np.maximum(1.0, np.abs(alpha))
        return rounded(value, error, x.dtype, [x], 1, 0, False)

    return g.call("nn.prelu", [data, slope], relay.nn.prelu, reference)


def composite(g):
    """An activation as exporters write it: patterns of oneDNN's table and near misses of them."""
    x = g.data()
    s = lambda number: g.constant(np.array(number, "float32"))  # noqa: E731
    b = functools.partial(add_binary, g)
    u = functools.partial(add_unary, g)
    kind = g.int(0, 9)
    near = g.pick([1.0, 1.0, 1.0, 0.9])
    if kind == 0:
        inner = b("add", u("erf", b("divide", x, s(math.sqrt(2.0)))), s(near))
        return b("multiply", b("multiply", x, s(0.5)), inner)
    if kind == 1:
        return b("multiply", x, u("sigmoid", x if near == 1.0 else b("multiply", x, s(1.7))))
    if kind == 2:
        inner = b("multiply", b("multiply", x, x), x)
        inner = b("add", x, b("multiply", inner, s(0.044715)))
        inner = u("tanh", b("multiply", inner, s(math.sqrt(2.0 / math.pi))))
        return b("multiply", b("multiply", x, s(0.5)), b("add", inner, s(near)))
    if kind == 3:
        return b("multiply", x, u("tanh", u("log", b("add", u("exp", x), s(near)))))
    if kind in (4, 5):
        line = clip_to(g, b("add", x, s(3.0)), 0.0, 6.0)
        line = b("divide", line, s(6.0 * near))
        return b("multiply", x, line) if kind == 4 else line
    if kind == 6:
        return b("add", b("multiply", x, s(-2.5)), s(0.75))
    if kind == 7:
        return b("multiply", x, x)
    if kind == 8:
        return b("subtract", s(1.0), u("sigmoid", x))
    return b("maximum", b("minimum", x, s(4.0)), s(-3.0 * near))


def clip_to(g, data, low, high):
    def reference(x):
        return rounded(np.clip(x.value, low, high), x.error, x.dtype, [x], 0, 0, False)

    return g.call("clip", [data], lambda x: relay.clip(x, low, high), reference)


_COMPARE = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "greater": np.greater,
    "less_equal": np.less_equal, "greater_equal": np.greater_equal,
}  # fmt: skip


def comparison(g):
    op = g.pick(list(_COMPARE))
    dtype = g.pick(["float32", "int32", "int64"])
    a = g.data(dtype=dtype)
    b = _operand(g, g.value(a).shape, dtype)
    function = _COMPARE[op]
    make = relay.op.get(op)

    def reference(x, y):
        near = np.abs(x.value - y.value) <= x.error + y.error
        near &= x.error + y.error > 0
        unknown = near | np.isinf(x.error) | np.isinf(y.error)
        error = np.where(unknown | np.isnan(x.value) | np.isnan(y.value), NOT_ASKED, 0.0)
        return Value(function(x.value, y.value), error, "bool")

    return g.call(op, [a, b], lambda x, y: relay.Call(make, [x, y]), reference)


_LOGICAL = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


def logical(g):
    a = g.data(dtype="bool")
    if g.chance(0.3):
        return g.call("logical_not", [a], relay.logical_not, lambda x: x.mapped(_not))
    op = g.pick(list(_LOGICAL))
    b = _operand(g, g.value(a).shape, "bool")
    make, function = relay.op.get(op), _LOGICAL[op]

    def reference(x, y):
        return Value(function(x.value, y.value), x.error + y.error, "bool")

    return g.call(op, [a, b], lambda x, y: relay.Call(make, [x, y]), reference)


def _not(array):
    return ~array if array.dtype == bool else array


def where(g):
    condition = comparison(g) if g.chance(0.6) else g.data(dtype="bool")
    shape = g.value(condition).shape
    dtype = g.pick(["float32", "float32", "int32"])
    a, b = _operand(g, shape, dtype), _operand(g, shape, dtype)
    if np.broadcast_shapes(g.value(a).shape, shape) != shape:
        return condition

    def reference(c, x, y):
        pick = lambda m, n: np.where(c.value, m, n)  # noqa: E731
        error = np.where(np.isinf(c.error), NOT_ASKED, pick(x.error, y.error))
        return Value(pick(x.value, y.value), error, x.dtype)

    return g.call("where", [condition, a, b], relay.where, reference)


def cast(g):
    data = g.data(dtype=g.pick(["float32", "int32", "bool"]))
    source = g.value(data).dtype
    target = g.pick([each for each in ("float32", "int32", "bool") if each != source])

    def reference(x):
        if target == "float32":
            return Value(x.value.astype("float64"), x.error, target)
        if not x.is_float:
            return Value(x.value.astype(target), x.error, target)
        if target == "bool":
            unknown = (np.abs(x.value) <= x.error) & (x.error > 0) | ~np.isfinite(x.value)
            return Value(x.value != 0, np.where(unknown, NOT_ASKED, 0.0), target)
        clean = np.where(np.abs(x.value) < 2**30, x.value, 0.0)
        crosses = np.trunc(clean + x.error) != np.trunc(clean - x.error)
        unknown = crosses | ~(np.abs(x.value) < 2**30) | np.isinf(x.error)
        return Value(np.trunc(clean).astype(target), np.where(unknown, NOT_ASKED, 0.0), target)

    return g.call("cast", [data], lambda x: relay.cast(x, target), reference)


RELU = unary(["nn.relu"])
DNNL_UNARY = unary(_DNNL_UNARY)
ALL_UNARY = unary(list(_UNARY))
DNNL_BINARY = binary(["add", "subtract", "multiply", "divide", "maximum", "minimum"])
ALL_BINARY = binary(list(_BINARY))
