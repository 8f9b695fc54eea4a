# SPDX-License-Identifier: Apache-2.0
"""No primitive is oneDNN's reference code where another form of the same has a kernel."""

import pytest
from onednn_nets import check, constant, needs_avx512
from tvm import relay
from tvm.relay import nn

SHAPE = (2, 20, 6, 5)
# What a second operand may have of the axes of SHAPE. That it has each other one is refused.
BROADCASTS = [
    tuple(extent if keep >> axis & 1 else 1 for axis, extent in enumerate(SHAPE))
    for keep in range(1, 16)
    if keep not in (0b0101, 0b1010)
]


def x(*shape, name="x"):
    return relay.var(name, shape=shape or SHAPE)


def conv(data, channels=20, groups=1):
    weights = constant(1, channels, 20 // groups, 3, 3)
    attrs = dict(channels=channels, kernel_size=(3, 3), padding=1, groups=groups)
    return nn.conv2d(data, weights, **attrs)


LAYOUTS = {
    "rows": relay.exp,
    "behind a convolution": lambda data: relay.tanh(conv(data)),
    "behind channels by themselves": lambda data: relay.tanh(conv(data, groups=20)),
    "transposed": lambda data: relay.transpose(relay.exp(data), [0, 1, 3, 2]),
}


def assert_kernels(*outputs):
    plan = check(relay.Tuple(list(outputs)))
    assert not [line for line in plan.splitlines() if "(reference code)" in line or "ref:" in line]
    return plan


@pytest.mark.parametrize("layout", LAYOUTS)
def test_binary_with_each_broadcast(layout):
    data = LAYOUTS[layout](x())
    shape = (2, 20, 5, 6) if layout == "transposed" else SHAPE
    outputs = [data]
    for i, broadcast in enumerate(BROADCASTS):
        dims = [n if keep > 1 else 1 for n, keep in zip(shape, broadcast)]
        op = (relay.subtract, relay.multiply, relay.maximum)[i % 3]
        outputs.append(op(data, x(*dims, name=f"y{i}")))
    assert_kernels(*outputs)


def test_binary_of_more_axes():
    data = relay.exp(x(2, 3, 4, 5, 6))
    other = x(2, 1, 1, 5, 6, name="y")
    rows = relay.exp(x(3, 7, 9, name="rows"))
    of_each = relay.sum(rows, axis=-1, keepdims=True)
    assert_kernels(data * x(1, 3, 4, 1, 1, name="z"), data + other, nn.relu(rows / of_each))


@pytest.mark.parametrize(
    "channels, groups", [(20, 20), (64, 64), pytest.param(20, 5, marks=needs_avx512), (64, 4)]
)
def test_groups_along_one_axis(channels, groups):
    """oneDNN's product of matrices took 180 us for what a kernel does in 7."""

    def conv1d(data, taps, **attrs):
        weights = constant(1, channels, channels // groups, taps)
        attrs |= dict(channels=channels, kernel_size=taps, groups=groups)
        return nn.conv1d(data, weights, **attrs)

    data, gate = x(2, channels, 33), x(2, channels, 33, name="gate")

    def biased():
        return nn.bias_add(conv1d(data, 9, padding=4), constant(3, channels))

    scaled = nn.relu(biased()) * x(1, channels, 1, name="scale")
    rows_last = relay.transpose(x(2, 33, channels, name="rows"), [0, 2, 1])
    plan = assert_kernels(
        nn.relu(biased() + gate),
        biased() * relay.sigmoid(gate),
        conv1d(scaled, 3, padding=(0, 2), dilation=2, strides=2),
        relay.transpose(conv1d(rows_last, 5, padding=2), [0, 2, 1]),
    )
    assert plan.count("conv ") == 5 and "gemm" not in plan


def test_operands_behind_a_convolution():
    """As gates are: another layout than the convolution's own made its code the reference's."""
    data, gate = x(), x(name="gate")
    several = nn.relu(relay.exp(conv(data)) * gate) - x(name="z")
    plan = assert_kernels(
        conv(data) * gate,
        relay.sigmoid(conv(data)) - gate,
        several,
        relay.maximum(conv(data, groups=20), gate) * x(1, 20, 1, 1, name="channels"),
    )
    assert plan.count("binary") <= 4


@pytest.mark.parametrize("op", [nn.softmax, nn.log_softmax])
def test_softmax_over_each_axis(op):
    data = x()
    images = [make(data) for make in LAYOUTS.values()]
    assert_kernels(*(op(image, axis=axis) for image in images for axis in range(4)))


def test_pools_of_few_channels_and_lines_and_of_bytes():
    data = relay.var("x", shape=(1, 20, 9, 8), dtype="int8")
    assert_kernels(relay.cast(nn.max_pool2d(data, (3, 3), (2, 2)), "float32"))
    image, line = x(1, 3, 9, 8, name="image"), x(2, 7, 20, name="line")
    plan = assert_kernels(
        nn.max_pool2d(image, (3, 3), (2, 2), padding=1),
        nn.avg_pool2d(image, (3, 3), count_include_pad=True, padding=1),
        nn.global_avg_pool2d(image),
        nn.max_pool1d(line, (3,), (2,)),
        nn.avg_pool1d(line, (3,)),
    )
    assert "simple_nchw" not in plan


def test_reference_code_is_marked():
    """One operand in another layout: this concat is a reorder for each, which oneDNN calls so."""
    data = x(1, 20, 6, 5)
    plan = check(relay.concatenate([relay.tanh(conv(data)), data], axis=1))
    assert [line.split()[0] for line in plan.splitlines() if "(reference code)" in line] == [
        "concat"
    ]


def test_concat_of_a_few_channels():
    """Pieces below 512 bytes, channels last, of single numbers too; others are oneDNN's."""
    image, line = x(2, 8, 6, 5, name="image"), x(2, 7, 20, name="line")
    weights = constant(1, 8, 1, 3, 3)
    attrs = dict(channels=8, kernel_size=(3, 3), padding=1, groups=8)
    first = nn.conv2d(image, weights, **attrs)
    second = relay.tanh(nn.conv2d(relay.tanh(first), weights, **attrs))
    parts = [relay.tanh(line), line]
    plan = assert_kernels(
        relay.concatenate([first, second, relay.exp(second)], axis=1),
        relay.concatenate(parts, axis=2),
        relay.concatenate([relay.strided_slice(line, [0, 0, 0], [2, 7, 3]), line], axis=2),
        relay.concatenate([relay.expand_dims(each, 3) for each in parts], axis=3),
        relay.concatenate([x(2, 7, 61, name="odd"), line, x(2, 7, 33, name="odd2")], axis=2),
        relay.concatenate([x(2, 7, 150, name="long"), line], axis=2),
    )
    assert plan.count("by copies") == 5
