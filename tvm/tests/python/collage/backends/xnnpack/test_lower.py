# SPDX-License-Identifier: Apache-2.0
"""Each op that XNNPACK runs, against TVM's own result; a table is one library."""

import functools
import math

import numpy as np
import pytest
import tvm
from onednn_nets import CONVOLUTIONS, check_all, constant, function_of, hand_placed, reference, var
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.xnnpack.lower import SUPPORTED_OPS, lower_function

nn = relay.nn
BACKEND = get_backend("xnnpack")
pytestmark = pytest.mark.skipif(bool(BACKEND.available()), reason="XNNPACK is not installed")
check_each = functools.partial(check_all, backend="xnnpack")


def kinds_of(body):
    """The kinds of nodes that an expression becomes, in order."""
    function = hand_placed(function_of(body), "part", "xnnpack")["part"]
    return [node.op for node in lower_function(function).nodes]


IMAGE = var("x", 2, 8, 12, 11)
LAST = var("x", 2, 12, 11, 8)


def convolution(layout, kernel, groups=1, **attrs):
    nchw = layout == "NCHW"
    inner = 8 // groups
    weights = constant(1, 20, inner, *kernel) if nchw else constant(1, *kernel, inner, 20)
    layouts = dict(data_layout=layout, kernel_layout="OIHW" if nchw else "HWIO")
    data = IMAGE if nchw else LAST
    return nn.conv2d(
        data, weights, channels=20, kernel_size=kernel, groups=groups, **attrs, **layouts
    )


def depthwise(multiplier, size=3, **attrs):
    weights = constant(1, 8 * multiplier, 1, size, size)
    attrs = {"padding": size // 2, **attrs}
    return nn.conv2d(
        IMAGE, weights, channels=8 * multiplier, kernel_size=(size, size), groups=8, **attrs
    )


def test_convolutions():
    check_each(
        {f"{name} NCHW": convolution("NCHW", **each) for name, each in CONVOLUTIONS.items()}
        | {f"{name} NHWC": convolution("NHWC", **each) for name, each in CONVOLUTIONS.items()}
        | {
            "depthwise": depthwise(1),
            "depthwise, two each": depthwise(2),
            "depthwise 5x5, strides": depthwise(1, 5, strides=2),
            "depthwise, dilation": depthwise(1, 3, dilation=2, padding=2),
        }
    )


def test_transposed_convolutions():
    weights = constant(1, 8, 6, 3, 3)

    def deconv(**attrs):
        return nn.conv2d_transpose(IMAGE, weights, channels=6, kernel_size=(3, 3), **attrs)

    check_each(
        {
            "plain": deconv(),
            "strides": deconv(strides=(2, 2), padding=(1, 1)),
            "more": deconv(strides=(2, 2), padding=(1, 1), output_padding=(1, 1)),
            "uneven": deconv(strides=(2, 3), padding=(0, 1, 1, 1)),
        }
    )


def test_biases_and_clamps_are_part_of_what_comes_before():
    product = convolution("NCHW", (3, 3))
    biased = nn.bias_add(product, constant(2, 20))
    bodies = {
        "bias": biased,
        "added": relay.add(product, constant(2, 20, 1, 1)),
        "relu": nn.relu(biased),
        "relu6": relay.clip(biased, 0.0, 6.0),
        "deconv": nn.relu(
            nn.conv2d_transpose(IMAGE, constant(1, 8, 6, 3, 3), channels=6, kernel_size=(3, 3))
        ),
        "dense": nn.relu(
            nn.bias_add(nn.dense(var("x", 4, 16), constant(1, 8, 16)), constant(2, 8))
        ),
        "pool": nn.relu(nn.max_pool2d(IMAGE, (2, 2), (2, 2))),
    }
    check_each(bodies)
    for name, body in bodies.items():
        kinds = [kind for kind in kinds_of(body) if kind != "transpose"]
        assert len(kinds) == 1, name


@pytest.mark.parametrize(
    "behind",
    [
        lambda y: relay.add(nn.relu(y), constant(2, 20, 1, 1)),  # not in this order
        lambda y: relay.add(y, constant(2, 9)),  # along another axis
        lambda y: relay.add(y, var("b", 20, 1, 1)),  # not known
        lambda y: relay.add(y, nn.relu(y)),  # read twice
    ],
)
def test_what_cannot_be_a_bias_stays(behind):
    assert "add" in kinds_of(behind(convolution("NCHW", (3, 3))))


def test_pools():
    def pooled(pool, **attrs):
        return pool(IMAGE, (3, 3), **attrs)

    average = functools.partial(pooled, nn.avg_pool2d)
    largest = functools.partial(pooled, nn.max_pool2d)
    check_each(
        {
            "max": largest(strides=(2, 2), padding=(1, 1)),
            "max, uneven": largest(strides=(2, 1), padding=(0, 1, 1, 0)),
            "max, dilation": largest(dilation=(2, 2), padding=(1, 1)),
            "max, last": nn.max_pool2d(LAST, (2, 2), (2, 2), layout="NHWC"),
            "average": average(strides=(2, 2)),
            "average, padding": average(padding=(1, 1), count_include_pad=False),
            "of all": nn.global_avg_pool2d(IMAGE),
            "of all, last": nn.global_avg_pool2d(LAST, layout="NHWC"),
            "adaptive": nn.adaptive_avg_pool2d(IMAGE, (1, 1)),
        }
    )


def test_products():
    check_each(
        {
            "dense": nn.dense(var("x", 5, 16), constant(1, 8, 16)),
            "one row": nn.dense(var("x", 1, 16), constant(1, 8, 16)),
            "batch": nn.batch_matmul(var("x", 3, 5, 16), var("y", 3, 8, 16)),
            "batch, plain": nn.batch_matmul(
                var("x", 3, 5, 16), var("y", 3, 16, 8), transpose_b=False
            ),
            "weights": nn.batch_matmul(var("x", 3, 5, 16), constant(1, 3, 8, 16)),
            "matmul": nn.matmul(var("x", 5, 16), var("y", 16, 8)),
        }
    )


X = var("x", 2, 8, 6, 5)
FUNCTIONS = {
    "relu": nn.relu,
    "leaky": lambda x: nn.leaky_relu(x, 0.2),
    "clip": lambda x: relay.clip(x, -0.5, 0.25),
    "sigmoid": relay.sigmoid,
    "tanh": relay.tanh,
    "negative": relay.negative,
    "abs": relay.abs,
    "floor": relay.floor,
    "ceil": relay.ceil,
    "square": lambda x: relay.multiply(x, x),
    "swish": lambda x: relay.multiply(x, relay.sigmoid(x)),
    "swish, scaled": lambda x: x * relay.sigmoid(x * relay.const(1.702)),
    "hardswish": lambda x: x * relay.clip(x + relay.const(3.0), 0.0, 6.0) / relay.const(6.0),
    "hardswish, wide": lambda x: (
        x * relay.clip(x + relay.const(15.0), 0.0, 30.0) / relay.const(30.0)
    ),
    "hardsigmoid": lambda x: relay.clip(x * relay.const(0.2) + relay.const(0.5), 0.0, 1.0),
    "line": lambda x: x * relay.const(3.0) - relay.const(1.5),
    "scale": lambda x: x * relay.const(3.0),
    "shift": lambda x: x + relay.const(3.0),
    "elu": lambda x: (
        relay.maximum(x, relay.const(0.0))
        + relay.const(0.5) * (relay.exp(relay.minimum(x, relay.const(0.0))) - relay.const(1.0))
    ),
    "gelu": lambda x: (
        x * (relay.erf(x * relay.const(math.sqrt(0.5))) + relay.const(1.0)) * relay.const(0.5)
    ),
}


def test_functions_of_elements():
    bodies = {name: function(X) for name, function in FUNCTIONS.items()}
    check_each(bodies)
    assert kinds_of(bodies["hardswish"]) == ["hardswish"]
    assert kinds_of(bodies["gelu"]) == ["gelu"]
    assert kinds_of(bodies["swish"]) == ["clamp", "sigmoid", "multiply"]


# TVM multiplies the largest numbers on the way, as they are spelled.
CANCELLING = ("hardswish", "hardswish, wide", "gelu", "swish", "swish, scaled")
EXTREMES = np.array(
    [
        s * x
        for x in (0, 1e-30, 1e-3, 9, 20, 88, 104, 1e4, 1e10, 8e26, 1e30, 3e38, np.inf)
        for s in (1, -1)
    ]
    + [1.0, -2.0],
    "float32",
)


def test_functions_of_extremes():
    """Infinity, the largest and the smallest numbers: as TVM computes them."""
    x = var("x", len(EXTREMES))
    body = relay.Tuple([function(x) for function in FUNCTIONS.values()])
    part = BACKEND.compile(hand_placed(function_of(body), "part", "xnnpack")["part"])
    got = [tvm.nd.empty(EXTREMES.shape) for _ in FUNCTIONS]
    part["part"](tvm.nd.array(EXTREMES), *got)
    for name, one, other in zip(FUNCTIONS, got, reference(function_of(body), {"x": EXTREMES})):
        said = np.abs(EXTREMES) < 1e37 if name in CANCELLING else slice(None)
        np.testing.assert_allclose(one.numpy()[said], other[said], 1e-4, 1e-6, err_msg=name)


def test_softmax_of_extremes():
    rows = np.array([[3e38, 0, 0], [-3e38, 0, 1], [-np.inf, 0, 1], [-1e9, -1e9, -1e9]], "float32")
    softmax = nn.softmax(var("x", *rows.shape))
    check_each({"softmax": softmax}, inputs_of=lambda function: {"x": rows})


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_functions_of_two_operands(op):
    function = getattr(relay, op)
    others = {
        "same": var("y", 2, 8, 6, 5),
        "scalar": relay.const(0.7),
        "row": constant(1, 5, low=1.0),
        "channels": constant(1, 8, 1, 1, low=1.0),
        "vector": var("y", 5),
        "crossed": constant(1, 2, 1, 6, 1, low=1.0),
        "larger": var("y", 3, 2, 8, 6, 5),
    }
    bodies = {name: function(X, other) for name, other in others.items()}
    bodies |= {f"{name}, second": function(other, X) for name, other in others.items()}
    bodies["each broadcasts"] = function(var("x", 8, 1), var("y", 1, 5))

    def far_from_zero(function):
        rng = np.random.default_rng(0)
        shapes = {p.name_hint: p.checked_type.concrete_shape for p in function.params}
        return {name: rng.uniform(1, 2, shape).astype("float32") for name, shape in shapes.items()}

    check_each(bodies, inputs_of=far_from_zero)


def test_along_axes():
    check_each(
        {
            "softmax": nn.softmax(var("x", 3, 10)),
            "softmax of channels": nn.softmax(X, axis=1),
            "softmax of rows": nn.softmax(X, axis=2),
            "mean": relay.mean(X, axis=[2, 3]),
            "mean, kept": relay.mean(X, axis=[2, 3], keepdims=True),
            "mean of channels": relay.mean(X, axis=1),
            "mean of others": relay.mean(X, axis=1, exclude=True),
            "bias": nn.bias_add(X, constant(1, 8)),
            "bias, last": nn.bias_add(X, constant(1, 5), axis=-1),
            "bias, given": nn.bias_add(X, var("b", 8)),
            "prelu": nn.prelu(X, constant(1, 8)),
            "concatenate": relay.concatenate([X, relay.tanh(X), var("y", 2, 3, 6, 5)], axis=1),
            "concatenate many": relay.concatenate(
                [var(f"x{i}", 2, 1 + i, 3) for i in range(12)], axis=1
            ),
            "concatenate six": relay.concatenate([X] * 6, axis=3),
            "pad": nn.pad(X, ((0, 0), (1, 0), (2, 1), (0, 3)), pad_value=0.5),
        }
    )


def test_views_and_boxes():
    check_each(
        {
            "reshape": relay.reshape(X, (2, 16, 15)),
            "flatten": nn.batch_flatten(X),
            "squeeze": relay.squeeze(var("x", 1, 8, 1, 5)),
            "expand": relay.expand_dims(var("x", 8, 5), 0),
            "transpose": relay.transpose(X, (0, 2, 3, 1)),
            "reverse": relay.transpose(X),
            "slice": relay.strided_slice(X, [0, 2, 1, 0], [2, 7, 5, 5]),
            "columns": relay.strided_slice(X, [0], [5], strides=[2], axes=[2]),
            "split": relay.split(X, 2, axis=1).astuple(),
            "space": nn.depth_to_space(X, 2),
            "depth": nn.space_to_depth(var("x", 1, 3, 6, 8), 2),
        }
    )


def test_results_are_what_callers_hold():
    """An input, a constant, another result, the same twice: each is copied to where it belongs."""
    y = nn.relu(X)
    check_each(
        {
            "input": relay.Tuple([X, y]),
            "constant": relay.Tuple([constant(1, 3, 4), y]),
            "twice": relay.Tuple([y, y]),
            "on the way": relay.Tuple([y, relay.tanh(y)]),
            "view": relay.Tuple([y, relay.reshape(y, (16, 30)), relay.transpose(y)]),
        }
    )


def unlike(**attrs):
    """A convolution of an image of 8 channels with weights of 4 in a group."""
    attrs = {"kernel_size": (3, 3), "groups": 2, **attrs}
    return nn.conv2d(IMAGE, constant(1, 4, 4, 3, 3), channels=4, **attrs)


REFUSED = {
    "nn.conv2d: out_layout=NHWC": lambda: unlike(out_layout="NHWC"),
    "nn.conv2d: kernel_layout=OIHW4o": lambda: nn.conv2d(
        IMAGE,
        constant(1, 1, 8, 3, 3, 4),
        channels=4,
        kernel_size=(3, 3),
        kernel_layout="OIHW4o",
    ),
    # Two results a channel, whose weights are along the axis I.
    r"nn.conv2d: weights=\(3, 3, 8, 2\)": lambda: nn.conv2d(
        LAST,
        constant(1, 3, 3, 8, 2),
        channels=16,
        kernel_size=(3, 3),
        groups=8,
        data_layout="NHWC",
        kernel_layout="HWOI",
    ),
    "nn.conv2d_transpose: data_layout=NHWC": lambda: nn.conv2d_transpose(
        LAST,
        constant(1, 8, 6, 3, 3),
        channels=6,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="IOHW",
    ),
    r"nn.max_pool2d: padding=\[1, 1, 1, 1\]": lambda: nn.max_pool2d(
        var("x", 1, 1, 1, 1), (2, 2), dilation=(2, 2), padding=(1, 1)
    ),
    "nn.max_pool2d: padding=": lambda: nn.max_pool2d(IMAGE, (2, 2), padding=(2, 2)),
    "nn.avg_pool2d: dilation": lambda: nn.avg_pool2d(IMAGE, (2, 2), dilation=(2, 2)),
    "nn.pad: number": lambda: nn.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), var("n")),
    "nn.pad: pad_width": lambda: nn.pad(X, ((0, 0), (0, 0), (-1, 1), (1, 1))),
    "nn.conv2d: data_layout=NCHW8c": lambda: nn.conv2d(
        var("x", 1, 1, 6, 6, 8),
        constant(1, 1, 1, 3, 3, 8, 8),
        channels=8,
        kernel_size=(3, 3),
        data_layout="NCHW8c",
        kernel_layout="OIHW8i8o",
    ),
    "nn.conv2d: weights=no constant": lambda: nn.conv2d(
        IMAGE, var("w", 4, 8, 3, 3), channels=4, kernel_size=(3, 3)
    ),
    "nn.conv2d_transpose: groups=2": lambda: nn.conv2d_transpose(
        IMAGE, constant(1, 8, 3, 3, 3), channels=6, kernel_size=(3, 3), groups=2
    ),
    r"nn.max_pool2d: pool_size=\[1, 1\]": lambda: nn.max_pool2d(IMAGE, (1, 1), (2, 2)),
    "nn.max_pool2d: ceil_mode": lambda: nn.max_pool2d(IMAGE, (2, 2), (2, 2), ceil_mode=True),
    "nn.avg_pool2d: count_include_pad": lambda: nn.avg_pool2d(
        IMAGE, (3, 3), padding=(1, 1), count_include_pad=True
    ),
    "nn.adaptive_avg_pool2d: output_size": lambda: nn.adaptive_avg_pool2d(IMAGE, (3, 3)),
    "nn.batch_matmul: transpose_a": lambda: nn.batch_matmul(
        var("x", 3, 16, 5), var("y", 3, 8, 16), transpose_a=True
    ),
    "nn.batch_matmul: batches": lambda: nn.batch_matmul(var("x", 1, 5, 16), var("y", 3, 8, 16)),
    "nn.dense: weights=no constant": lambda: nn.dense(var("x", 3, 16), var("w", 8, 16)),
    "nn.pad: pad_mode=edge": lambda: nn.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), pad_mode="edge"),
    "abs: dtype=int32": lambda: relay.abs(var("x", 3, dtype="int32")),
    "tanh: number of axes=7": lambda: relay.tanh(var("x", *[1] * 7)),
    "mean: number of axes=0": lambda: relay.mean(X),
    "erf: the op is not in its table": lambda: relay.erf(X),
    "sqrt: the op is not in its table": lambda: relay.sqrt(X),
    "exp: the op is not in its table": lambda: relay.exp(X),
    "power: the op is not in its table": lambda: relay.power(X, var("y", 2, 8, 6, 5)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_cannot_run_is_refused_by_name(reason):
    with pytest.raises(UnsupportedOpError, match=f"xnnpack.*{reason}"):
        kinds_of(REFUSED[reason]())


def test_the_table_is_of_relay_operators():
    for op in SUPPORTED_OPS:
        assert relay.op.get(op)
