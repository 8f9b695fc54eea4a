# SPDX-License-Identifier: Apache-2.0
"""Each op and chain that oneDNN runs, against TVM's own result."""

import math

import numpy as np
import pytest
from onednn_nets import check, constant, function_of, hand_placed, var
from tvm import relay
from tvm.relay.collage.backends import UnsupportedOpError
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.importer import activations

nn = relay.nn


def lowered(body):
    return lower_function(hand_placed(function_of(body))["dnnl_part"])


def conv2d(data, weight, channels, kernel, **attrs):
    return nn.conv2d(data, weight, channels=channels, kernel_size=kernel, **attrs)


def conv_bias(data, seed=1, channels=16, in_channels=8, kernel=3, **attrs):
    weight = constant(seed, channels, in_channels, kernel, kernel)
    out = conv2d(data, weight, channels, (kernel, kernel), padding=kernel // 2, **attrs)
    return nn.bias_add(out, constant(seed + 100, channels))


CONVOLUTIONS = {
    "plain": dict(kernel=(3, 3), padding=1),
    "no_padding": dict(kernel=(3, 3)),
    "asymmetric": dict(kernel=(3, 3), padding=(0, 1, 2, 1)),
    "stride": dict(kernel=(3, 3), padding=1, strides=2),
    "dilation": dict(kernel=(3, 3), padding=2, dilation=2),
    "pointwise": dict(kernel=(1, 1)),
    "wide": dict(kernel=(1, 7), padding=(0, 3)),
    "grouped": dict(kernel=(3, 3), padding=1, groups=4),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d(name, layout):
    attrs = dict(CONVOLUTIONS[name])
    kernel, groups = attrs.pop("kernel"), attrs.get("groups", 1)
    if layout == "NCHW":
        data, weight = var("x", 2, 8, 12, 11), constant(1, 20, 8 // groups, *kernel)
    else:
        data, weight = var("x", 2, 12, 11, 8), constant(1, *kernel, 8 // groups, 20)
    if layout == "NHWC" and groups > 1:
        pytest.skip("TVM's own llvm has no grouped NHWC convolution to compare with")
    layouts = dict(data_layout=layout, kernel_layout="OIHW" if layout == "NCHW" else "HWIO")
    plan = check(conv2d(data, weight, 20, kernel, **attrs, **layouts))
    assert "ref:" not in plan


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise(multiplier):
    data, weight = var("x", 1, 16, 9, 9), constant(1, 16 * multiplier, 1, 3, 3)
    check(conv2d(data, weight, 16 * multiplier, (3, 3), groups=16, padding=1))


def test_depthwise_channels_last():
    data, weight = var("x", 1, 9, 9, 16), constant(1, 3, 3, 16, 1)
    layouts = dict(data_layout="NHWC", kernel_layout="HWOI")
    check(conv2d(data, weight, 16, (3, 3), groups=16, padding=1, **layouts))


def test_conv1d_and_conv3d():
    check(
        nn.conv1d(var("x", 1, 8, 20), constant(1, 16, 8, 3), channels=16, kernel_size=3, padding=1)
    )
    data, weight = var("x", 1, 4, 5, 6, 7), constant(1, 8, 4, 3, 3, 3)
    check(nn.conv3d(data, weight, channels=8, kernel_size=(3, 3, 3), padding=1))


TRANSPOSED = {
    "plain": {},
    "stride": dict(strides=(2, 2), padding=(1, 1)),
    "uneven": dict(strides=(2, 2), padding=(1, 0, 2, 1), output_padding=(1, 1)),
    "dilation": dict(dilation=(2, 2)),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_conv2d(name):
    attrs = dict(TRANSPOSED[name])
    # TVM's own does not take a dilation: zeros between the weights are the same.
    is_dilated = attrs.pop("dilation", None)
    small = constant(1, 8, 16, 3, 3)
    wide = np.zeros((8, 16, 5, 5), "float32")
    wide[:, :, ::2, ::2] = small.data.numpy()

    def conv(weight, kernel, **more):
        return nn.conv2d_transpose(
            *(var("x", 1, 8, 6, 7), weight), channels=16, kernel_size=(kernel, kernel), **more
        )

    if is_dilated:
        plan = check(conv(small, 3, dilation=(2, 2)), same_as=conv(relay.const(wide), 5))
    else:
        plan = check(conv(small, 3, **attrs))
    assert "ref:" not in plan


def test_transposed_conv1d_and_conv3d():
    check(
        nn.conv1d_transpose(
            *(var("x", 1, 8, 20), constant(1, 8, 16, 3)), channels=16, kernel_size=(3,),
            strides=(2,),
        )
    )  # fmt: skip
    check(
        nn.conv3d_transpose(
            *(var("x", 1, 4, 3, 4, 5), constant(1, 4, 8, 2, 2, 2)), channels=8,
            kernel_size=(2, 2, 2), strides=(2, 2, 2),
        )
    )  # fmt: skip


def test_transposed_conv_takes_scale_bias_and_activation():
    """As batch norms after transposed convolutions are: TVM does not fold these scales."""
    out = nn.conv2d_transpose(
        *(var("x", 1, 8, 6, 6), constant(1, 8, 16, 4, 4)), channels=16, kernel_size=(4, 4),
        padding=(1, 1),
    )  # fmt: skip
    plan = check(nn.relu(out * constant(2, 16, 1, 1) + constant(3, 16, 1, 1)))
    assert plan.count("deconv ") == 1 and "binary" not in plan and "eltwise" not in plan
    assert "ref:" not in plan


def test_strided_transposed_conv_of_many_channels_takes_the_scale_alone():
    """oneDNN applies bias and activation to each part of its sum over 512 channels."""
    out = nn.conv2d_transpose(
        *(var("x", 1, 512, 4, 4), constant(1, 512, 256, 4, 4)), channels=256, kernel_size=(4, 4),
        strides=(2, 2), padding=(1, 1),
    )  # fmt: skip
    plan = check(nn.relu(out * constant(2, 256, 1, 1) + constant(3, 256, 1, 1)))
    assert plan.count("deconv ") == 1 and plan.count("binary") == 1


def test_transposed_conv_keeps_another_scale_apart():
    """Along the columns, or of an input: neither is one number a channel that is known."""
    x = var("x", 1, 8, 4, 4)
    out = nn.conv2d_transpose(x, constant(1, 8, 16, 3, 3), channels=16, kernel_size=(3, 3))
    check(out * constant(2, 1, 1, 1, 6))
    check(out * var("s", 16, 1, 1))


def test_weights_from_the_caller():
    check(nn.relu(conv2d(var("x", 1, 8, 8, 8), var("w", 16, 8, 3, 3), 16, (3, 3))))


BIASES = {
    "bias_add": lambda out: nn.bias_add(out, constant(2, 16)),
    "add_c11": lambda out: relay.add(out, constant(2, 16, 1, 1)),
    "add_1c11": lambda out: relay.add(constant(2, 1, 16, 1, 1), out),
    "variable": lambda out: nn.bias_add(out, var("b", 16)),
    "scalar": lambda out: relay.add(out, relay.const(0.5)),
    "scale_and_shift": lambda out: relay.add(
        relay.multiply(out, constant(3, 16, 1, 1)), constant(2, 16, 1, 1)
    ),
}


@pytest.mark.parametrize("name", BIASES)
def test_bias(name):
    out = conv2d(var("x", 1, 8, 8, 8), constant(1, 16, 8, 3, 3), 16, (3, 3))
    if name == "variable":
        # A bias that is not a constant is taken where channels are the last axis.
        out = nn.dense(var("x", 4, 8), constant(1, 16, 8))
        check(nn.bias_add(out, var("b", 16), axis=-1))
        return
    plan = check(nn.relu(BIASES[name](out)))
    assert plan.count("conv ") == 1 and "binary" not in plan and "eltwise" not in plan


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


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if "softplus" not in name])
def test_conv_bias_activation_is_one_primitive(name):
    plan = check(ACTIVATIONS[name](conv_bias(var("x", 1, 8, 10, 10))))
    assert plan.count(" by ") - plan.count("reorder") == 1


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_alone(name):
    assert "eltwise" in check(ACTIVATIONS[name](var("x", 2, 5, 7)))


PRELUS = {
    "conv": (lambda x: conv_bias(x), 16, 1, True),
    "strided transposed conv": (
        lambda x: nn.conv2d_transpose(
            x, constant(1, 8, 16, 3, 3), channels=16, kernel_size=(3, 3), strides=(2, 2)
        ), 16, 1, False,
    ),
    "channels last": (
        lambda x: conv2d(
            x, constant(1, 3, 3, 10, 16), 16, (3, 3), data_layout="NHWC", kernel_layout="HWIO"
        ), 16, 3, True,
    ),
    "rows": (lambda x: conv_bias(x), 10, 2, False),
    "one slope a column": (lambda x: relay.reshape(x, (1, 8, 100)), 100, 2, False),
    "dense": (lambda x: nn.dense(relay.reshape(x, (80, 10)), constant(1, 6, 10)), 6, 1, True),
}  # fmt: skip


@pytest.mark.parametrize("name", PRELUS)
def test_prelu(name):
    make, slopes, axis, is_post_op = PRELUS[name]
    plan = check(nn.prelu(make(var("x", 1, 8, 10, 10)), constant(5, slopes), axis=axis))
    assert ("+ prelu" in plan) == is_post_op and "ref" not in plan
    assert ("\nprelu" in plan or plan.startswith("prelu")) != is_post_op


def test_prelu_after_a_sum_and_alone_and_with_slopes_of_the_caller():
    x, y = var("x", 1, 8, 10, 10), var("y", 1, 16, 10, 10)
    assert "+ sum + prelu" in check(nn.prelu(conv_bias(x) + y, constant(5, 16)))
    check(nn.relu(nn.prelu(x, constant(5, 8))))
    check(nn.prelu(x, var("slopes", 10), axis=3))


def test_residual_sum():
    x, other = var("x", 1, 8, 10, 10), var("y", 1, 16, 10, 10)
    assert "+ sum + relu" in check(nn.relu(conv_bias(x) + other))
    assert "+ sum" in check(conv_bias(x) + other)
    assert "+ relu + sum" in check(nn.relu(conv_bias(x)) + other)


def test_residual_of_the_same_input():
    x = var("x", 1, 8, 10, 10)
    check(nn.relu(conv_bias(x, channels=8) + x))


def test_scale_by_another_tensor():
    x, scale = var("x", 1, 8, 10, 10), var("s", 1, 16, 1, 1)
    check(conv_bias(x) * scale)
    check(conv_bias(x) * var("y", 1, 16, 10, 10))


def test_dense():
    x, weight = var("x", 6, 24), constant(1, 10, 24)
    check(nn.dense(x, weight))
    check(nn.relu(nn.bias_add(nn.dense(x, weight), constant(2, 10))))
    check(ACTIVATIONS["gelu"](relay.add(nn.dense(x, weight), constant(2, 10))))
    check(relay.add(nn.bias_add(nn.dense(x, weight), constant(2, 10)), var("y", 6, 10)))


def test_dense_of_many_axes():
    x, y, weight, bias = (
        var("x", 2, 3, 24),
        var("y", 2, 3, 10),
        constant(1, 10, 24),
        constant(2, 10),
    )
    out = nn.bias_add(nn.dense(x, weight), bias, axis=-1)
    # TVM's own kernels take matrices only.
    rows = nn.bias_add(nn.dense(relay.reshape(x, (6, 24)), weight), bias, axis=-1)
    same = relay.reshape(rows, (2, 3, 10))
    check(relay.tanh(out), relay.tanh(same))
    check(out + y, same + y)


@pytest.mark.parametrize("name", ["product", "second_sum"])
def test_dense_of_many_axes_with_a_transposed_operand(name):
    x, y, z = var("x", 2, 3, 24), var("y", 3, 2, 10), var("z", 2, 3, 10)
    out = nn.dense(x, constant(1, 10, 24))
    rows = nn.dense(relay.reshape(x, (6, 24)), constant(1, 10, 24))
    same = relay.reshape(rows, (2, 3, 10))
    other = relay.transpose(y, (1, 0, 2))
    if name == "product":
        check(out * other, same * other)
    else:
        check(out + z + other, same + z + other)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_batch_matmul(transposed):
    a_shape = (3, 6, 5) if transposed[0] else (3, 5, 6)
    b_shape = (3, 7, 6) if transposed[1] else (3, 6, 7)
    attrs = dict(transpose_a=transposed[0], transpose_b=transposed[1])
    check(nn.batch_matmul(var("a", *a_shape), var("b", *b_shape), **attrs))
    check(nn.batch_matmul(var("a", *a_shape), constant(1, *b_shape), **attrs))


@pytest.mark.parametrize("side", ["first", "second"])
def test_batch_matmul_of_matrices_whose_numbers_lie_apart(side):
    """Attention whose scores a dense layer mixes from head to head, as in CaiT."""
    rows = nn.dense(var("x", 60, 4), constant(1, 4, 4))
    heads = relay.reshape(relay.transpose(relay.reshape(rows, (6, 10, 4)), (2, 0, 1)), (4, 6, 10))
    if side == "first":
        out = nn.batch_matmul(heads, var("v", 4, 7, 10))
    else:
        out = nn.batch_matmul(var("v", 4, 7, 6), heads, transpose_b=False)
    assert "ref" not in check(out)


def test_matmul():
    check(nn.matmul(var("a", 5, 6), constant(1, 6, 7)))


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
}


@pytest.mark.parametrize("name", POOLS)
def test_pool(name):
    check(POOLS[name](var("x", 2, 6, 12, 10)))


def test_pool_channels_last():
    check(nn.max_pool2d(var("x", 2, 12, 10, 6), (2, 2), strides=(2, 2), layout="NHWC"))


def resize(x, size, mode="asymmetric", method="nearest_neighbor", **attrs):
    rounding = "floor" if method == "nearest_neighbor" else ""
    attrs = {"rounding_method": rounding, **attrs}
    return relay.image.resize2d(
        x, size, method=method, coordinate_transformation_mode=mode, **attrs
    )


@pytest.mark.parametrize("size", [(24, 20), (36, 50)])
def test_resize_to_the_nearest(size):
    plan = check(resize(nn.relu(var("x", 2, 6, 12, 10)), size))
    assert "resample" in plan
    check(resize(var("x", 2, 12, 10, 6), size, layout="NHWC"))
    check(resize(conv_bias(var("x", 1, 8, 12, 10)), size))  # in the convolution's blocks


@pytest.mark.parametrize("size", [(24, 20), (17, 7)])
def test_resize_between_pixels(size):
    x = var("x", 2, 6, 12, 10)
    assert "resample" in check(resize(x, size, mode="half_pixel", method="linear"))


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ({"size": (17, 20)}, r"size=\[2, 6, 17, 20\]"),
        (
            {"size": (24, 20), "mode": "align_corners"},
            "points=nearest_neighbor align_corners floor",
        ),
        ({"size": (24, 20), "method": "linear"}, "points=linear asymmetric"),
        ({"size": (24, 20), "method": "cubic", "mode": "half_pixel"}, "points=cubic half_pixel"),
    ],
)
def test_other_ways_to_resize_stay_on_tvm(attrs, why):
    with pytest.raises(UnsupportedOpError, match=f"image.resize2d: {why}"):
        lowered(resize(var("x", 2, 6, 12, 10), **attrs))


BINARIES = {
    "add": relay.add,
    "subtract": relay.subtract,
    "multiply": relay.multiply,
    "maximum": relay.maximum,
    "minimum": relay.minimum,
}


@pytest.mark.parametrize("name", BINARIES)
@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (6, 1, 1), (1, 6, 1, 1), (4,), (2, 6, 5, 1)])
def test_binary(name, shape):
    check(BINARIES[name](var("x", 2, 6, 5, 4), var("y", *shape)))


def test_divide():
    check(relay.divide(var("x", 2, 6, 5), constant(1, 6, 1, low=1.0)))
    check(relay.divide(var("x", 2, 6, 5), relay.const(3.0)))


def test_smaller_first_operand():
    check(relay.add(var("x", 6, 1, 1), var("y", 2, 6, 5, 4)))


def test_softmax():
    check(nn.softmax(var("x", 4, 10)))
    check(nn.softmax(var("x", 2, 5, 7), axis=1))
    check(nn.log_softmax(var("x", 4, 10)))


@pytest.mark.parametrize("op", [relay.mean, relay.sum, relay.max, relay.min])
def test_reduce(op):
    x = var("x", 2, 6, 5, 4)
    check(op(x, axis=[-1], keepdims=True))
    check(op(x, axis=[2, 3]))
    check(op(x, axis=[1], keepdims=True, exclude=True))
    check(nn.relu(op(x, axis=[0, 1, 2, 3], exclude=True)))
    check(nn.relu(op(x)))


@pytest.mark.parametrize("op", [relay.mean, relay.sum, relay.max, relay.min, relay.variance])
def test_reduce_over_an_empty_list_of_axes(op):
    """Relay takes it for all of them."""
    x = var("x", 2, 6, 5)
    whole = op(x, keepdims=True)
    # TVM's type says so; what it makes of them has the shape of x, and it refuses to run that.
    check(relay.exp(op(x, axis=[])), relay.exp(op(x)))
    check(op(x, axis=[], keepdims=True), whole)
    check(op(x, axis=[], exclude=True, keepdims=True), whole)


@pytest.mark.parametrize("op", [relay.mean, relay.sum, relay.max, relay.min, relay.variance])
def test_reduce_over_axes_of_one(op):
    x = nn.relu(var("x", 2, 6, 1, 1))
    check(op(x, axis=[2, 3]))
    check(op(x, axis=[2, 3], keepdims=True))
    check(relay.exp(op(x, axis=[1, 2])))


def test_powers():
    x = var("x", 2, 6)
    check(relay.power(x, relay.const(2.0)))
    check(relay.rsqrt(relay.exp(x)))


def test_concatenate():
    check(relay.concatenate([var("x", 1, 8, 5, 5), var("y", 1, 16, 5, 5)], axis=1))


def test_views():
    x = var("x", 2, 6, 5, 4)
    check(relay.reshape(nn.relu(x), (12, 20)))
    check(relay.transpose(nn.relu(x), (0, 2, 3, 1)))
    check(nn.batch_flatten(nn.max_pool2d(x, (2, 2))))
    check(nn.relu(relay.transpose(x, (1, 0, 3, 2))))
    check(relay.squeeze(nn.global_avg_pool2d(x), [2, 3]))


PADDED = {
    "rows and columns": ((0, 0), (0, 0), (1, 0), (2, 3)),
    "channels": ((0, 0), (3, 13), (0, 0), (0, 0)),
    "all": ((1, 1), (1, 1), (1, 1), (1, 1)),
    "none": ((0, 0), (0, 0), (0, 0), (0, 0)),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding(name):
    """Behind a convolution, so that its layout is oneDNN's choice; 17 channels fill no block."""
    x = conv2d(var("x", 1, 8, 6, 5), constant(1, 17, 8, 3, 3), 17, (3, 3))
    check(nn.pad(x, PADDED[name], 1.5))


def test_padding_that_stays_on_tvm():
    x, around = var("x", 1, 8, 6, 5), PADDED["all"]
    for body, why in [
        (nn.pad(x, around, var("by")), "number"),
        (nn.pad(x, around, pad_mode="edge"), "pad_mode"),
        (nn.pad(x, ((0, 0), (0, 0), (-1, 0), (0, 0))), "pad_width"),
        (nn.pad(var("x", 1, 8, dtype="bfloat16"), ((0, 0), (0, 1))), "dtype"),
    ]:
        with pytest.raises(UnsupportedOpError, match=f"nn.pad.*{why}"):
            lowered(body)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depth_to_space_and_back(layout):
    shape = (2, 12, 4, 6) if layout == "NCHW" else (2, 4, 6, 12)
    x = nn.relu(var("x", *shape))
    outputs = [nn.depth_to_space(x, 2, layout, mode) for mode in ("DCR", "CRD")]
    check(relay.Tuple([*outputs, nn.space_to_depth(x, 2, layout)]))


# Sizes that are no whole number of blocks of 2 or 3; TVM drops what is left over.
CUT_BLOCKS = {
    "rows": (nn.space_to_depth, (1, 4, 5, 6), 2),
    "columns": (nn.space_to_depth, (1, 4, 6, 5), 2),
    "channels": (nn.depth_to_space, (1, 6, 4, 4), 2),
    "channels of whole rows": (nn.depth_to_space, (1, 12, 4, 4), 3),
}


@pytest.mark.parametrize("name", CUT_BLOCKS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_cut_blocks_stay_on_tvm(name, layout):
    move, (batch, channels, *places), size = CUT_BLOCKS[name]
    shape = (batch, channels, *places) if layout == "NCHW" else (batch, *places, channels)
    with pytest.raises(UnsupportedOpError, match=f"nn.{move.__name__}: block_size={size} of"):
        lowered(move(var("x", *shape), size, layout))


def test_adaptive_pools():
    x = var("x", 2, 17, 12, 10)
    check(relay.Tuple([nn.adaptive_avg_pool2d(x, (4, 5)), nn.adaptive_max_pool2d(x, (1, 2))]))
    check(nn.adaptive_avg_pool1d(var("x", 1, 8, 20), 1))
    check(nn.adaptive_avg_pool3d(var("x", 1, 16, 2, 4, 4), (1, 1, 1)))
    with pytest.raises(UnsupportedOpError, match="output_size"):
        lowered(nn.adaptive_avg_pool2d(x, (5, 5)))


def test_slices():
    x = var("x", 2, 6, 5, 4)
    check(nn.relu(relay.strided_slice(x, [0, 2, 1, 0], [2, 5, 4, 4])))
    check(relay.strided_slice(nn.relu(x), [1, -3], [5, -1], [1, 1], axes=[1, 2]))
    check(relay.strided_slice(x, [0, 1, 1, 1], [2, 3, -1, 2], slice_mode="size"))
    check(nn.relu(relay.strided_slice(x, [0, 0, 0, 0], [9, 9, 9, 9])))
    # A slice of the blocks that a convolution leaves, inside a block and at its border.
    out = conv_bias(var("x", 1, 8, 10, 10), channels=32)
    check(relay.strided_slice(out, [0, 16, 0, 0], [1, 32, 10, 10]))
    check(relay.strided_slice(out, [0, 3, 2, 0], [1, 20, 9, 10]))


@pytest.mark.parametrize("sections", [3, [1, 4]])
def test_split(sections):
    first, second, third = relay.split(nn.relu(var("x", 2, 6, 5)), sections, axis=1)
    check(relay.Tuple([first, relay.exp(third)]))
    check(nn.batch_matmul(second, third, transpose_b=True) if sections == 3 else relay.tanh(second))


def test_slices_of_weights_and_of_results():
    x = var("x", 4, 8)
    whole = nn.dense(x, constant(1, 12, 8))
    check(relay.Tuple([whole, relay.strided_slice(whole, [0, 4], [4, 8])]))
    check(nn.dense(x, relay.strided_slice(constant(1, 12, 8), [2, 0], [7, 8])))


def test_slices_with_steps():
    x = nn.relu(var("x", 2, 9, 8, 6))
    outputs = [
        relay.strided_slice(x, [0, 0, 0, 1], [2, 9, 8, 6], strides=[1, 1, 1, 2]),
        relay.strided_slice(x, [3, -3], [9, 5], strides=[3, 2], axes=[1, 3]),
        relay.strided_slice(x, [0, 5], [2, 8], strides=[2, 4], axes=[0, 2]),
    ]
    check(relay.Tuple(outputs))


@pytest.mark.parametrize(
    ("begin", "end", "strides"), [([0, 0], [2, 7], [1, 2]), ([1, 0], [0, 7], [-1, 1])]
)
def test_slices_with_other_steps_stay_on_tvm(begin, end, strides):
    """The axis is no whole number of steps; backwards."""
    node = relay.strided_slice(var("x", 2, 7), begin, end, strides=strides)
    with pytest.raises(UnsupportedOpError, match="strided_slice: strides="):
        lowered(node)
