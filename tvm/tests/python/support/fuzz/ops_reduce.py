# SPDX-License-Identifier: Apache-2.0
"""Makers of softmax, reductions and norms, with what they compute. Test: backends/test_fuzz.py."""

import math

import numpy as np
from tvm import relay

from .ops_math import add_reference, multiply_reference, truncated, unary_reference
from .values import FLOATS, NOT_ASKED, Value, rounded


def softmax(is_log=False):
    op = "nn.log_softmax" if is_log else "nn.softmax"

    def make(g):
        data = g.data(range(1, 5))
        axis = g.int(-1, g.value(data).rank - 1)

        def reference(x):
            clean = np.where(np.isfinite(x.value), x.value, 0.0)
            moved = clean - clean.max(axis, keepdims=True)
            powers = np.exp(moved)
            total = powers.sum(axis, keepdims=True)
            spread = 2 * x.error.max(axis, keepdims=True)
            unit = FLOATS[x.dtype].unit
            # The difference from the maximum is rounded before its power is taken.
            spread = spread + 2 * unit * np.abs(moved)
            units = x.shape[axis] + 32
            if is_log:
                value = moved - np.log(total)
                error = spread + unit * units
            else:
                value = powers / total
                error = value * (np.expm1(spread) + unit * units) + unit * 1e-3
            broken = ~np.isfinite(x.value).all(axis, keepdims=True)
            error = np.where(broken, NOT_ASKED, error)
            clean = Value(clean, x.error, x.dtype)
            return rounded(value, error, x.dtype, [clean], 8, 128 if is_log else 0)

        function = relay.nn.log_softmax if is_log else relay.nn.softmax
        return g.call(op, [data], lambda x: function(x, axis=axis), reference)

    return make


def _axes_of(g, data):
    """The axes that are reduced, whether they are kept, and what TVM takes for both."""
    rank = g.value(data).rank
    axes = {g.int(0, rank - 1) for _ in range(g.int(1, rank))}
    axis = [each - rank for each in sorted(axes)] if g.chance(0.2) else sorted(axes)
    keep, exclude = g.chance(0.5), g.chance(0.15)
    reduced = set(range(rank)) - axes if exclude else axes
    return tuple(sorted(reduced)), keep, (axis, keep, exclude)


def _sum_of(x, axes, keep, scale=1.0):
    count = math.prod(x.shape[axis] for axis in axes)
    value = x.value.sum(axes, keepdims=keep) * scale
    sizes = np.where(np.isfinite(x.value), np.abs(x.value), 0.0).sum(axes, keepdims=keep) * scale
    error = x.error.sum(axes, keepdims=keep) * scale
    error = error + FLOATS[x.dtype].unit * (count + 2) * sizes
    error = np.where(sizes / scale + error > FLOATS[x.dtype].largest / 2, NOT_ASKED, error)
    # Of infinities of both signs comes NaN, in parts summed apart as well.
    known = ~np.isnan(value) | np.isnan(x.value).any(axes, keepdims=keep)
    error = np.where(
        np.isfinite(value), error, np.where(known & np.isfinite(error), 0.0, NOT_ASKED)
    )
    return Value(value, error, x.dtype)


def reduce_sum(op):
    def make(g):
        data = g.data(range(1, 5))
        axes, keep, given = _axes_of(g, data)
        if not axes:
            return data

        def reference(x):
            count = math.prod(x.shape[each] for each in axes)
            return _sum_of(x, axes, keep, 1.0 / count if op == "mean" else 1.0)

        function = getattr(relay, op)
        return g.call(op, [data], lambda x: function(x, *given), reference)

    return make


def reduce_ordered(op):
    function = {"max": np.max, "min": np.min}[op]

    def make(g):
        data = g.data(range(1, 5))
        axes, keep, given = _axes_of(g, data)
        if not axes:
            return data

        def reference(x):
            value = function(x.value, axes, keepdims=keep)
            error = x.error.max(axes, keepdims=keep)
            return Value(value, np.where(np.isnan(value), NOT_ASKED, error), x.dtype)

        return g.call(op, [data], lambda x: getattr(relay, op)(x, *given), reference)

    return make


def reduce_integers(g):
    op = g.pick(["sum", "max", "min", "mean"])
    data = g.data(range(1, 4), g.pick(["int32", "int64"]))
    axes, keep, given = _axes_of(g, data)
    if not axes:
        return data

    def reference(x):
        if op in ("max", "min"):
            value = getattr(x.value, op)(axes, keepdims=keep)
        else:
            value = x.value.sum(axes, keepdims=keep).astype(x.dtype)
        if op == "mean":
            value = truncated(value, np.array(math.prod(x.shape[each] for each in axes)))
        return Value(value.astype(x.dtype), x.error.sum(axes, keepdims=keep), x.dtype)

    function = getattr(relay, op)
    return g.call(op, [data], lambda x: function(x, *given), reference)


def product(g):
    data = g.data(range(1, 4), most=64)
    axis, keep = g.int(0, g.value(data).rank - 1), g.chance(0.5)

    def reference(x):
        value = x.value.prod(axis, keepdims=keep)
        size = (np.abs(x.value) + x.error).prod(axis, keepdims=keep)
        error = size - np.abs(value) + FLOATS[x.dtype].unit * (x.shape[axis] + 2) * size
        # A part of the product may be beyond the range where the whole is not.
        largest = np.maximum(np.abs(x.value) + x.error, 1.0).prod(axis, keepdims=keep)
        least = np.minimum(np.abs(x.value), 1.0).prod(axis, keepdims=keep)
        limits = FLOATS[x.dtype]
        known = (largest < limits.largest) & ((least > limits.tiny) | (least == 0))
        return Value(value, np.where(known & np.isfinite(error), error, NOT_ASKED), x.dtype)

    return g.call("prod", [data], lambda x: relay.prod(x, axis, keep), reference)


def argument(g):
    op = g.pick(["argmax", "argmin"])
    data = g.data(range(1, 5))
    axis, keep = g.int(0, g.value(data).rank - 1), g.chance(0.5)
    last = g.chance(0.3)
    sign = 1.0 if op == "argmax" else -1.0

    def reference(x):
        values = sign * x.value
        best = values.max(axis, keepdims=True)
        near = (values >= best - 2 * x.error.max(axis, keepdims=True)).sum(axis, keepdims=True)
        ties = (values == best).sum(axis, keepdims=True)
        flat = np.flip(values, axis) if last else values
        found = np.argmax(flat, axis)
        found = np.expand_dims(x.shape[axis] - 1 - found if last else found, axis)
        broken = ~np.isfinite(x.value).all(axis, keepdims=True) | (near != ties)
        broken |= np.isinf(x.error).any(axis, keepdims=True)
        error = np.where(broken, NOT_ASKED, 0.0)
        squeeze = (lambda v: v) if keep else (lambda v: v.squeeze(axis))
        return Value(squeeze(found).astype("int32"), squeeze(error), "int32")

    function = getattr(relay, op)
    return g.call(op, [data], lambda x: function(x, axis, keep, select_last_index=last), reference)


def variance(g):
    data = g.data(range(1, 5))
    axes, keep, given = _axes_of(g, data)
    if not axes:
        return data

    def reference(x):
        return _variance_of(x, axes, keep)

    return g.call("variance", [data], lambda x: relay.variance(x, *given), reference)


def _variance_of(x, axes, keep):
    count = math.prod(x.shape[each] for each in axes)
    centred = add_reference(-1.0, x, _sum_of(x, axes, True, 1.0 / count))
    return _sum_of(multiply_reference(centred, centred), axes, keep, 1.0 / count)


def _normalised(x, axes, scale, shift, epsilon):
    count = math.prod(x.shape[each] for each in axes)
    centred = add_reference(-1.0, x, _sum_of(x, axes, True, 1.0 / count))
    var = _variance_of(x, axes, True)
    constant = Value(np.array(epsilon), np.array(epsilon * 2.0**-24), x.dtype)
    root = unary_reference("rsqrt", add_reference(1.0, var, constant))
    result = multiply_reference(centred, root)
    if scale is not None:
        result = multiply_reference(result, scale)
    return result if shift is None else add_reference(1.0, result, shift)


def layer_norm(g):
    data = g.data(range(2, 5))
    rank = g.value(data).rank
    axis = g.pick([-1, -1, rank - 1, rank - 2])
    extent = g.value(data).shape[axis]
    epsilon = g.pick([1e-5, 1e-3, 1.0])
    gamma, beta = (g.constant(g.rng.standard_normal(extent).astype("float32")) for _ in range(2))
    shape = [1] * rank
    shape[axis] = extent

    def reference(x, scale, shift):
        scale, shift = (each.mapped(lambda v: v.reshape(shape)) for each in (scale, shift))
        return _normalised(x, (axis % rank,), scale, shift, epsilon)

    return g.call(
        "nn.layer_norm",
        [data, gamma, beta],
        lambda x, s, b: relay.nn.layer_norm(x, s, b, axis, epsilon),
        reference,
    )


def group_norm(g):
    data = g.data(4)
    channels = g.value(data).shape[1]
    groups = g.pick([n for n in range(1, channels + 1) if channels % n == 0])
    is_instance = g.chance(0.3)
    gamma, beta = (g.constant(g.rng.standard_normal(channels).astype("float32")) for _ in range(2))
    if is_instance:
        groups = channels

    def reference(x, scale, shift):
        n, c, *space = x.shape
        cut = x.mapped(lambda v: v.reshape(n, groups, c // groups, *space))
        whole = _normalised(cut, (2, 3, 4), None, None, 1e-5).mapped(lambda v: v.reshape(x.shape))
        scale, shift = (each.mapped(lambda v: v.reshape(1, c, 1, 1)) for each in (scale, shift))
        return add_reference(1.0, multiply_reference(whole, scale), shift)

    def build(x, scale, shift):
        if is_instance:
            return relay.nn.instance_norm(x, scale, shift)
        return relay.nn.group_norm(x, scale, shift, groups)

    name = "nn.instance_norm" if is_instance else "nn.group_norm"
    return g.call(name, [data, gamma, beta], build, reference)


def batch_norm(g):
    data = g.data(range(2, 5))
    rank = g.value(data).rank
    axis = g.pick([1, rank - 1])
    extent = g.value(data).shape[axis]
    draw = lambda: g.rng.standard_normal(extent).astype("float32")  # noqa: E731
    arrays = [draw(), draw(), draw(), np.abs(draw()) + np.float32(0.1)]
    shape = [1] * rank
    shape[axis] = extent

    def reference(x, gamma, beta, mean, var):
        gamma, beta, mean, var = (
            each.mapped(lambda v: v.reshape(shape)) for each in (gamma, beta, mean, var)
        )
        epsilon = Value(np.array(1e-5), np.array(1e-12), x.dtype)
        root = unary_reference("rsqrt", add_reference(1.0, var, epsilon))
        # As TVM writes it, which cancels where the mean is large: x * scale + shift.
        scale = multiply_reference(root, gamma)
        shifted = add_reference(-1.0, beta, multiply_reference(mean, scale))
        return add_reference(1.0, multiply_reference(x, scale), shifted)

    def build(x, *rest):
        return relay.nn.batch_norm(x, *rest, axis=axis)[0]

    args = [data, *(g.constant(array) for array in arrays)]
    return g.call("nn.batch_norm", args, build, reference)
