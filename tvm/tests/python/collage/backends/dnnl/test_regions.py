# SPDX-License-Identifier: Apache-2.0
"""Regions of several primitives: layouts kept inside, memory reused, views, branches."""

import re

import numpy as np
from onednn_nets import check, check_all, constant
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


# Slices that begin where their source does: shape, last index of the slice.
PREFIXES = {
    "rows": ((4, 8), (2, 8)),
    "channels_of_one_image": ((1, 6, 5, 4), (1, 3, 5, 4)),
    "token_of_one_image": ((1, 7, 8), (1, 1, 8)),
    "inner_box": ((4, 8), (2, 3)),
}


def both(a, b):
    return relay.concatenate([relay.reshape(a, (-1,)), relay.reshape(b, (-1,))], axis=0)


def test_a_prefix_and_its_source_do_not_overwrite_each_other():
    bodies = {}
    for name, (shape, end) in PREFIXES.items():
        whole = relay.exp(relay.var("x", shape=shape))
        part = relay.strided_slice(whole, [0] * len(shape), end)
        bodies[name] = both(part, relay.tanh(whole))
        bodies[f"{name}, changed"] = both(relay.tanh(part), whole)
        bodies[f"{name}, both changed"] = both(relay.tanh(part), relay.log(whole))
        if name == "rows":  # a sum onto the part
            out = nn.dense(relay.var("y", shape=(2, 5)), constant(1, 8, 5)) + part
            bodies["sum"] = both(out, whole)
    check_all(bodies)


def branches():
    stem = nn.relu(conv(relay.var("x", shape=(1, 16, 12, 12)), 1, 32, 16))
    parts = [
        nn.relu(conv(stem, 2, 16, 32, 1)),
        nn.relu(conv(nn.relu(conv(stem, 3, 8, 32, 1)), 4, 24, 8)),
        nn.relu(conv(nn.max_pool2d(stem, (3, 3), padding=(1, 1)), 5, 8, 32, 1)),
    ]
    return nn.relu(conv(relay.concatenate(parts, axis=1), 6, 16, 48))


def odd_channel_counts():
    x = relay.var("x", shape=(1, 3, 15, 15))
    out = nn.relu(conv(nn.relu(conv(x, 1, 13, 3)), 2, 21, 13))
    return relay.add(out, conv(x, 3, 21, 3))


def squeeze_and_excite():
    stem = nn.relu(conv(relay.var("x", shape=(1, 16, 12, 12)), 1, 16, 16))
    gate = nn.relu(conv(nn.global_avg_pool2d(stem), 2, 4, 16, 1))
    gate = relay.sigmoid(conv(gate, 3, 16, 4, 1))
    return conv(relay.multiply(stem, gate), 4, 24, 16, 1)


def classifier_head():
    image = nn.relu(conv(relay.var("x", shape=(2, 16, 7, 7)), 1, 32, 16))
    out = nn.dense(nn.batch_flatten(nn.global_avg_pool2d(image)), constant(2, 10, 32))
    return nn.softmax(nn.bias_add(out, constant(3, 10)))


def flattened_image():
    image = nn.relu(conv(relay.var("x", shape=(2, 16, 7, 7)), 1, 20, 16))
    return nn.dense(nn.batch_flatten(image), constant(2, 10, 980))


def channels_last():
    out = relay.var("x", shape=(1, 12, 12, 8))
    layouts = dict(data_layout="NHWC", kernel_layout="HWIO")
    for seed in (1, 2):
        attrs = dict(channels=8, kernel_size=(3, 3), padding=1, **layouts)
        out = nn.conv2d(out, constant(seed, 3, 3, 8, 8), **attrs)
        out = nn.relu(relay.add(out, constant(seed + 10, 8)))
    return out


def summands():
    """One that is needed later, and one that is an output, too."""
    stem = nn.relu(conv(relay.var("x", shape=(1, 16, 9, 9)), 1, 16, 16))
    total = relay.add(conv(stem, 2, 16, 16), stem)
    return relay.multiply(total, stem), relay.Tuple([total, stem])


def test_regions_of_nets():
    later, output = summands()
    nets = (branches, odd_channel_counts, squeeze_and_excite, classifier_head, flattened_image)
    bodies = {net.__name__: net() for net in (*nets, channels_last)}
    check_all({**bodies, "a summand needed later": later, "a summand given, too": output})
