# SPDX-License-Identifier: Apache-2.0
"""Reductions on oneDNN: right over any axes of any layout, and never by its reference code."""

import numpy as np
import pytest
from onednn_nets import build, check, check_all, constant, function_of, hand_placed, run
from tvm import relay
from tvm.relay import nn

AXES = [[2, 3], [1], [3], [2], [1, 2, 3], [0], [1, 2], [0, 2, 3], [0, 1, 2, 3]]


def image(*shape):
    return relay.var("x", shape=shape or (2, 32, 9, 7))


def conv(data, channels=32, window=3, seed=1):
    weights = constant(seed, channels, 32, window, window)
    size = (window, window)
    return nn.conv2d(data, weights, channels=channels, kernel_size=size, padding=window // 2)


@pytest.mark.parametrize("op", [relay.mean, relay.sum, relay.max, relay.min])
def test_reductions(op):
    """Of rows; behind a convolution, whose result lies in blocks of channels, for which oneDNN has
    no reduction; of six axes as in Hiera: its reference code took 68 ms; of channels that come
    last."""

    def each(data):
        """The data and each of the reductions, with and without ones."""
        some = [op(data, axis=axes, keepdims=i % 2 == 0) for i, axes in enumerate(AXES)]
        return relay.Tuple([data, *some])

    six = image(1, 2, 7, 4, 3, 16)
    bodies = {
        "rows": each(nn.relu(image())),
        "convolution": each(conv(image())),
        "six axes": op(six, axis=[3], keepdims=True),
        "two of six": op(nn.relu(six), axis=[2, 4]),
        "channels last": op(nn.relu(image(1, 50, 32)), axis=[1]),
        "an image with channels last": op(nn.relu(image(2, 7, 5, 32)), axis=[1, 2]),
    }
    assert not any("ref:" in plan for plan in check_all(bodies).values())


def test_a_mean_over_an_image_moves_no_data():
    """As in each squeeze-and-excite block: read where the convolution left it."""
    data = conv(image(1, 32, 9, 7), window=1)
    scale = conv(relay.mean(data, axis=[2, 3], keepdims=True), window=1, seed=2)
    plan = check(data * relay.sigmoid(scale))
    steps = [line.split()[0] for line in plan.splitlines() if " by " in line]
    assert steps[steps.index("reduce") - 1] == "conv"
    assert "ref:" not in plan


def test_values_that_are_no_numbers_stay():
    """A mean by pooling, as one by reduction, keeps NaN and infinities."""
    identity = relay.const(np.eye(32, dtype="float32")[:, :, None, None])
    data = nn.conv2d(image(1, 32, 3, 3), identity, channels=32, kernel_size=(1, 1))
    library = build(hand_placed(function_of(relay.mean(data, axis=[2, 3]))))
    values = np.ones((1, 32, 3, 3), "float32")
    values[0, :, 1, 1] = np.nan
    (got,) = run(library, {"x": values})
    assert np.isnan(got).all()
