# SPDX-License-Identifier: Apache-2.0
"""Regions of several primitives: layouts kept inside, memory reused, views, branches."""

import re

import numpy as np
import pytest
from onednn_nets import check, constant
from tvm import relay

nn = relay.nn


def conv(data, seed, channels, in_channels, kernel=3, strides=1):
    weight = constant(seed, channels, in_channels, kernel, kernel)
    weight = relay.const(weight.data.numpy() / np.float32(np.sqrt(in_channels * kernel * kernel)))
    out = nn.conv2d(
        data, weight, channels=channels, kernel_size=(kernel, kernel), padding=kernel // 2,
        strides=strides,
    )  # fmt: skip
    return relay.add(out, constant(seed + 50, channels, 1, 1))


def bottleneck(x, seed, channels, width, strides=1, project=False):
    out = nn.relu(conv(x, seed, width, channels, 1))
    out = nn.relu(conv(out, seed + 1, width, width, 3, strides))
    out = conv(out, seed + 2, channels * (2 if project else 1), width, 1)
    shortcut = conv(x, seed + 3, channels * 2, channels, 1, strides) if project else x
    return nn.relu(relay.add(out, shortcut))


def arena_bytes(plan) -> int:
    return int(re.search(r"arena (\d+) bytes", plan).group(1))


def test_reorders_only_at_the_border():
    x = relay.var("x", shape=(1, 16, 28, 28))
    out = x
    for i in range(6):
        out = nn.relu(conv(out, 10 * i, 16, 16))
    plan = check(out)
    assert plan.count("reorder") <= 2, plan
    # Six results of 50 kB in two places.
    assert arena_bytes(plan) < 3 * 4 * 16 * 28 * 28


def test_residual_blocks_sum_in_place():
    x = relay.var("x", shape=(1, 32, 14, 14))
    out = nn.relu(conv(x, 1, 32, 32))
    out = bottleneck(out, 10, 32, 16)
    out = bottleneck(out, 20, 32, 16, strides=2, project=True)
    out = bottleneck(out, 30, 64, 16)
    plan = check(out)
    assert plan.count("+ sum + relu") == 3, plan
    assert plan.count("reorder") <= 2, plan


def test_summand_that_is_needed_later():
    x = relay.var("x", shape=(1, 16, 9, 9))
    stem = nn.relu(conv(x, 1, 16, 16))
    out = relay.add(conv(stem, 2, 16, 16), stem)
    check(relay.multiply(out, stem))


def test_summand_that_is_an_output_too():
    x = relay.var("x", shape=(1, 16, 9, 9))
    stem = nn.relu(conv(x, 1, 16, 16))
    check(relay.Tuple([relay.add(conv(stem, 2, 16, 16), stem), stem]))


# Slices that begin where their source does: shape, last index of the slice.
PREFIXES = {
    "rows": ((4, 8), (2, 8)),
    "channels_of_one_image": ((1, 6, 5, 4), (1, 3, 5, 4)),
    "token_of_one_image": ((1, 7, 8), (1, 1, 8)),
    "inner_box": ((4, 8), (2, 3)),
}


def both(a, b):
    return relay.concatenate([relay.reshape(a, (-1,)), relay.reshape(b, (-1,))], axis=0)


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_and_its_source_do_not_overwrite_each_other(name):
    shape, end = PREFIXES[name]
    whole = relay.exp(relay.var("x", shape=shape))
    part = relay.strided_slice(whole, [0] * len(shape), end)
    check(both(part, relay.tanh(whole)))
    check(both(relay.tanh(part), whole))
    check(both(relay.tanh(part), relay.log(whole)))


def test_a_sum_onto_a_prefix_leaves_its_source():
    whole = relay.exp(relay.var("x", shape=(4, 8)))
    part = relay.strided_slice(whole, [0, 0], [2, 8])
    out = nn.dense(relay.var("y", shape=(2, 5)), constant(1, 8, 5)) + part
    check(both(out, whole))


def test_branches_and_concatenation():
    x = relay.var("x", shape=(1, 16, 12, 12))
    stem = nn.relu(conv(x, 1, 32, 16))
    branches = [
        nn.relu(conv(stem, 2, 16, 32, 1)),
        nn.relu(conv(nn.relu(conv(stem, 3, 8, 32, 1)), 4, 24, 8)),
        nn.relu(conv(nn.max_pool2d(stem, (3, 3), padding=(1, 1)), 5, 8, 32, 1)),
    ]
    check(nn.relu(conv(relay.concatenate(branches, axis=1), 6, 16, 48)))


def test_odd_channel_counts():
    x = relay.var("x", shape=(1, 3, 15, 15))
    out = nn.relu(conv(x, 1, 13, 3))
    out = nn.relu(conv(out, 2, 21, 13))
    check(relay.add(out, conv(x, 3, 21, 3)))


def test_squeeze_and_excite():
    x = relay.var("x", shape=(1, 16, 12, 12))
    stem = nn.relu(conv(x, 1, 16, 16))
    gate = nn.relu(conv(nn.global_avg_pool2d(stem), 2, 4, 16, 1))
    gate = relay.sigmoid(conv(gate, 3, 16, 4, 1))
    check(conv(relay.multiply(stem, gate), 4, 24, 16, 1))


def test_classifier_head():
    x = relay.var("x", shape=(2, 16, 7, 7))
    out = nn.batch_flatten(nn.global_avg_pool2d(nn.relu(conv(x, 1, 32, 16))))
    out = nn.bias_add(nn.dense(out, constant(2, 10, 32)), constant(3, 10))
    check(nn.softmax(out))


def test_flatten_of_an_image():
    x = relay.var("x", shape=(2, 16, 7, 7))
    out = nn.batch_flatten(nn.relu(conv(x, 1, 20, 16)))
    check(nn.dense(out, constant(2, 10, 980)))


def test_attention():
    x = relay.var("x", shape=(8, 16))

    def heads(seed):
        out = relay.reshape(nn.dense(x, constant(seed, 16, 16)), (8, 2, 8))
        return relay.transpose(out, (1, 0, 2))

    scores = nn.batch_matmul(heads(1), heads(2)) * relay.const(0.35)
    mixed = nn.batch_matmul(nn.softmax(scores), heads(3), transpose_b=False)
    out = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (8, 16))
    check(relay.add(nn.dense(out, constant(4, 16, 16)), x))


def test_layer_norm_without_reference_code():
    x = relay.var("x", shape=(1, 40, 24))
    centred = x - relay.mean(x, axis=[-1], keepdims=True)
    variance = relay.mean(centred * centred, axis=[-1], keepdims=True)
    out = centred * relay.rsqrt(variance + relay.const(1e-5))
    assert "ref:" not in check(out * constant(1, 24) + constant(2, 24))


def test_channels_last_region():
    x = relay.var("x", shape=(1, 12, 12, 8))
    out = x
    for seed in (1, 2):
        out = nn.conv2d(
            out, constant(seed, 3, 3, 8, 8), channels=8, kernel_size=(3, 3), padding=1,
            data_layout="NHWC", kernel_layout="HWIO",
        )  # fmt: skip
        out = nn.relu(relay.add(out, constant(seed + 10, 8)))
    check(out)
