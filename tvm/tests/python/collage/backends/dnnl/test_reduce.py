# SPDX-License-Identifier: Apache-2.0
"""Reductions on oneDNN: right over any axes of any layout, and never by its reference code."""

import numpy as np
import pytest
from onednn_nets import build, constant, function_of, hand_placed, plan_of, run
from tvm import relay
from tvm.relay import nn

OPS = {"mean": np.mean, "sum": np.sum, "max": np.max, "min": np.min}
AXES = [[2, 3], [1], [3], [2], [1, 2, 3], [0], [1, 2], [0, 2, 3], [0, 1, 2, 3]]


def reductions(data, op):
    """Return a function that gives the data and each of the reductions, with and without ones."""
    reduce = getattr(relay, op)
    some = [reduce(data, axis=axes, keepdims=i % 2 == 0) for i, axes in enumerate(AXES)]
    return function_of(relay.Tuple([data, *some]))


def check(data, op):
    """Compare each reduction with numpy's of the data as oneDNN gives them; return the plan."""
    function = reductions(data, op)
    library = build(hand_placed(function))
    x = np.random.default_rng(0).standard_normal((2, 32, 9, 7)).astype("float32")
    given, *found = run(library, {"x": x})
    for i, (axes, got) in enumerate(zip(AXES, found)):
        wanted = OPS[op](given.astype("float64"), axis=tuple(axes), keepdims=i % 2 == 0)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(given).max())
    return plan_of(library)


@pytest.mark.parametrize("op", OPS)
def test_rows_of_numbers(op):
    assert "ref:" not in check(nn.relu(relay.var("x", shape=(2, 32, 9, 7))), op)


@pytest.mark.parametrize("op", OPS)
def test_behind_a_convolution(op):
    """Whose result lies in blocks of channels, for which oneDNN has no reduction."""
    x = relay.var("x", shape=(2, 32, 9, 7))
    data = nn.conv2d(x, constant(1, 32, 32, 3, 3), padding=1, channels=32, kernel_size=(3, 3))
    plan = check(data, op)
    assert "ref:" not in plan


@pytest.mark.parametrize("op", OPS)
def test_six_axes(op):
    """As in Hiera: oneDNN has kernels for five, and its reference code took 68 ms."""
    x = relay.var("x", shape=(1, 2, 7, 4, 3, 16))
    reduce = getattr(relay, op)
    one, two = reduce(x, axis=[3], keepdims=True), reduce(nn.relu(x), axis=[2, 4])
    library = build(hand_placed(function_of(relay.Tuple([one, two]))))
    data = np.random.default_rng(0).standard_normal((1, 2, 7, 4, 3, 16)).astype("float32")
    found = run(library, {"x": data})
    np.testing.assert_allclose(found[0], OPS[op](data, axis=3, keepdims=True), 1e-5, 1e-5)
    np.testing.assert_allclose(found[1], OPS[op](np.maximum(data, 0), axis=(2, 4)), 1e-5, 1e-5)
    assert "ref:" not in plan_of(library)


def test_a_mean_over_an_image_moves_no_data():
    """As in each squeeze-and-excite block: read where the convolution left it."""
    x = relay.var("x", shape=(1, 32, 9, 7))
    data = nn.conv2d(x, constant(1, 32, 32, 1, 1), channels=32, kernel_size=(1, 1))
    squeezed = relay.mean(data, axis=[2, 3], keepdims=True)
    scale = nn.conv2d(squeezed, constant(2, 32, 32, 1, 1), channels=32, kernel_size=(1, 1))
    library = build(hand_placed(function_of(data * relay.sigmoid(scale))))
    run(library, {"x": np.ones((1, 32, 9, 7), "float32")})  # which plans it
    steps = [line.split()[0] for line in plan_of(library).splitlines() if " by " in line]
    assert steps[steps.index("reduce") - 1] == "conv"
    assert "ref:" not in plan_of(library)


@pytest.mark.parametrize("shape, axes", [((1, 50, 32), [1]), ((2, 7, 5, 32), [1, 2])])
def test_channels_that_come_last(shape, axes):
    x = relay.var("x", shape=shape)
    library = build(hand_placed(function_of(relay.mean(nn.relu(x), axis=axes))))
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    (got,) = run(library, {"x": data})
    np.testing.assert_allclose(got, np.maximum(data, 0).mean(tuple(axes)), rtol=1e-5, atol=1e-6)
    assert "ref:" not in plan_of(library)


def test_values_that_are_no_numbers_stay():
    """A mean by pooling, as one by reduction, keeps NaN and infinities."""
    x = relay.var("x", shape=(1, 32, 3, 3))
    data = nn.conv2d(
        x,
        relay.const(np.eye(32, dtype="float32")[:, :, None, None]),
        channels=32,
        kernel_size=(1, 1),
    )
    library = build(hand_placed(function_of(relay.mean(data, axis=[2, 3]))))
    image = np.ones((1, 32, 3, 3), "float32")
    image[0, :, 1, 1] = np.nan
    (got,) = run(library, {"x": image})
    assert np.isnan(got).all()
