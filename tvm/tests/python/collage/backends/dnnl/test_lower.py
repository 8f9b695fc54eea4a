# SPDX-License-Identifier: Apache-2.0
"""Each op and chain that oneDNN runs, against TVM's own result; a table is one library."""

import math

import numpy as np
import pytest
from onednn_nets import CONVOLUTIONS, check, check_all, constant, function_of, hand_placed, var
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.importer import activations

nn = relay.nn


def lowered(body):
    return lower_function(hand_placed(function_of(body))["dnnl_part"])


def check_kernels(bodies, same_as=None):
    """As check_all; none of the primitives is oneDNN's reference code."""
    plans = check_all(bodies, same_as)
    assert {name: plan for name, plan in plans.items() if "ref:" in plan} == {}
    return plans


def conv2d(data, weight, channels, kernel, **attrs):
    return nn.conv2d(data, weight, channels=channels, kernel_size=kernel, **attrs)


def conv_bias(data, seed=1, channels=16, in_channels=8, kernel=3, **attrs):
    weight = constant(seed, channels, in_channels, kernel, kernel)
    out = conv2d(data, weight, channels, (kernel, kernel), padding=kernel // 2, **attrs)
    return nn.bias_add(out, constant(seed + 100, channels))


IMAGE = var("x", 1, 8, 10, 10)


def convolution(layout, kernel, groups=1, **attrs):
    if layout == "NCHW":
        data, weight = var("x", 2, 8, 12, 11), constant(1, 20, 8 // groups, *kernel)
    else:
        data, weight = var("x", 2, 12, 11, 8), constant(1, *kernel, 8 // groups, 20)
    layouts = dict(data_layout=layout, kernel_layout="OIHW" if layout == "NCHW" else "HWIO")
    return conv2d(data, weight, 20, kernel, groups=groups, **attrs, **layouts)


def depthwise(multiplier):
    weight = constant(1, 16 * multiplier, 1, 3, 3)
    return conv2d(var("x", 1, 16, 9, 9), weight, 16 * multiplier, (3, 3), groups=16, padding=1)


def depthwise_channels_last():
    layouts = dict(data_layout="NHWC", kernel_layout="HWOI")
    weight = constant(1, 3, 3, 16, 1)
    return conv2d(var("x", 1, 9, 9, 16), weight, 16, (3, 3), groups=16, padding=1, **layouts)


def test_convolutions():
    """TVM's own llvm has no grouped NHWC convolution to compare with."""
    last = {name: attrs for name, attrs in CONVOLUTIONS.items() if name != "grouped"}
    line = nn.conv1d(var("x", 1, 8, 20), constant(1, 16, 8, 3), channels=16, kernel_size=3)
    volume = nn.conv3d(
        *(var("x", 1, 4, 5, 6, 7), constant(1, 8, 4, 3, 3, 3)), channels=8,
        kernel_size=(3, 3, 3), padding=1,
    )  # fmt: skip
    check_kernels(
        {name: convolution("NCHW", **attrs) for name, attrs in CONVOLUTIONS.items()}
        | {f"{name}, NHWC": convolution("NHWC", **attrs) for name, attrs in last.items()}
        | {f"depthwise by {multiplier}": depthwise(multiplier) for multiplier in (1, 2)}
        | {"depthwise, channels last": depthwise_channels_last(), "line": line, "volume": volume}
        | {"weights from the caller": conv2d(IMAGE, var("w", 16, 8, 3, 3), 16, (3, 3))}
    )


def transposed(kernel=3, data=(1, 8, 6, 7), channels=16, weight=None, **attrs):
    """A transposed convolution of as many axes as the data has."""
    window = (kernel,) * (len(data) - 2)
    weight = weight or constant(1, data[1], channels, *window)
    op = getattr(nn, f"conv{len(window)}d_transpose")
    return op(var("x", *data), weight, channels=channels, kernel_size=window, **attrs)


def test_transposed_convolutions():
    # TVM's own does not take a dilation: zeros between the weights are the same.
    small, wide = constant(1, 8, 16, 3, 3), np.zeros((8, 16, 5, 5), "float32")
    wide[:, :, ::2, ::2] = small.data.numpy()
    uneven = dict(strides=(2, 2), padding=(1, 0, 2, 1), output_padding=(1, 1))
    plans = check_kernels(
        {
            "plain": transposed(),
            "stride": transposed(strides=(2, 2), padding=(1, 1)),
            "uneven": transposed(**uneven),
            "dilation": transposed(weight=small, dilation=(2, 2)),
            "line": transposed(data=(1, 8, 20), strides=(2,)),
            "volume": transposed(2, (1, 4, 3, 4, 5), channels=8, strides=(2, 2, 2)),
            # Another scale stays apart: along the columns, or of an input.
            "scale of columns": transposed() * constant(2, 1, 1, 1, 9),
            "scale of the caller": transposed() * var("s", 16, 1, 1),
            # As batch norms after transposed convolutions are: TVM does not fold these scales.
            "scale, bias, relu": nn.relu(
                transposed(4, padding=(1, 1)) * constant(2, 16, 1, 1) + constant(3, 16, 1, 1)
            ),
            # oneDNN applies bias and activation to each part of its sum over 512 channels.
            "strides of many channels": nn.relu(
                transposed(4, (1, 512, 4, 4), channels=256, strides=(2, 2), padding=(1, 1))
                * constant(2, 256, 1, 1)
                + constant(3, 256, 1, 1)
            ),
        },
        {"dilation": transposed(5, weight=relay.const(wide))},
    )
    for name, binaries in (("scale, bias, relu", 0), ("strides of many channels", 1)):
        assert plans[name].count("deconv ") == 1 and plans[name].count("binary") == binaries
    assert "eltwise" not in plans["scale, bias, relu"]


ACTIVATIONS = {
    "relu": nn.relu,
    "clip": lambda x: relay.clip(x, 0.0, 6.0),
    "leaky_relu": lambda x: nn.leaky_relu(x, 0.1),
    "sigmoid": relay.sigmoid,
    "tanh": relay.tanh,
    "swish": lambda x: x * relay.sigmoid(x),
    "gelu": lambda x: (
        x * (relay.erf(x / relay.const(math.sqrt(2.0))) + relay.const(1.0)) * relay.const(0.5)
    ),
    "hardswish": lambda x: x * (relay.clip(x + relay.const(3.0), 0.0, 6.0) / relay.const(6.0)),
    "hardsigmoid": lambda x: relay.clip(x * relay.const(0.2) + relay.const(0.5), 0.0, 1.0),
    "mish": lambda x: x * relay.tanh(relay.log(relay.exp(x) + relay.const(1.0))),
    "mish as we import it": activations.mish,
    "softplus as we import it": activations.softplus,
    "elu": lambda x: nn.relu(relay.const(1.0) - relay.exp(x)) * relay.const(-1.5) + nn.relu(x),
}
BIASES = {
    "bias_add": lambda out: nn.bias_add(out, constant(2, 16)),
    "add_c11": lambda out: relay.add(out, constant(2, 16, 1, 1)),
    "add_1c11": lambda out: relay.add(constant(2, 1, 16, 1, 1), out),
    "scalar": lambda out: relay.add(out, relay.const(0.5)),
    "scale_and_shift": lambda out: out * constant(3, 16, 1, 1) + constant(2, 16, 1, 1),
}


def test_a_convolution_with_bias_and_activation_is_one_primitive():
    bare = conv2d(IMAGE, constant(1, 16, 8, 3, 3), 16, (3, 3))
    plans = check_all(
        {name: nn.relu(bias(bare)) for name, bias in BIASES.items()}
        | {
            name: activation(conv_bias(IMAGE))
            for name, activation in ACTIVATIONS.items()
            if "softplus" not in name
        }
    )
    for name, plan in plans.items():
        assert plan.count(" by ") - plan.count("reorder") == 1, name


def test_activations_alone():
    plans = check_all({name: make(var("x", 2, 5, 7)) for name, make in ACTIVATIONS.items()})
    assert all("eltwise" in plan for plan in plans.values())


CHANNELS_LAST = conv2d(
    IMAGE, constant(1, 3, 3, 10, 16), 16, (3, 3), data_layout="NHWC", kernel_layout="HWIO"
)
# What the slopes are of, how many, their axis, and whether they become a post-op.
PRELUS = {
    "conv": (conv_bias(IMAGE), 16, 1, True),
    "strided transposed conv": (transposed(data=(1, 8, 5, 5), strides=(2, 2)), 16, 1, False),
    "channels last": (CHANNELS_LAST, 16, 3, True),
    "rows": (conv_bias(IMAGE), 10, 2, False),
    "one slope a column": (relay.reshape(IMAGE, (1, 8, 100)), 100, 2, False),
    "dense": (nn.dense(relay.reshape(IMAGE, (80, 10)), constant(1, 6, 10)), 6, 1, True),
}


def test_prelu():
    plans = check_kernels(
        {
            name: nn.prelu(data, constant(5, slopes), axis=axis)
            for name, (data, slopes, axis, _) in PRELUS.items()
        }
    )
    for name, plan in plans.items():
        assert ("+ prelu" in plan) == PRELUS[name][3], name
        assert ("\nprelu" in plan or plan.startswith("prelu")) != PRELUS[name][3], name
    check(nn.prelu(IMAGE, var("slopes", 10), axis=3))
    plan = check(nn.relu(nn.prelu(IMAGE, constant(5, 8))))
    assert plan.count("prelu") == 1 and "eltwise" in plan, "prelu takes no post-op in"


def test_sums_and_scales():
    wide = var("y", 1, 16, 10, 10)
    wanted = {
        "+ sum + prelu": nn.prelu(conv_bias(IMAGE) + wide, constant(5, 16)),
        "+ sum + relu": nn.relu(conv_bias(IMAGE) + wide),
        "+ sum": conv_bias(IMAGE) + wide,
        "+ relu + sum": nn.relu(conv_bias(IMAGE)) + wide,
        # Of the same input, and by another tensor.
        "relu": nn.relu(conv_bias(IMAGE, channels=8) + IMAGE),
        "s": conv_bias(IMAGE) * var("s", 1, 16, 1, 1),
        "conv": conv_bias(IMAGE) * wide,
    }
    for words, plan in check_all(wanted).items():
        assert words in plan


def test_products_of_matrices():
    x, weight, bias = var("x", 6, 24), constant(1, 10, 24), constant(2, 10)
    dense = nn.dense(x, weight)
    bodies = {
        "dense": dense,
        "bias, relu": nn.relu(nn.bias_add(dense, bias)),
        "bias, gelu": ACTIVATIONS["gelu"](relay.add(dense, bias)),
        "bias, sum": nn.bias_add(dense, bias) + var("y", 6, 10),
        # A bias that is not a constant is taken where channels are the last axis.
        "bias of the caller": nn.bias_add(dense, var("b", 10), axis=-1),
        "matmul": nn.matmul(var("a", 5, 6), constant(1, 6, 7)),
    }
    for trans_a in (False, True):
        for trans_b in (False, True):
            a = var("a", *((3, 6, 5) if trans_a else (3, 5, 6)))
            shape = (3, 7, 6) if trans_b else (3, 6, 7)
            for b in (var("b", *shape), constant(1, *shape)):
                product = nn.batch_matmul(a, b, transpose_a=trans_a, transpose_b=trans_b)
                bodies[f"{trans_a} {trans_b} {type(b)}"] = product
    # Attention whose scores a dense layer mixes from head to head, as in CaiT.
    rows = nn.dense(var("x", 60, 4), constant(1, 4, 4))
    heads = relay.reshape(relay.transpose(relay.reshape(rows, (6, 10, 4)), (2, 0, 1)), (4, 6, 10))
    bodies["numbers apart, first"] = nn.batch_matmul(heads, var("v", 4, 7, 10))
    bodies["second"] = nn.batch_matmul(var("v", 4, 7, 6), heads, transpose_b=False)
    check_kernels(bodies)


def test_dense_of_many_axes():
    """TVM's own kernels take matrices only."""
    x, weight, bias = var("x", 2, 3, 24), constant(1, 10, 24), constant(2, 10)
    y, other = var("y", 2, 3, 10), relay.transpose(var("t", 3, 2, 10), (1, 0, 2))

    def of(product):
        biased = nn.bias_add(product, bias, axis=-1)
        sums = {"sum": biased + y, "second sum": product + y + other}
        return {"tanh": relay.tanh(biased), "product": product * other} | sums

    rows = nn.dense(relay.reshape(x, (6, 24)), weight)
    check_all(of(nn.dense(x, weight)), of(relay.reshape(rows, (2, 3, 10))))


POOLS = {
    "max": lambda x: nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)),
    "max_ceil": lambda x: nn.max_pool2d(x, (3, 3), strides=(2, 2), ceil_mode=True),
    "max_asymmetric": lambda x: nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(0, 0, 1, 1)),
    "avg": lambda x: nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)),
    "avg_include": lambda x: nn.avg_pool2d(
        x, (3, 3), strides=(2, 2), padding=(1, 1), count_include_pad=True
    ),
    "avg_right_padding_that_is_not_reached": lambda x: nn.avg_pool2d(
        x, (2, 2), strides=(5, 4), padding=(0, 0, 3, 3)
    ),
    "global_avg": nn.global_avg_pool2d,
    "global_max": nn.global_max_pool2d,
    "adaptive_avg": lambda x: nn.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive_max": lambda x: nn.adaptive_max_pool2d(x, (1, 2)),
    "channels last": lambda _: nn.max_pool2d(var("x", 2, 12, 10, 6), (2, 2), (2, 2), layout="NHWC"),
    "of a line": lambda _: nn.adaptive_avg_pool1d(var("x", 1, 8, 20), 1),
    "of a volume": lambda _: nn.adaptive_avg_pool3d(var("x", 1, 16, 2, 4, 4), (1, 1, 1)),
}


def test_pools():
    check_all({name: pool(var("x", 2, 17, 12, 10)) for name, pool in POOLS.items()})


def resize(x, size, mode="asymmetric", method="nearest_neighbor", **attrs):
    rounding = "floor" if method == "nearest_neighbor" else ""
    attrs = {"rounding_method": rounding, **attrs}
    return relay.image.resize2d(
        x, size, method=method, coordinate_transformation_mode=mode, **attrs
    )


def test_resize():
    x, bodies = var("x", 2, 6, 12, 10), {}
    for size in [(24, 20), (36, 50)]:
        bodies[f"nearest {size}"] = resize(nn.relu(x), size)
        bodies[f"channels last {size}"] = resize(var("x", 2, 12, 10, 6), size, layout="NHWC")
        # In the convolution's blocks.
        bodies[f"convolution {size}"] = resize(conv_bias(var("x", 1, 8, 12, 10)), size)
    for size in [(24, 20), (17, 7)]:
        bodies[f"between {size}"] = resize(x, size, mode="half_pixel", method="linear")
    assert all("resample" in plan for plan in check_all(bodies).values())


BINARIES = (relay.add, relay.subtract, relay.multiply, relay.maximum, relay.minimum)
BROADCASTS = [(2, 6, 5, 4), (6, 1, 1), (1, 6, 1, 1), (4,), (2, 6, 5, 1)]


def test_binary():
    x = var("x", 2, 6, 5, 4)
    check_all(
        {f"{op} {shape}": op(x, var("y", *shape)) for op in BINARIES for shape in BROADCASTS}
        | {
            "divide": relay.divide(x, constant(1, 1, 6, 1, 1, low=1.0)),
            "divide by a number": relay.divide(x, relay.const(3.0)),
            "smaller first operand": relay.add(var("y", 6, 1, 1), x),
            "square": relay.power(x, relay.const(2.0)),
            "reciprocal root": relay.rsqrt(relay.exp(x)),
            "softmax": nn.softmax(x),
            "softmax of another axis": nn.softmax(x, axis=1),
            "log_softmax": nn.log_softmax(x),
        }
    )


@pytest.mark.parametrize("op", [relay.mean, relay.sum, relay.max, relay.min, relay.variance])
def test_reduce(op):
    x, y, ones = var("x", 2, 6, 5, 4), var("x", 2, 6, 5), nn.relu(var("x", 2, 6, 1, 1))
    bodies = {
        "of ones": op(ones, axis=[2, 3]),
        "of ones that stay": op(ones, axis=[2, 3], keepdims=True),
        "of one and others": relay.exp(op(ones, axis=[1, 2])),
        # Relay takes an empty list for all of them. TVM's type says so; what it makes of them has
        # the shape of y, and it refuses to run that.
        "no axes": relay.exp(op(y, axis=[])),
        "no axes, kept": op(y, axis=[], keepdims=True),
        "no axes, excluded": op(y, axis=[], exclude=True, keepdims=True),
    }
    if op is not relay.variance:
        bodies |= {
            "last": op(x, axis=[-1], keepdims=True),
            "image": op(x, axis=[2, 3]),
            "all but one": op(x, axis=[1], keepdims=True, exclude=True),
            "none left": nn.relu(op(x, axis=[0, 1, 2, 3], exclude=True)),
            "all": nn.relu(op(x)),
        }
    same = dict.fromkeys(["no axes, kept", "no axes, excluded"], op(y, keepdims=True))
    check_all(bodies, {"no axes": relay.exp(op(y)), **same})


PADDED = {
    "rows and columns": ((0, 0), (0, 0), (1, 0), (2, 3)),
    "channels": ((0, 0), (3, 13), (0, 0), (0, 0)),
    "all": ((1, 1), (1, 1), (1, 1), (1, 1)),
    "none": ((0, 0), (0, 0), (0, 0), (0, 0)),
}


def test_padding():
    """Behind a convolution, so that its layout is oneDNN's choice; 17 channels fill no block."""
    x = conv2d(var("x", 1, 8, 6, 5), constant(1, 17, 8, 3, 3), 17, (3, 3))
    check_all({name: nn.pad(x, widths, 1.5) for name, widths in PADDED.items()})


def test_views():
    x = var("x", 2, 6, 5, 4)
    bodies = {
        "reshape": relay.reshape(nn.relu(x), (12, 20)),
        "transpose": relay.transpose(nn.relu(x), (0, 2, 3, 1)),
        "flatten": nn.batch_flatten(nn.max_pool2d(x, (2, 2))),
        "of a transpose": nn.relu(relay.transpose(x, (1, 0, 3, 2))),
        "squeeze": relay.squeeze(nn.global_avg_pool2d(x), [2, 3]),
        "concatenate": relay.concatenate([var("x", 1, 8, 5, 5), var("y", 1, 16, 5, 5)], axis=1),
    }
    for layout, shape in (("NCHW", (2, 12, 4, 6)), ("NHWC", (2, 4, 6, 12))):
        image = nn.relu(var("x", *shape))
        outputs = [nn.depth_to_space(image, 2, layout, mode) for mode in ("DCR", "CRD")]
        bodies[layout] = relay.Tuple([*outputs, nn.space_to_depth(image, 2, layout)])
    check_all(bodies)


def test_slices():
    x, rows, steps = var("x", 2, 6, 5, 4), var("x", 4, 8), nn.relu(var("x", 2, 9, 8, 6))
    whole = nn.dense(rows, constant(1, 12, 8))
    out = conv_bias(IMAGE, channels=32)
    slice_ = relay.strided_slice
    bodies = {
        "of an input": nn.relu(slice_(x, [0, 2, 1, 0], [2, 5, 4, 4])),
        "from the end": slice_(nn.relu(x), [1, -3], [5, -1], [1, 1], axes=[1, 2]),
        "by sizes": slice_(x, [0, 1, 1, 1], [2, 3, -1, 2], slice_mode="size"),
        "beyond the end": nn.relu(slice_(x, [0, 0, 0, 0], [9, 9, 9, 9])),
        # Of the blocks that a convolution leaves, inside a block and at its border.
        "at a block": slice_(out, [0, 16, 0, 0], [1, 32, 10, 10]),
        "inside a block": slice_(out, [0, 3, 2, 0], [1, 20, 9, 10]),
        "of a result": relay.Tuple([whole, slice_(whole, [0, 4], [4, 8])]),
        "of weights": nn.dense(rows, slice_(constant(1, 12, 8), [2, 0], [7, 8])),
        "steps": slice_(steps, [0, 0, 0, 1], [2, 9, 8, 6], strides=[1, 1, 1, 2]),
        "steps of two axes": slice_(steps, [3, -3], [9, 5], strides=[3, 2], axes=[1, 3]),
        "steps of others": slice_(steps, [0, 5], [2, 8], strides=[2, 4], axes=[0, 2]),
    }
    for sections in (3, [1, 4]):
        parts = relay.split(nn.relu(var("x", 2, 6, 5)), sections, axis=1)
        bodies[f"split {sections}"] = relay.Tuple([parts[0], relay.tanh(parts[1]), parts[2]])
    bodies["product"] = nn.batch_matmul(*relay.split(nn.relu(var("x", 2, 6, 5)), 2, axis=1))
    check_all(bodies)


def depth(move, shape, size, layout="NCHW"):
    """Of a size that is no whole number of blocks; TVM drops what is left over."""
    batch, channels, *places = shape
    return move(
        var("x", *(shape if layout == "NCHW" else (batch, *places, channels))), size, layout
    )


LARGE, ROWS, ALL = var("x", 2, 6, 12, 10), var("x", 2, 7), PADDED["all"]
REFUSED = [
    (r"image.resize2d: size=\[2, 6, 17, 20\]", resize(LARGE, (17, 20))),
    ("points=nearest_neighbor align_corners floor", resize(LARGE, (24, 20), "align_corners")),
    ("image.resize2d: points=linear asymmetric", resize(LARGE, (24, 20), method="linear")),
    ("image.resize2d: points=cubic half_pixel", resize(LARGE, (24, 20), "half_pixel", "cubic")),
    ("nn.pad.*number", nn.pad(IMAGE, ALL, var("by"))),
    ("nn.pad.*pad_mode", nn.pad(IMAGE, ALL, pad_mode="edge")),
    ("nn.pad.*pad_width", nn.pad(IMAGE, ((0, 0), (0, 0), (-1, 0), (0, 0)))),
    ("nn.pad.*dtype", nn.pad(var("x", 1, 8, dtype="bfloat16"), ((0, 0), (0, 1)))),
    ("output_size", nn.adaptive_avg_pool2d(LARGE, (5, 5))),
    # The axis is no whole number of steps; backwards.
    (r"strided_slice: strides=\[1, 2\]", relay.strided_slice(ROWS, [0, 0], [2, 7], [1, 2])),
    (r"strided_slice: strides=\[-1, 1\]", relay.strided_slice(ROWS, [1, 0], [0, 7], [-1, 1])),
    *(
        (f"nn.{move.__name__}: block_size={size} of", depth(move, shape, size, layout))
        for layout in ("NCHW", "NHWC")
        for move, shape, size in [
            (nn.space_to_depth, (1, 4, 5, 6), 2),
            (nn.space_to_depth, (1, 4, 6, 5), 2),
            (nn.depth_to_space, (1, 6, 4, 4), 2),
            (nn.depth_to_space, (1, 12, 4, 4), 3),
        ]
    ),
]


@pytest.mark.parametrize("reason, body", REFUSED)
def test_what_stays_on_tvm(reason, body):
    with pytest.raises(UnsupportedOpError, match=reason):
        lowered(body)
