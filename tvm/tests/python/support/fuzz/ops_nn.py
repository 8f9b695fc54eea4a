# SPDX-License-Identifier: Apache-2.0
"""Makers of convolutions, products, pools and resizes, with what they compute.

Test: backends/test_fuzz.py.
"""

import itertools
import math

import numpy as np
from tvm import relay

from .ops_shape import moving, parts
from .values import FLOATS, NOT_ASKED, Value, bilinear

SPACE = {1: "W", 2: "HW", 3: "DHW"}
_LAYOUTS = {axes: ("NC" + space, "N" + space + "C") for axes, space in SPACE.items()}
# Winograd's transforms mix the elements of a tile, so its error is one of the layer: measured near
# 1e-5 of its largest output (docs/backends/dnnl.md), asked within 3e-5 of its largest sum.
_WINOGRAD_UNITS = 500


def _moved(array, layout, wanted):
    return np.transpose(array, [layout.index(letter) for letter in wanted])


def _windows(x, out, kernel, strides, dilation):
    """For each place of the kernel: the place, and the elements of x that it meets."""
    for place in itertools.product(*map(range, kernel)):
        steps = zip(place, out, strides, dilation)
        cut = tuple(slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in steps)
        yield place, x[(..., *cut)]


def _padded(x, left, right, fill=0.0):
    widths = [(0, 0)] * (x.ndim - len(left)) + [
        (max(before, 0), max(after, 0)) for before, after in zip(left, right)
    ]
    x = np.pad(x, widths, constant_values=fill)
    cut = [slice(None)] * (x.ndim - len(left))
    for axis, (before, after) in enumerate(zip(left, right)):
        extent = x.shape[x.ndim - len(left) + axis]
        cut.append(slice(max(-before, 0), extent - max(-after, 0)))
    return x[tuple(cut)]


def _convolved(x, w, strides, left, right, dilation, groups):
    """x: (N, C, space), w: (O, C / groups, space)."""
    x = _padded(x, left, right)
    kernel = w.shape[2:]
    out = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(x.shape[2:], kernel, strides, dilation)
    ]
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:])
    result = np.zeros((x.shape[0], groups, w.shape[1], math.prod(out)))
    for place, part in _windows(x, out, kernel, strides, dilation):
        result += w[(..., *place)] @ part.reshape(*part.shape[:3], -1)
    return result.reshape(x.shape[0], -1, *out)


def _transposed(x, w, strides, left, right, output_padding, groups):
    """x: (N, C, space), w: (C, O / groups, space)."""
    shape = [(size - 1) * s + 1 for size, s in zip(x.shape[2:], strides)]
    spread = np.zeros((*x.shape[:2], *shape))
    spread[(..., *(slice(None, None, s) for s in strides))] = x
    kernel = w.shape[2:]
    left = [k - 1 - pad for k, pad in zip(kernel, left)]
    right = [k - 1 - pad + more for k, pad, more in zip(kernel, right, output_padding)]
    w = w.reshape(groups, -1, *w.shape[1:])
    w = np.flip(np.swapaxes(w, 1, 2), range(3, w.ndim))
    w = w.reshape(-1, *w.shape[2:])
    ones = [1] * len(kernel)
    return _convolved(spread, w, ones, left, right, ones, groups)


def _image(g, axes, least, layout=None):
    """(value, layout): an image with at least so many elements along each axis of space."""
    layout = layout or g.pick(_LAYOUTS[axes])
    data = g.data(axes + 2, most=1500)
    sizes = [g.value(data).shape[layout.index(letter)] for letter in SPACE[axes]]
    if any(size < n for size, n in zip(sizes, least)) or g.chance(0.3):
        most = {1: 24, 2: 14, 3: 7}[axes]
        extents = dict(zip(SPACE[axes], [g.int(n, max(n, most)) for n in least]))
        extents["N"] = g.pick([1, 1, 2, 3])
        extents["C"] = g.pick([1, 2, 3, 4, 5, 8, 16, 17, 24, 32])
        data = g.input([extents[letter] for letter in layout])
    return data, layout


def _tile_like(g, axes):
    """Whether a convolution is to be one that Winograd's kernel takes."""
    return axes >= 2 and g.chance(0.5)


def conv(axes):
    def make(g):
        is_tile = _tile_like(g, axes)
        kernel = [3] * axes if is_tile else g.ints(axes, 1, 4)
        if axes == 3 and is_tile:
            kernel[0] = g.int(1, 3)
        strides = [1] * axes if is_tile else [g.pick([1, 1, 2, 3]) for _ in range(axes)]
        dilation = [1] * axes if is_tile else [g.pick([1, 1, 1, 2]) for _ in range(axes)]
        spread = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        pads = [g.int(0, each - (not g.chance(0.1))) if each > 1 else 0 for each in spread * 2]
        least = [max(1, size - pads[i] - pads[i + axes]) for i, size in enumerate(spread)]
        data, layout = _image(g, axes, least)
        if is_tile and g.chance(0.8):
            extents = {"N": g.int(1, 2), "C": g.pick([8, 16, 16, 32])}
            extents |= dict(zip(SPACE[axes], g.ints(axes, 3, 11 if axes == 2 else 6)))
            data = g.input([extents[letter] for letter in layout])
        shape = g.value(data).shape
        channels = shape[layout.index("C")]
        groups = 1
        if not is_tile and g.chance(0.3):
            groups = g.pick([n for n in range(1, channels + 1) if channels % n == 0])
        if layout[-1] == "C" and groups not in (1, channels):
            groups = 1  # TVM has none
        each = g.pick([1, 2, 3, 5, 8])
        results = groups * (each if groups == 1 or g.chance(0.3) else 1)
        if groups == 1:
            results = (
                g.pick([1, 2, 3, 7, 8, 16, 17, 32]) if not is_tile else g.pick([8, 16, 16, 32])
            )
        kernel_layout = "OI" + SPACE[axes]
        if layout[-1] == "C":
            kernel_layout = SPACE[axes] + "IO"
            if groups > 1:
                if axes != 2:
                    groups, results = 1, g.pick([3, 8])  # TVM has none
                else:
                    kernel_layout, results = "HWOI", groups
        weight_shape = (results, channels // groups, *kernel)
        scale = 1.0 / math.sqrt(math.prod(weight_shape[1:]))
        wanted_order = "OI" + SPACE[axes]
        if kernel_layout == "HWOI":
            # A depthwise layer's weights are (space, C, multiplier).
            weight = g.weight((*kernel, channels, 1), scale)
        else:
            extents = dict(zip(wanted_order, weight_shape))
            if layout[1] == "C" and g.chance(0.1):  # TVM has few of these, oneDNN all
                kernel_layout = "".join(g.rng.permutation(list(kernel_layout)))
            weight = g.weight([extents[letter] for letter in kernel_layout], scale)
        plain = "NC" + SPACE[axes]
        length = math.prod(weight_shape[1:])
        is_tile_kernel = kernel[-2:] == [3, 3] and set(strides[-2:] + dilation[-2:]) == {1}

        def reference(x, w, winograd=False):
            def apply(a, b):
                a = _moved(a, layout, plain)
                if kernel_layout == "HWOI":
                    b = np.moveaxis(b, (2, 3), (0, 1)).reshape(weight_shape)
                else:
                    b = _moved(b, kernel_layout, wanted_order)
                result = _convolved(a, b, strides, pads[:axes], pads[axes:], dilation, groups)
                return _moved(result, plain, layout)

            mixes = winograd and groups == 1 and is_tile_kernel
            return bilinear(apply, x, w, length, _WINOGRAD_UNITS if mixes else 0)

        def build(x, w):
            function = getattr(relay.nn, f"conv{axes}d")
            return function(
                x, w, strides=strides, padding=pads, dilation=dilation, groups=groups,
                channels=results, kernel_size=kernel, data_layout=layout,
                kernel_layout=kernel_layout,
            )  # fmt: skip

        return g.call(f"nn.conv{axes}d", [data, weight], build, reference)

    return make


def conv_transpose(axes):
    def make(g):
        kernel = g.ints(axes, 1, 4)
        strides = [g.pick([1, 2, 2, 3]) for _ in range(axes)]
        output_padding = [g.int(0, s - 1) if g.chance(0.4) else 0 for s in strides]
        data, layout = _image(g, axes, [1] * axes, layout="NC" + SPACE[axes])
        sizes = g.value(data).shape[2:]
        pads = [0] * (2 * axes)
        for i in range(axes):
            # No more padding than the kernel has, and something left of the result.
            spare = (sizes[i] - 1) * strides[i] + kernel[i] - 1
            pads[i] = g.int(0, min(kernel[i] - 1, spare))
            pads[i + axes] = g.int(0, min(kernel[i] - 1, spare - pads[i]))
        channels, results = g.value(data).shape[1], g.pick([1, 2, 3, 8, 16])
        scale = 1.0 / math.sqrt(channels * math.prod(kernel))
        weight = g.weight((channels, results, *kernel), scale)

        def reference(x, w):
            def apply(a, b):
                return _transposed(a, b, strides, pads[:axes], pads[axes:], output_padding, 1)

            return bilinear(apply, x, w, channels * math.prod(kernel))

        def build(x, w):
            function = getattr(relay.nn, f"conv{axes}d_transpose")
            return function(
                x, w, strides=strides, padding=pads, output_padding=output_padding,
                channels=results, kernel_size=kernel, data_layout=layout,
                kernel_layout="IO" + SPACE[axes],
            )  # fmt: skip

        return g.call(f"nn.conv{axes}d_transpose", [data, weight], build, reference)

    return make


# BLAS takes both.
_WIDE = ["float32"] * 9 + ["float64"]


def dense(g):
    data = g.data(g.pick([2, 2, 2, 3]), g.pick(_WIDE))
    return _dense(g, data, g.pick([1, 2, 3, 5, 8, 16, 33]))


def _dense(g, data, units):
    depth = g.value(data).shape[-1]
    scale = 1.0 / math.sqrt(max(1, depth))
    weight = g.weight((units, depth), scale, g.value(data).dtype)

    def reference(x, w):
        return bilinear(lambda a, b: a @ b.T, x, w, depth)

    return g.call("nn.dense", [data, weight], relay.nn.dense, reference)


def _product(g, op, data, other, flags):
    def turned(array, flag):
        return np.swapaxes(array, -1, -2) if flag else array

    length = turned(g.value(data).value, flags[0]).shape[-1]

    def reference(x, y):
        return bilinear(lambda a, b: turned(a, flags[0]) @ turned(b, flags[1]), x, y, length)

    function = relay.nn.matmul if op == "nn.matmul" else relay.nn.batch_matmul
    units = {"units": None} if op == "nn.matmul" else {}

    def build(x, y):
        return function(x, y, **units, transpose_a=flags[0], transpose_b=flags[1])

    return g.call(op, [data, other], build, reference)


def matmul(g):
    data = g.data(2, g.pick(_WIDE))
    flags = (g.chance(0.3), g.chance(0.5))
    depth = g.value(data).shape[0 if flags[0] else 1]
    shape = [depth, g.pick([1, 2, 5, 8, 17])]
    other = g.weight(
        shape[::-1] if flags[1] else shape, 1.0 / math.sqrt(depth), g.value(data).dtype
    )
    return _product(g, "nn.matmul", data, other, flags)


def batch_matmul(g):
    data = g.data(3, g.pick(_WIDE))
    flags = (g.chance(0.3), g.chance(0.6))
    batch, rows, columns = g.value(data).shape
    depth = rows if flags[0] else columns
    shape = [depth, g.pick([1, 2, 5, 8, 17])]
    shape = shape[::-1] if flags[1] else shape
    batch = g.pick([batch, batch, 1]) if batch > 1 else g.pick([1, 1, 3])
    other = g.weight([batch, *shape], 1.0 / math.sqrt(depth), g.value(data).dtype)
    return _product(g, "nn.batch_matmul", data, other, flags)


def attention(g):
    """Products of parts of one projection, as its queries, keys and values are; of one head, too.
    They are moved to their heads one by one, or all together before they are taken apart."""
    tokens, heads, width = g.int(2, 6), g.pick([1, 1, 2, 3]), g.pick([1, 4, 8, 16])
    rows = g.input([tokens, 3 * heads * width])
    if g.chance(0.7):  # else parts of an input
        rows = _dense(g, g.input([tokens, 5]), 3 * heads * width)

    def reshaped(data, shape):
        return moving(
            *(g, "reshape", data), lambda x: relay.reshape(x, shape), lambda v: v.reshape(shape)
        )

    def moved(data, axes):
        return moving(
            *(g, "transpose", data), lambda x: relay.transpose(x, axes), lambda v: v.transpose(axes)
        )

    if g.chance(0.5):
        apart = moved(reshaped(rows, (tokens, 3, heads, width)), (1, 2, 0, 3))
        each = [reshaped(part, (heads, tokens, width)) for part in parts(g, apart, 3, 0, range(3))]
    else:
        each = [
            moved(reshaped(part, (tokens, heads, width)), (1, 0, 2))
            for part in parts(g, rows, 3, 1, range(3))
        ]
    queries, keys, values = (each[i] for i in g.rng.permutation(3))
    scores = _product(g, "nn.batch_matmul", queries, keys, (False, True))
    return _product(g, "nn.batch_matmul", scores, values, (False, False))


def _pool_counts(size, left, right, kernel, stride, dilation, ceil_mode):
    room = size + left + right - dilation * (kernel - 1) - 1
    return (-(-room // stride) if ceil_mode else room // stride) + 1


def pool(kind, axes):
    def make(g):
        kernel = g.ints(axes, 1, 4)
        strides = g.ints(axes, 1, 3)
        dilation = [1] * axes
        if kind == "max" and g.chance(0.2):
            dilation = g.ints(axes, 1, 2)
        spread = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        pads = [g.int(0, k - 1) if g.chance(0.6) else 0 for k in kernel * 2]
        least = [max(1, size - pads[i] - pads[i + axes]) for i, size in enumerate(spread)]
        data, layout = _image(g, axes, least)
        ceil_mode, include = g.chance(0.3), g.chance(0.5)
        plain = "NC" + SPACE[axes]

        def windows(array, fill, beyond=None):
            """beyond: what lies behind the padding, where the last windows of ceil_mode reach."""
            array = _moved(array, layout, plain)
            settings = zip(array.shape[2:], pads[:axes], pads[axes:], kernel, strides, dilation)
            out = [_pool_counts(*each, ceil_mode) for each in settings]
            array = _padded(array, pads[:axes], pads[axes:], fill)
            more = [(s - 1) * ceil_mode for s in strides]
            array = _padded(array, [0] * axes, more, fill if beyond is None else beyond)
            parts = [part for _, part in _windows(array, out, kernel, strides, dilation)]
            return np.stack(parts)

        def reference(x):
            return _pooled(kind, x, windows, plain, layout, math.prod(kernel), include)

        def build(x):
            more = {"count_include_pad": include} if kind == "avg" else {}
            function = getattr(relay.nn, f"{kind}_pool{axes}d")
            return function(
                x, pool_size=kernel, strides=strides, padding=pads, dilation=dilation,
                layout=layout, ceil_mode=ceil_mode, **more,
            )  # fmt: skip

        return g.call(f"nn.{kind}_pool{axes}d", [data], build, reference)

    return make


def _pooled(kind, x, windows, plain, layout, size, include):
    lowest = -FLOATS[x.dtype].largest
    if kind == "max":
        value, error = windows(x.value, lowest).max(0), windows(x.error, 0.0).max(0)
        error = np.where(np.isnan(value) | (value <= lowest), NOT_ASKED, error)
    else:
        # With count_include_pad what is padded counts, what lies behind that does not.
        ones = np.ones(x.shape)
        inside = (windows(ones, 1.0, 0.0) if include else windows(ones, 0.0)).sum(0)
        counted = np.maximum(inside, 1.0)
        value = windows(x.value, 0.0).sum(0) / counted
        finite = np.where(np.isfinite(x.value), np.abs(x.value), 0.0)
        error = windows(x.error, 0.0).sum(0) / counted
        magnitude = windows(finite, 0.0).sum(0)
        error = error + FLOATS[x.dtype].unit * (size + 4) * magnitude / counted
        error = error + FLOATS[x.dtype].tiny
        error = np.where(magnitude > FLOATS[x.dtype].largest / 4, NOT_ASKED, error)
        broken = ~np.isfinite(value)
        known = ~np.isnan(value) | windows(np.isnan(x.value).astype("f8"), 0.0).any(0)
        error = np.where(broken, np.where(known & np.isfinite(error), 0.0, NOT_ASKED), error)
    return Value(_moved(value, plain, layout), _moved(error, plain, layout), x.dtype)


def global_pool(g):
    kind = g.pick(["avg", "max"])
    data, layout = _image(g, 2, [1, 1])
    plain = "NCHW"

    def reference(x):
        def windows(array, fill):
            del fill
            array = _moved(array, layout, plain)
            flat = array.reshape(*array.shape[:2], -1, 1, 1)
            return np.moveaxis(flat, 2, 0)

        size = math.prod(x.shape[layout.index(letter)] for letter in "HW")
        return _pooled(kind, x, windows, plain, layout, size, False)

    function = getattr(relay.nn, f"global_{kind}_pool2d")
    return g.call(f"nn.global_{kind}_pool2d", [data], lambda x: function(x, layout), reference)


def adaptive_pool(axes):
    def make(g):
        kind = g.pick(["avg", "max"])
        data, layout = _image(g, axes, [1] * axes)
        plain = "NC" + SPACE[axes]
        sizes = [g.value(data).shape[layout.index(letter)] for letter in SPACE[axes]]
        even = [g.pick([n for n in range(1, s + 1) if s % n == 0]) for s in sizes]
        wanted = even if g.chance(0.6) else [g.int(1, size) for size in sizes]

        def reference(x):
            def windows(array, fill):
                array = _moved(array, layout, plain)
                cuts = [
                    [(i * s // n, -(-(i + 1) * s // n)) for i in range(n)]
                    for s, n in zip(sizes, wanted)
                ]
                most = [max(end - begin for begin, end in each) for each in cuts]
                result = np.full((math.prod(most), *array.shape[:2], *wanted), fill)
                for place in itertools.product(*map(range, wanted)):
                    box = [slice(*cuts[axis][i]) for axis, i in enumerate(place)]
                    part = array[(..., *box)].reshape(*array.shape[:2], -1)
                    result[(slice(part.shape[-1]), ..., *place)] = np.moveaxis(part, -1, 0)
                return result

            size = math.prod(-(-s // n) + 1 for s, n in zip(sizes, wanted))
            return _pooled(kind, x, windows, plain, layout, size, False)

        function = getattr(relay.nn, f"adaptive_{kind}_pool{axes}d")
        return g.call(
            f"nn.adaptive_{kind}_pool{axes}d", [data],
            lambda x: function(x, tuple(wanted), layout), reference,
        )  # fmt: skip

    return make


def _places(size, wanted, mode):
    index = np.arange(wanted, dtype="float64")
    if mode == "align_corners":
        return index * (size - 1) / max(wanted - 1, 1)
    if mode == "half_pixel":
        return (index + 0.5) * size / wanted - 0.5
    return index * size / wanted


def _nearest(size, wanted, mode, rounding):
    """(elements taken, whether float32 may have taken others)."""
    place = _places(size, wanted, mode)
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    round_to = {
        "round": lambda p: np.floor(p + 0.5),
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": lambda p: np.floor(p + 1e-5),
        "ceil": lambda p: np.ceil(p - 1e-5),
    }[rounding]
    both = [np.clip(round_to(place + shift), 0, size - 1) for shift in (-2e-6, 2e-6)]
    return both[0].astype(int), both[0] != both[1]


def resize(g):
    data, layout = _image(g, 2, [1, 1])
    method = g.pick(["nearest_neighbor", "linear"])
    mode = g.pick(["half_pixel", "align_corners", "asymmetric"])
    rounding = ""
    if method == "nearest_neighbor":
        rounding = g.pick(["", "floor", "ceil", "round", "round_prefer_floor", "round_prefer_ceil"])
        if g.chance(0.4):
            mode, rounding = "asymmetric", "floor"
    sizes = [g.value(data).shape[layout.index(letter)] for letter in "HW"]
    factors = g.pick([None, 1, 2, 3])
    wanted = [size * factors for size in sizes] if factors else g.ints(2, 1, 12)

    def reference(x):
        for letter, size, extent in zip("HW", sizes, wanted):
            x = _resized(x, layout.index(letter), size, extent, method, mode, rounding)
        return x

    return g.call(
        "image.resize2d", [data],
        lambda x: relay.image.resize2d(
            x, wanted, layout=layout, method=method, coordinate_transformation_mode=mode,
            rounding_method=rounding,
        ),
        reference,
    )  # fmt: skip


def _resized(x, axis, size, extent, method, mode, rounding):
    shape = [1] * x.rank
    shape[axis] = extent
    if method == "nearest_neighbor":
        taken, unsure = _nearest(size, extent, mode, rounding)
        result = x.mapped(lambda v: np.take(v, taken, axis))
        error = np.where(unsure.reshape(shape), NOT_ASKED, result.error)
        return Value(result.value, error, x.dtype)
    place = _places(size, extent, mode)
    low = np.floor(place)
    part = (place - low).reshape(shape)
    below, above = (np.clip(low + i, 0, size - 1).astype(int) for i in (0, 1))
    a, b = (x.mapped(lambda v, i=i: np.take(v, i, axis)) for i in (below, above))
    value = a.value * (1 - part) + b.value * part
    error = np.maximum(a.error, b.error)
    # Places are computed in float32, from as many steps as the axis is long.
    unit = FLOATS[x.dtype].unit
    error = error + 16 * unit * (size + extent) * np.abs(b.value - a.value)
    error = error + 8 * unit * (np.abs(a.value) + np.abs(b.value)) + FLOATS[x.dtype].tiny
    broken = ~np.isfinite(a.value) | ~np.isfinite(b.value)
    huge = np.abs(a.value) + np.abs(b.value) > FLOATS[x.dtype].largest / 4
    return Value(value, np.where(broken | huge | np.isnan(error), NOT_ASKED, error), x.dtype)


CONV = [conv(axes) for axes in (1, 2, 2, 2, 2, 3)]
CONV_TRANSPOSE = [conv_transpose(axes) for axes in (1, 2, 2, 3)]
POOLS = [pool(kind, axes) for kind in ("max", "avg") for axes in (1, 2, 2, 3)] + [global_pool]
ADAPTIVE = [adaptive_pool(axes) for axes in (1, 2, 3)]
PRODUCTS = [dense, dense, matmul, batch_matmul]


_ANCHORS = [*CONV, *CONV_TRANSPOSE, *PRODUCTS]


def chain(steps):
    """A maker of an anchor with what is often fused into it, one behind the other."""

    def make(g):
        g.next = None
        g.next = g.pick(_ANCHORS)(g)
        for _ in range(g.int(1, 4)):
            g.next = g.pick(steps)(g)
        result, g.next = g.next, None
        return result

    return make
