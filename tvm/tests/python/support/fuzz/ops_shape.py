# SPDX-License-Identifier: Apache-2.0
"""Makers of operators that move, select and join elements, with what they compute.

Test: backends/test_fuzz.py.
"""

import math

import numpy as np
from tvm import relay

from .values import Value, exact

_TYPES = ("float32", "float32", "float32", "int32")


def moving(g, op, data, build, change) -> int:
    """A call that moves elements: `change` does to an array what `build` does to an expression."""
    return g.call(op, [data], build, lambda x: x.mapped(change))


def _factors(g, size):
    """A random shape of so many elements."""
    shape = []
    while size > 1 and len(shape) < 4:
        shape.append(g.pick([n for n in range(1, size + 1) if size % n == 0]))
        size //= shape[-1]
    return [*shape, size] if size > 1 or not shape else shape


def reshape(g):
    data = g.data(dtype=g.pick(_TYPES))
    shape = _factors(g, g.value(data).value.size)
    return moving(g, "reshape", data, lambda x: relay.reshape(x, shape), lambda v: v.reshape(shape))


def transpose(g):
    data = g.data(range(2, 6), dtype=g.pick(_TYPES))
    axes = [int(axis) for axis in g.rng.permutation(g.value(data).rank)]
    return moving(
        g, "transpose", data, lambda x: relay.transpose(x, axes), lambda v: v.transpose(axes)
    )


def squeeze(g):
    data = g.data(range(2, 6))
    ones = [axis for axis, extent in enumerate(g.value(data).shape) if extent == 1]
    if not ones or len(ones) == g.value(data).rank:
        return expand_dims(g)
    return moving(
        g, "squeeze", data,
        lambda x: relay.squeeze(x, ones), lambda v: v.squeeze(tuple(ones)),
    )  # fmt: skip


def expand_dims(g):
    data = g.data(range(1, 5))
    axis = g.int(0, g.value(data).rank)
    return moving(
        g, "expand_dims", data,
        lambda x: relay.expand_dims(x, axis), lambda v: np.expand_dims(v, axis),
    )  # fmt: skip


def batch_flatten(g):
    data = g.data(range(2, 6))
    return moving(
        g, "nn.batch_flatten", data,
        relay.nn.batch_flatten, lambda v: v.reshape(v.shape[0], math.prod(v.shape[1:])),
    )  # fmt: skip


def concatenate(g):
    dtype = g.pick(_TYPES)
    data = g.data(range(1, 5), dtype=dtype)
    shape = list(g.value(data).shape)
    axis = g.int(0, len(shape) - 1)
    args = [data]
    for _ in range(g.int(1, 2)):
        fit = [
            i
            for i, value in enumerate(g.values)
            if value.dtype == dtype
            and value.rank == len(shape)
            and all(a == b or n == axis for n, (a, b) in enumerate(zip(value.shape, shape)))
        ]
        if g.chance(0.5):
            args.append(g.pick(fit))
        else:
            more = [*shape]
            more[axis] = g.int(1, 5)
            args.append(g.input(more, dtype))
    sign = g.pick([0, -len(shape)])

    def reference(*parts):
        value, error = (
            np.concatenate([getattr(part, name) for part in parts], axis)
            for name in ("value", "error")
        )
        return Value(value, error, dtype)

    return g.call(
        "concatenate", args,
        lambda *xs: relay.concatenate(relay.Tuple(list(xs)), axis + sign), reference,
    )  # fmt: skip


def stack(g):
    data = g.data(range(1, 4))
    axis = g.int(0, g.value(data).rank)
    other = g.input(g.value(data).shape)

    def reference(a, b):
        pairs = [(a.value, b.value), (a.error, b.error)]
        return Value(*(np.stack(pair, axis) for pair in pairs), a.dtype)

    return g.call("stack", [data, other], lambda *xs: relay.stack(list(xs), axis), reference)


def split(g):
    data = g.data(range(1, 5), dtype=g.pick(_TYPES))
    shape = g.value(data).shape
    axis = g.int(0, len(shape) - 1)
    if shape[axis] < 2:
        return data
    if g.chance(0.5):
        sections = g.pick([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
        cuts = [shape[axis] // sections * i for i in range(1, sections)]
    else:
        sections = sorted({g.int(1, shape[axis] - 1) for _ in range(2)})
        cuts = sections
    indices = sorted({g.int(0, len(cuts)) for _ in range(3)})
    return parts(g, data, sections, axis, indices)[-1]


def parts(g, data, sections, axis, indices):
    """Those results of a split: of one operator, however many of them are read."""
    made = {}

    def all_of(x):
        if x not in made:
            made[x] = relay.split(x, sections, axis)
        return made[x]

    return [
        moving(
            *(g, "split", data),
            lambda x, i=index: all_of(x)[i],
            lambda v, i=index: np.split(v, sections, axis)[i],
        )
        for index in indices
    ]


def rejoined(g):
    """Parts of a value joined in another order, the first of them perhaps left out."""
    dtype, sections, axis = g.pick(_TYPES), g.pick([2, 3, 4]), g.int(0, 2)
    shape = [*g.shape(2), g.pick([4, 16, 40])]
    shape[axis] = sections * g.int(1, 4)
    data = g.input(shape, dtype)
    data = moving(g, "negative", data, relay.negative, lambda v: -v) if g.chance(0.7) else data
    indices = [int(i) for i in g.rng.permutation(sections)][: g.int(2, sections)]
    along = g.int(0, 2)

    def reference(*values):
        fields = ("value", "error")
        return Value(
            *(np.concatenate([getattr(v, name) for v in values], along) for name in fields), dtype
        )

    return g.call(
        "concatenate", parts(g, data, sections, axis, indices),
        lambda *xs: relay.concatenate(relay.Tuple(list(xs)), along), reference,
    )  # fmt: skip


def strided_slice(has_steps):
    def make(g):
        data = g.data(range(1, 5), dtype=g.pick(_TYPES))
        shape = g.value(data).shape
        begin, end, strides, cut = [], [], [], []
        for extent in shape:
            first = g.int(0, extent - 1)
            last = g.int(first + 1, extent + 1)
            step = g.pick([1, 1, 2, 3]) if has_steps else 1
            if has_steps and g.chance(0.2):
                begin.append(last - 1)
                end.append(first - 1 - extent if first == 0 else first - 1)
                strides.append(-step)
                cut.append(slice(last - 1, None if first == 0 else first - 1, -step))
                continue
            negative = g.chance(0.2)
            begin.append(first - extent if negative else first)
            end.append(last)
            strides.append(step)
            cut.append(slice(first, last, step))
        if g.chance(0.1) and not any(step < 0 for step in strides):
            sizes = [
                -1 if last >= extent else last - first
                for first, last, extent in zip([b % n for b, n in zip(begin, shape)], end, shape)
            ]
            cut = [slice(each.start, each.stop) for each in cut]
            return moving(
                *(g, "strided_slice", data),
                lambda x: relay.strided_slice(x, begin, sizes, slice_mode="size"),
                lambda v: v[tuple(cut)],
            )
        if g.chance(0.3):
            axes = sorted({g.int(0, len(shape) - 1) for _ in range(2)})
            begin, end, strides = ([each[i] for i in axes] for each in (begin, end, strides))
            cut = [cut[i] if i in axes else slice(None) for i in range(len(shape))]
        else:
            axes = None
            if g.chance(0.2):  # the last axes are taken whole
                count = g.int(1, len(shape))
                begin, end, strides = (each[:count] for each in (begin, end, strides))
                cut = cut[:count]
        return moving(
            g, "strided_slice", data,
            lambda x: relay.strided_slice(x, begin, end, strides, axes),
            lambda v: v[tuple(cut)],
        )  # fmt: skip

    return make


def pad(g):
    data = g.data(range(1, 5))
    shape = g.value(data).shape
    mode = g.pick(["constant", "constant", "edge", "reflect"])
    most = [extent - 1 if mode == "reflect" else 3 for extent in shape]
    widths = [(g.int(0, min(3, n)), g.int(0, min(3, n))) for n in most]
    number = g.pick([0.0, 0.0, 1.5, -3.0])
    if mode == "constant":
        reference = lambda x: Value(  # noqa: E731
            np.pad(x.value, widths, constant_values=number), np.pad(x.error, widths), x.dtype
        )
    else:
        reference = lambda x: x.mapped(lambda v: np.pad(v, widths, mode))  # noqa: E731
    return g.call("nn.pad", [data], lambda x: relay.nn.pad(x, widths, number, mode), reference)


def tile(g):
    data = g.data(range(1, 4), most=300)
    reps = g.ints(g.value(data).rank + g.pick([0, 0, 1]), 1, 3)
    return moving(g, "tile", data, lambda x: relay.tile(x, reps), lambda v: np.tile(v, reps))


def broadcast_to(g):
    data = g.data(range(1, 4), most=300)
    shape = [g.int(2, 4) if extent == 1 else extent for extent in g.value(data).shape]
    shape = [*g.ints(g.int(0, 1), 1, 3), *shape]
    return moving(
        g, "broadcast_to", data,
        lambda x: relay.broadcast_to(x, shape), lambda v: np.broadcast_to(v, shape).copy(),
    )  # fmt: skip


def take(g):
    data = g.data(range(1, 4))
    shape = g.value(data).shape
    axis = g.int(0, len(shape) - 1)
    mode = g.pick(["clip", "fast"])
    beyond = 3 if mode == "clip" else 0
    indices = g.rng.integers(-beyond, shape[axis] + beyond, g.ints(g.int(1, 2), 1, 4)).astype(
        g.pick(["int32", "int64"])
    )
    where = g.constant(indices) if g.chance(0.6) else g.input_of(indices)
    taken = np.clip(indices, 0, shape[axis] - 1)
    return g.call(
        "take", [data, where],
        lambda x, i: relay.take(x, i, axis, mode=mode),
        lambda x, _: x.mapped(lambda v: np.take(v, taken, axis)),
    )  # fmt: skip


def gather(g):
    data = g.data(range(1, 4))
    shape = g.value(data).shape
    axis = g.int(0, len(shape) - 1)
    wanted = [g.int(1, 5) if i == axis else g.int(1, n) for i, n in enumerate(shape)]
    indices = g.rng.integers(0, shape[axis], wanted).astype("int64")

    def change(v):
        cut = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(wanted))
        return np.take_along_axis(v[cut], indices, axis)

    return g.call(
        "gather", [data, g.constant(indices)],
        lambda x, i: relay.gather(x, axis, i), lambda x, _: x.mapped(change),
    )  # fmt: skip


def _spatial_moves(g):
    """(value, layout, what brings it to NCHW and back)."""
    layout = g.pick(["NCHW", "NHWC"])
    data = g.data(4, most=1000)
    to = [layout.index(letter) for letter in "NCHW"]
    back = ["NCHW".index(letter) for letter in layout]
    return data, layout, to, back


def depth_to_space(g):
    data, layout, to, back = _spatial_moves(g)
    channels = g.value(data).shape[layout.index("C")]
    if channels % 4:
        extents = {"N": 1, "C": 8, "H": g.int(1, 4), "W": g.int(1, 4)}
        data, channels = g.input([extents[letter] for letter in layout]), 8
    mode = g.pick(["DCR", "CRD"])

    def change(v):
        n, c, h, w = v.transpose(to).shape
        v = v.transpose(to)
        if mode == "DCR":
            v = v.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            v = v.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
        return v.reshape(n, c // 4, h * 2, w * 2).transpose(back)

    return moving(
        g, "nn.depth_to_space", data, lambda x: relay.nn.depth_to_space(x, 2, layout, mode), change
    )


def space_to_depth(g):
    data, layout, to, back = _spatial_moves(g)
    sizes = [g.value(data).shape[layout.index(letter)] for letter in "HW"]
    if any(size % 2 for size in sizes):
        extents = {"N": 1, "C": 3, "H": 4, "W": 6}
        data = g.input([extents[letter] for letter in layout])

    def change(v):
        v = v.transpose(to)
        n, c, h, w = v.shape
        v = v.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4)
        return v.reshape(n, c * 4, h // 2, w // 2).transpose(back)

    return moving(
        g, "nn.space_to_depth", data, lambda x: relay.nn.space_to_depth(x, 2, layout), change
    )


def upsampling(g):
    data, layout, _, _ = _spatial_moves(g)
    factors = g.ints(2, 1, 3)
    axes = [layout.index(letter) for letter in "HW"]

    def change(v):
        for axis, factor in zip(axes, factors):
            v = np.repeat(v, factor, axis)
        return v

    return moving(
        g, "nn.upsampling", data,
        lambda x: relay.nn.upsampling(x, *factors, layout=layout, method="nearest_neighbor"),
        change,
    )  # fmt: skip


def filled(op):
    """An operator that makes a constant of one number."""
    number = {"zeros": 0.0, "ones": 1.0, "full": -2.5}[op]

    def make(g):
        shape = g.shape(g.int(1, 3))

        def build():
            if op == "full":
                return relay.full(relay.const(number), shape)
            return getattr(relay, op)(shape, "float32")

        whole = np.full(shape, number, "float32")
        return g.call(op, [], build, lambda: exact(whole))

    return make


VIEWS = [reshape, transpose, squeeze, expand_dims, batch_flatten]
JOINS = [concatenate, concatenate, split, strided_slice(False), rejoined]
MORE = [
    stack, strided_slice(True), pad, pad, tile, broadcast_to, take, gather, depth_to_space,
    space_to_depth, upsampling, *map(filled, ("zeros", "ones", "full")),
]  # fmt: skip
