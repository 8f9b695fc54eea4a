# SPDX-License-Identifier: Apache-2.0
"""Makers of quantised operators and of casts to narrow floats, with what they compute.

Sums of bytes are exact. A scale on the way to bytes rounds, and TVM (fixed point) and oneDNN
(float32, once a chain) may round to neighbours; beyond the type's range nothing is to be rounded.
Test: backends/test_fuzz.py.
"""

import functools
import math

import numpy as np
from tvm import relay

from .ops_math import add_reference
from .ops_nn import _convolved
from .values import FLOATS, NOT_ASKED, Value, bilinear, rounded

_BYTES = ("uint8", "int8")


def _scalar(g, number, dtype) -> int:
    return g.constant(np.array(number, dtype))


def _zero_point(g, dtype) -> int:
    limits = np.iinfo(dtype)
    return g.pick([0, 0, 3, 128 if dtype == "uint8" else -5, int(limits.max), int(limits.min)])


def _weights(g, shape) -> int:
    if g.chance(0.4):
        return g.constant(np.full(shape, g.pick([127, -128]), "int8"))
    return g.constant(g.rng.integers(-128, 127, shape, endpoint=True).astype("int8"))


def qnn_conv2d(g):
    dtype = g.pick(_BYTES)
    channels, results = g.pick([1, 3, 8, 16, 64]), g.pick([1, 3, 8, 16])
    kernel = g.pick([[1, 1], [3, 3], [2, 3]])
    strides, pads = g.ints(2, 1, 2), g.ints(4, 0, 1)
    size = g.ints(2, 4, 8)
    groups = g.pick([1, 1, channels]) if g.chance(0.3) else 1
    results = channels if groups > 1 else results
    data = g.input([g.int(1, 2), channels, *size], dtype)
    weight = _weights(g, [results, channels // groups, *kernel])
    zero, scale = _zero_point(g, dtype), 0.02
    pads = [min(p, k - 1) for p, k in zip(pads, kernel * 2)]

    def reference(x, w, *_):
        # What pads is the zero point, the number 0.
        wide = x.value.astype("float64") - zero
        weights = w.value.astype("float64")
        value = _convolved(wide, weights, strides, pads[:2], pads[2:], [1, 1], groups)
        return Value(value.astype("int32"), np.zeros(value.shape), "int32")

    args = [data, weight, _scalar(g, zero, "int32"), _scalar(g, 0, "int32")]
    args += [_scalar(g, scale, "float32"), _scalar(g, 0.01, "float32")]

    def build(x, w, *rest):
        return relay.qnn.op.conv2d(
            x, w, *rest, kernel_size=kernel, channels=results, strides=strides, padding=pads,
            groups=groups,
        )  # fmt: skip

    product = g.call("qnn.conv2d", args, build, reference)
    return _after_product(g, product, results, math.prod(kernel) * channels // groups, 1)


def qnn_dense(g):
    dtype = g.pick(_BYTES)
    depth, results = g.pick([1, 4, 7, 64, 256]), g.pick([1, 3, 8, 16])
    data, weight = g.input([g.int(1, 5), depth], dtype), _weights(g, [results, depth])
    zero = _zero_point(g, dtype)

    def reference(x, w, *_):
        value = (x.value.astype("int64") - zero) @ w.value.astype("int64").T
        return Value(value.astype("int32"), np.zeros(value.shape), "int32")

    args = [data, weight, _scalar(g, zero, "int32"), _scalar(g, 0, "int32")]
    args += [_scalar(g, 0.02, "float32"), _scalar(g, 0.01, "float32")]

    def build(x, w, *rest):
        return relay.qnn.op.dense(x, w, *rest, units=results)

    return _after_product(g, g.call("qnn.dense", args, build, reference), results, depth, -1)


def _after_product(g, product, results, length, axis):
    """Mostly a bias and a requantize, with clip, cast and a residual sum sometimes."""
    if g.chance(0.2):
        return product
    if g.chance(0.5):
        bias = g.rng.integers(-3000, 3000, results).astype("int32")

        def biased(x, b):
            shape = [1] * x.rank
            shape[axis] = results
            return Value(x.value + b.value.reshape(shape), x.error, "int32")

        product = g.call(
            "nn.bias_add", [product, g.constant(bias)],
            lambda x, b: relay.nn.bias_add(x, b, axis), biased,
        )  # fmt: skip
    scale = 2e-4
    factor = g.pick([20.0, 100.0, 1000.0]) * math.sqrt(length) / 127.0
    scales = np.array(scale, "float32")
    if g.chance(0.3):
        scales = (scale * g.rng.uniform(0.3, 3, results)).astype("float32")
    bytes_of = requantize(g, product, scales, 0, scale * factor * 10, axis)
    if g.chance(0.3):
        return bytes_of
    if g.chance(0.5):
        dtype = g.value(bytes_of).dtype
        other = g.input(g.value(bytes_of).shape, dtype)
        bytes_of = qnn_add_of(g, bytes_of, other)
    return bytes_of


def _to_bytes(value, error, dtype):
    """Rounded to the nearest; `error` is of `value`, which is not rounded yet."""
    limits = np.iinfo(dtype)
    whole = np.clip(np.rint(value), limits.min, limits.max)
    # One step for rounding to the other side, unless the range ends before.
    beyond = (value - error > limits.max + 1) | (value + error < limits.min - 1)
    return Value(whole.astype(dtype), np.where(beyond, 0.0, np.ceil(error + 0.5)), dtype)


def requantize(g, data, scales, zero, out_scale, axis):
    out_dtype = g.pick(_BYTES)
    out_zero = _zero_point(g, out_dtype)
    out_scale = float(np.float32(out_scale))

    def reference(x, *_):
        shape = [1] * x.rank
        if scales.size > 1:
            shape[axis] = scales.size
        factor = scales.astype("float64").reshape(shape if scales.size > 1 else ()) / out_scale
        value = (x.value.astype("float64") - zero) * factor + out_zero
        error = x.error * factor + 1e-5 + 2.0**-22 * np.abs(value)
        return _to_bytes(value, error, out_dtype)

    args = [data, g.constant(scales), _scalar(g, zero, "int32")]
    args += [_scalar(g, out_scale, "float32"), _scalar(g, out_zero, "int32")]

    def build(x, *rest):
        return relay.qnn.op.requantize(x, *rest, axis=axis, out_dtype=out_dtype)

    return g.call("qnn.requantize", args, build, reference)


def qnn_add_of(g, a, b):
    dtype = g.value(a).dtype
    scales = [float(np.float32(each)) for each in g.rng.uniform(0.02, 0.2, 3)]
    zeros = [_zero_point(g, dtype) for _ in range(3)]

    def reference(x, y, *_):
        sides = [
            (each.value.astype("float64") - zero) * scale / scales[2]
            for each, zero, scale in zip((x, y), zeros, scales)
        ]
        # TVM rounds each side by itself before it adds.
        error = x.error * scales[0] / scales[2] + y.error * scales[1] / scales[2] + 1.0 + 1e-3
        return _to_bytes(sides[0] + sides[1] + zeros[2], error, dtype)

    args = [a, b]
    for scale, zero in zip(scales, zeros):
        args += [_scalar(g, scale, "float32"), _scalar(g, zero, "int32")]
    return g.call("qnn.add", args, relay.qnn.op.add, reference)


def qnn_add(g):
    dtype = g.pick(_BYTES)
    a = g.data(dtype=dtype)
    return qnn_add_of(g, a, g.input(g.value(a).shape, dtype))


def quantize(g):
    data = g.data(range(1, 5))
    out_dtype = g.pick(_BYTES)
    scale, zero = float(np.float32(g.pick([0.02, 0.5, 1.0, 0.1]))), _zero_point(g, out_dtype)

    def reference(x, *_):
        sure = np.where(np.abs(x.value) < 1e8, x.value, 0.0)
        value = sure / scale + zero
        error = x.error / scale + 1e-5 + 2.0**-22 * np.abs(value)
        result = _to_bytes(value, np.where(np.isinf(error), 1e9, error), out_dtype)
        unknown = ~(np.abs(x.value) < 1e8) | np.isinf(x.error)
        return Value(result.value, np.where(unknown, NOT_ASKED, result.error), out_dtype)

    args = [data, _scalar(g, scale, "float32"), _scalar(g, zero, "int32")]
    return g.call(
        "qnn.quantize", args,
        lambda x, s, z: relay.qnn.op.quantize(x, s, z, out_dtype=out_dtype), reference,
    )  # fmt: skip


def dequantize(g):
    dtype = g.pick(_BYTES)
    data = g.data(range(1, 5), dtype=dtype)
    scale, zero = float(np.float32(g.pick([0.02, 0.5, 1.0, 0.1]))), _zero_point(g, dtype)

    def reference(x, *_):
        value = (x.value.astype("float64") - zero) * scale
        # Written as a * x + b, whose terms cancel.
        terms = scale * (np.abs(x.value.astype("float64")) + abs(zero))
        error = x.error * scale + 2.0**-22 * terms
        return rounded(value, error, "float32", [])

    args = [data, _scalar(g, scale, "float32"), _scalar(g, zero, "int32")]
    return g.call("qnn.dequantize", args, relay.qnn.op.dequantize, reference)


def relu_of_bytes(g):
    data = g.data(dtype="int8")
    return g.call(
        "nn.relu", [data], relay.nn.relu,
        lambda x: Value(np.maximum(x.value, 0), x.error, "int8"),
    )  # fmt: skip


def max_pool_of_bytes(g):
    dtype = g.pick(_BYTES)
    size = g.ints(2, 2, 9)
    data = g.input([1, g.pick([1, 3, 16]), *size], dtype)

    def reference(x):
        cut = x.value[..., : size[0] // 2 * 2, : size[1] // 2 * 2]
        n, c, h, w = cut.shape
        value = cut.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
        return Value(value, np.zeros(value.shape), dtype)

    return g.call(
        "nn.max_pool2d", [data], lambda x: relay.nn.max_pool2d(x, (2, 2), (2, 2)), reference
    )


def narrow(g, data, dtype):
    return g.call("cast", [data], lambda x: relay.cast(x, dtype), functools.partial(_as, dtype))


def _as(dtype, x):
    limits = FLOATS[dtype]
    result = rounded(x.value, x.error, dtype, [x])
    # To narrow floats; to wide ones nothing is rounded.
    if limits.unit <= FLOATS[x.dtype].unit:
        return Value(x.value, x.error, dtype)
    return result


def narrow_chain(g):
    """cast, one or two operators, cast back."""
    dtype = g.pick(["bfloat16", "bfloat16", "float16"])
    depth, units = g.pick([3, 8, 16]), g.pick([4, 16])
    data = narrow(g, g.input([g.int(1, 4), depth]), dtype)
    kind = g.int(0, 3)
    if kind == 0:
        weight = narrow(g, g.weight((units, depth), 0.3), dtype)

        def reference(x, w):
            return bilinear(lambda a, b: a @ b.T, x, w, depth)

        result = g.call("nn.dense", [data, weight], relay.nn.dense, reference)
    elif kind == 1:
        other = narrow(g, g.input([1, depth]), dtype)
        result = g.call("add", [data, other], relay.add, functools.partial(add_reference, 1.0))
    elif kind == 2:
        result = g.call(
            "nn.relu", [data], relay.nn.relu,
            lambda x: rounded(np.maximum(x.value, 0), x.error, dtype, [x], 0, 0, False),
        )  # fmt: skip
    else:
        result = g.call(
            "reshape", [data], lambda x: relay.reshape(x, (-1,)),
            lambda x: x.mapped(np.ravel),
        )  # fmt: skip
    return narrow(g, result, "float32")


QNN = [
    qnn_conv2d, qnn_conv2d, qnn_dense, qnn_add, quantize, dequantize, relu_of_bytes,
    max_pool_of_bytes,
]  # fmt: skip
