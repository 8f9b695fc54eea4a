# SPDX-License-Identifier: Apache-2.0
"""Nodes that TVM converts wrongly, each as onnxruntime computes it; and that others stay."""

import numpy as np
import pytest
from onnx import helper
from onnx_one_node import (
    RandomNodes,
    assert_alike,
    by_onnxruntime,
    by_tvm,
    failure_of_onnxruntime,
    one_node,
    with_types,
)
from tvm.relay import collage

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

X = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype("float32")
SCALES = {"s": np.array([1, 1, 1.3, 1.5], "float32")}
DOUBLE = {"s": np.array([1, 1, 2, 2], "float32")}


def resize(weights=SCALES, inputs=("x", "", "s"), **attrs):
    return helper.make_node("Resize", inputs, ["y"], **attrs), {"x": X}, weights


def node(op, *inputs, **attrs):
    return helper.make_node(op, inputs, ["y"], **attrs)


BOXES = {"r": np.array([[1, 1, 5, 5.5]], "float32"), "b": np.array([0])}
DECONV = {"w": X.reshape(2, 4, 3, 3)}
WRONG = {
    "nearest by a broken scale": resize(mode="nearest"),
    "linear by a broken scale": resize(mode="linear"),
    "nearest, asymmetric, ceil": resize(
        DOUBLE, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="ceil"
    ),
    "antialias": resize(DOUBLE, mode="linear", antialias=1),
    "axes": resize({"s": np.array([2, 2], "float32")}, mode="nearest", axes=[2, 3]),
    "aspect ratio": resize(
        {"z": np.array([7, 9])}, ("x", "", "", "z"), mode="linear", axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
    ),
    "half_pixel_symmetric": resize(
        mode="linear", coordinate_transformation_mode="half_pixel_symmetric"
    ),
    "channels last": resize({"s": np.array([1, 2, 2, 1], "float32")}, mode="linear"),
    "LpPool of 3": (node("LpPool", "x", kernel_shape=[3, 3], p=3), {"x": X}, {}),
    "RoiAlign": (
        node("RoiAlign", "x", "r", "b", output_height=3, output_width=3, sampling_ratio=2),
        {"x": X},
        BOXES,
    ),
    "dilated ConvTranspose": (node("ConvTranspose", "x", "w", dilations=[2, 2]), {"x": X}, DECONV),
    "ConvTranspose with output_shape": (
        node("ConvTranspose", "x", "w", output_shape=[13, 13], strides=[2, 2]), {"x": X}, DECONV,
    ),
    "indices below zero": (
        node("GatherND", "x", "i"), {"x": X[0, 0]}, {"i": np.array([[-1, -1], [0, -2]])},
    ),
    "indices that are an input": (
        node("GatherND", "x", "i"), {"x": X[0, 0], "i": np.array([[-1, -1], [0, -2]])}, {},
    ),
    "the largest integers' remainder": (
        node("Mod", "x", "z"), {"x": np.arange(-8, 8), "z": np.array([3] * 16)}, {},
    ),
    "Pad with axes": (
        node("Pad", "x", "p", "", "a"), {"x": X}, {"p": np.array([1, 2]), "a": np.array([3])},
    ),
}  # fmt: skip
RIGHT = {
    "nearest, twice": resize(DOUBLE, mode="nearest"),
    "linear, twice": resize(DOUBLE, mode="linear"),
    "linear to sizes": resize({"z": np.array([1, 2, 9, 11])}, ("x", "", "", "z"), mode="linear"),
    "aligned corners by a broken scale": resize(
        mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "LpPool of 2": (node("LpPool", "x", kernel_shape=[3, 3]), {"x": X}, {}),
    "ConvTranspose": (node("ConvTranspose", "x", "w", strides=[2, 2]), {"x": X}, DECONV),
    "indices from zero on": (
        node("GatherND", "x", "i"), {"x": X[0, 0]}, {"i": np.array([[1, 1], [0, 2]])},
    ),
}  # fmt: skip


def imported(made, inputs, weights):
    model = one_node(made, inputs, weights)
    expected = by_onnxruntime(model, inputs)
    return collage.from_onnx(with_types(model, expected))[0], expected


def is_opaque(mod):
    return "collage.onnx_node" in mod.astext(show_meta_data=False)


@pytest.mark.parametrize("name", WRONG)
def test_onnxruntime_computes_what_tvm_would_get_wrong(name):
    mod, expected = imported(*WRONG[name])
    assert is_opaque(mod)
    assert_alike(by_tvm(mod, WRONG[name][1]), expected)


@pytest.mark.parametrize("name", RIGHT)
def test_what_tvm_gets_right_stays_with_it(name):
    mod, expected = imported(*RIGHT[name])
    assert not is_opaque(mod)
    assert_alike(by_tvm(mod, RIGHT[name][1]), expected)


def random_nodes(seed, count):
    nodes, wrong = RandomNodes(seed), []
    for _ in range(count):
        made, inputs, weights = nodes.next()
        model = one_node(made, inputs, weights)
        if failure_of_onnxruntime(model, inputs):
            continue
        mod, expected = imported(made, inputs, weights)
        try:
            assert_alike(by_tvm(mod, inputs), expected)
        except Exception as error:  # noqa: BLE001 - of whatever kind
            wrong.append(f"{helper.printable_node(made)} {weights}: {error}")
    return wrong


def test_random_nodes():
    assert random_nodes(1, 16) == []


@pytest.mark.slow("300 of what a quick test does with 16")
@pytest.mark.timeout(1200)
def test_many_random_nodes():
    assert random_nodes(2, 300) == []
