# SPDX-License-Identifier: Apache-2.0
"""Padding before a window and broadcasting before an operator that broadcasts are left out, where
the results are the same; everything else stays as it is."""

import numpy as np
import pytest
import tvm
from onednn_nets import random_inputs, run
from relay_text import module_of, plain_host
from tvm import relay
from tvm.relay.collage.compile import build_library, prepare

LOWEST = float(np.finfo("float32").min)
SHAPE = (1, 4, 6, 6)


def image():
    return relay.var("x", shape=SHAPE)


def weights(*shape):
    return relay.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def padded(value, rows, columns=None, by=0.0, channels=(0, 0), **more):
    return relay.nn.pad(value, ((0, 0), channels, rows, columns or rows), by, **more)


def conv(value, padding=0, **more):
    return relay.nn.conv2d(value, weights(2, 4, 3, 3), padding=padding, kernel_size=(3, 3), **more)


def prepared(*values):
    return prepare(module_of(values[0] if len(values) == 1 else relay.Tuple(values)))


def assert_becomes(before, after):
    tvm.ir.assert_structural_equal(prepared(before)["main"], module_of(after)["main"])


def test_results_are_the_same_bit_for_bit():
    x = image()
    pools = {"strides": (2, 2), "pool_size": (3, 3)}
    outputs = [
        conv(padded(x, (1, 2), (0, 1)), padding=(0, 1)),
        relay.nn.max_pool2d(padded(x, (1, 0), by=LOWEST), **pools),
        relay.nn.avg_pool2d(padded(x, (1, 1)), **pools),
        relay.nn.avg_pool2d(padded(x, (1, 1)), padding=1, count_include_pad=True, **pools),
        padded(x, (0, 0)),
        relay.broadcast_to(relay.sum(x, 3, True), SHAPE) / relay.broadcast_to(x, SHAPE),
    ]
    before = module_of(relay.Tuple(outputs))
    after = prepare(before)
    assert "nn.pad" not in str(after) and "broadcast_to" not in str(after)
    inputs = random_inputs(before["main"])
    wanted, got = (run(build_library(mod, plain_host()), inputs) for mod in (before, after))
    for one, other in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lines_volumes_and_other_layouts():
    line, volume = relay.var("x", shape=(1, 4, 6)), relay.var("x", shape=(1, 4, 6, 6, 6))
    w1, w3 = weights(2, 4, 3), weights(2, 4, 3, 3, 3)
    before = relay.nn.pad(line, ((0, 0), (0, 0), (2, 0)))
    assert_becomes(
        relay.nn.conv1d(before, w1, kernel_size=(3,)),
        relay.nn.conv1d(line, w1, padding=(2, 0), kernel_size=(3,)),
    )
    before = relay.nn.pad(volume, ((0, 0), (0, 0), (1, 2), (3, 4), (5, 6)))
    assert_becomes(
        relay.nn.conv3d(before, w3, kernel_size=(3, 3, 3)),
        relay.nn.conv3d(volume, w3, padding=(1, 3, 5, 2, 4, 6), kernel_size=(3, 3, 3)),
    )
    x, hwio = relay.var("x", shape=(1, 6, 6, 4)), weights(3, 3, 4, 2)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", "kernel_size": (3, 3)}
    before = relay.nn.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)))
    assert_becomes(
        relay.nn.conv2d(before, hwio, **layouts),
        relay.nn.conv2d(x, hwio, padding=(1, 0, 0, 2), **layouts),
    )


def quantised(zero_point, by):
    x = relay.var("x", shape=(1, 4, 6, 6), dtype="uint8")
    kernel = relay.const(np.ones((2, 4, 3, 3), "int8"))
    numbers = [relay.const(n, "int32") for n in (zero_point, 0)]
    scales = [relay.const(s, "float32") for s in (0.5, 0.25)]
    value = relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), relay.const(by, "uint8"))
    return relay.qnn.op.conv2d(value, kernel, *numbers, *scales, (3, 3), 2)


@pytest.mark.parametrize("by", [7, 0])
def test_bytes_are_padded_with_the_zero_point(by):
    assert ("nn.pad" in str(prepared(quantised(7, by)))) == (by != 7)


POOL = {"pool_size": (3, 3)}
STAYS = {
    "another number": lambda x: conv(padded(x, (1, 1), by=1.0)),
    "an unknown number": lambda x: conv(padded(x, (1, 1), by=relay.var("by", shape=()))),
    "edges": lambda x: conv(padded(x, (1, 1), pad_mode="edge")),
    "channels": lambda x: relay.nn.conv2d(
        padded(x, (1, 1), channels=(0, 1)), weights(2, 5, 3, 3), kernel_size=(3, 3)
    ),
    "cut off": lambda x: conv(padded(x, (-1, 1))),
    "a maximum with zeros": lambda x: relay.nn.max_pool2d(padded(x, (1, 1)), **POOL),
    "a mean of some": lambda x: relay.nn.avg_pool2d(
        padded(x, (1, 1)), padding=1, count_include_pad=False, **POOL
    ),
    "a mean beyond the end": lambda x: relay.nn.avg_pool2d(
        padded(x, (1, 1)), strides=(2, 2), ceil_mode=True, **POOL
    ),
    "no window": lambda x: relay.nn.relu(padded(x, (1, 1))),
    "a transposed convolution": lambda x: relay.nn.conv2d_transpose(
        padded(x, (1, 1)), weights(4, 2, 3, 3), kernel_size=(3, 3)
    ),
    "a shape that is made": lambda x: x + relay.broadcast_to(relay.sigmoid(x), (3, 4, 6, 6)),
    "no operator that broadcasts": lambda x: relay.nn.relu(relay.broadcast_to(x, (2, 4, 6, 6))),
}


@pytest.mark.parametrize("case", STAYS)
def test_stays_as_it_is(case):
    mod = module_of(STAYS[case](image()))
    assert_becomes(mod["main"].body, mod["main"].body)


def test_other_readers_get_the_padded_value():
    """So does the model's output; two operands that broadcast each other keep one."""
    x, s = image(), relay.var("s", shape=(4, 1, 1))
    value = padded(x, (1, 1))
    text = str(prepared(conv(value), value, relay.nn.relu(value)))
    assert text.count("nn.pad(") == 1 and "nn.conv2d(%x," in text
    both = [relay.broadcast_to(each, (2, 4, 6, 6)) for each in (x, s)]
    assert str(prepared(relay.add(*both))).count("broadcast_to") == 1


def test_open_shapes_and_blocked_layouts_stay():
    x = relay.var("x", relay.TensorType((relay.Any(), 4, 6, 6), "float32"))
    wide = relay.broadcast_to(relay.var("s", shape=(4, 1, 1)), (1, 4, 6, 6))
    assert "broadcast_to" in str(prepared(x * wide))
    blocked = relay.var("x", shape=(1, 1, 6, 6, 4))
    value = relay.nn.pad(blocked, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
    pool = relay.nn.max_pool2d(value, layout="NCHW4c", **POOL)
    assert "nn.pad" in str(prepared(pool))
