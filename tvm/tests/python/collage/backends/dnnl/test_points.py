# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions of a single point are dense layers; others stay what they are."""

import numpy as np
import pytest
from onednn_nets import check_all, constant, function_of, hand_placed
from tvm import relay
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.backends.dnnl.kernels import kernel_steps
from tvm.relay.collage.costs.kernel import KernelChoice, choices_of

nn = relay.nn


def conv2d(data, weights, channels, kernel, **attrs):
    return nn.conv2d_transpose(data, weights, channels=channels, kernel_size=kernel, **attrs)


def image(channels, *extents, batch=1):
    return relay.var("x", shape=(batch, channels, *extents))


def square(inputs=6, outputs=5, kernel=4, **attrs):
    batch, rows = attrs.pop("batch", 1), attrs.pop("rows", 1)
    weights = constant(1, inputs, outputs, kernel, kernel)
    return conv2d(image(inputs, rows, 1, batch=batch), weights, outputs, (kernel, kernel), **attrs)


def channels_last():
    data = relay.var("x", shape=(2, 1, 1, 6))
    layouts = dict(data_layout="NHWC", kernel_layout="HWOI")
    return conv2d(data, constant(1, 3, 2, 5, 6), 5, (3, 2), **layouts)


# What follows a step of 1 is taken in; what follows a larger one runs behind.
POINTS = {
    "as generators begin": nn.relu(square(100, 32) * constant(2, 32, 1, 1) + constant(3, 32, 1, 1)),
    "a batch": nn.bias_add(square(batch=5), constant(2, 5)),
    "one channel to one": square(1, 1),
    "strides": nn.relu(nn.bias_add(square(strides=(2, 3)), constant(2, 5))),
    "padding": nn.bias_add(square(padding=(1, 0, 2, 1)), constant(2, 5)),
    "padding to one number": square(kernel=3, padding=(1, 1)),
    "output padding inside": square(strides=(2, 2), padding=(1, 1), output_padding=(1, 1)),
    "line": nn.conv1d_transpose(image(6, 1), constant(1, 6, 5, 4), channels=5, kernel_size=(4,)),
    "volume": nn.conv3d_transpose(
        image(4, 1, 1, 1), constant(1, 4, 3, 2, 3, 1), channels=3, kernel_size=(2, 3, 1)
    ),
}


def test_a_point_is_a_dense_layer():
    for name, plan in check_all(POINTS).items():
        assert plan.count("inner_product") == 1 and "deconv" not in plan, name


def test_channels_last_by_numpy():
    """TVM's own takes plain layouts alone, so numpy says what is right."""
    function = hand_placed(function_of(channels_last()))["dnnl_part"]
    graph = lower_function(function)
    (product,) = [node for node in graph.nodes if node.op == "inner_product"]
    weights = constant(1, 3, 2, 5, 6).data.numpy()
    packed = graph.constants[product.inputs[1]].numpy()
    data = np.random.default_rng(0).standard_normal((2, 6)).astype("float32")
    expected = np.einsum("hwoi,ni->nhwo", weights, data)
    np.testing.assert_allclose((data @ packed.T).reshape(2, 3, 2, 5), expected, rtol=1e-4)


OTHERS = {
    "more than a point": square(rows=2),
    "numbers beyond the window": square(strides=(2, 2), output_padding=(1, 1)),
    "weights of the caller": conv2d(image(6, 1, 1), relay.var("w", shape=(6, 5, 4, 4)), 5, (4, 4)),
    "a sum": square() + relay.var("y", shape=(1, 5, 4, 4)),
}


def test_others_stay_convolutions():
    assert all("deconv" in plan for plan in check_all(OTHERS).values())


@pytest.mark.parametrize("name", ["padding", "a batch"])
def test_what_was_measured_for_a_point_is_found_for_its_part(name):
    """By sizes that its function has, of which the lowered weights are none."""
    function = hand_placed(function_of(POINTS[name]))["dnnl_part"]
    [step] = kernel_steps(lower_function(function))
    choice = KernelChoice("dnnl", step.key, step.label, tuple(step.sizes), step.kernels[-1], ())
    assert choices_of(function, [choice]) == [choice]
