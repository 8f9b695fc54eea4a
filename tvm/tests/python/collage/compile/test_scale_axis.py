# SPDX-License-Identifier: Apache-2.0
"""Scales are folded into weights where they are known, and only there."""

import numpy as np
import pytest
import tvm
from onednn_nets import assert_close, constant, function_of, random_inputs, reference
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.compile.scale_axis import fence_products, remove_fences
from tvm.relay.collage.relay_util.walk import operator_calls

nn = relay.nn


def x(name="x"):
    return relay.var(name, shape=(1, 8))


def image():
    return relay.var("image", shape=(1, 4, 6, 6))


def conv(data):
    return nn.conv2d(data, constant(1, 4, 4, 3, 3), channels=4, kernel_size=(3, 3), padding=1)


def gate():
    return nn.dense(x(), constant(1, 8, 8)) * nn.dense(x("y"), constant(2, 8, 8))


def gated(data):
    """Squeeze and excite: a factor for each channel, known at run time only."""
    return data * relay.sigmoid(relay.mean(data, axis=[2, 3], keepdims=True))


def swish(data):
    return data * relay.sigmoid(data)


HARMFUL = {
    "product of layers": gate,
    "factor from outside": lambda: nn.dense(x(), constant(1, 8, 8)) * x("scale"),
    "of a convolution": lambda: conv(image()) * relay.var("scale", shape=(4, 1, 1)),
    "in front of a convolution": lambda: conv(gated(image())),
    "swish of a vector": lambda: nn.dense(swish(x()), constant(1, 8, 8)),
    "behind an activation": lambda: conv(nn.relu(gated(image()))),
}
HARMLESS = {
    "known scale": lambda: conv(image()) * constant(2, 4, 1, 1),
    "no product": lambda: conv(relay.exp(image())),
    "weights from outside": lambda: nn.dense(x(), relay.var("w", shape=(8, 8))) * constant(1, 1, 8),
}


def typed(make):
    return relay.transform.InferType()(tvm.IRModule.from_expr(function_of(make())))


@pytest.mark.parametrize("name", HARMFUL)
def test_fences_are_removed_without_a_trace(name):
    mod = typed(HARMFUL[name])
    fenced = mod.clone()
    assert fence_products(fenced)
    assert "compiler_begin" in fenced.astext()
    assert remove_fences(fenced)
    assert tvm.ir.structural_equal(fenced, mod)


@pytest.mark.parametrize("name", HARMLESS)
def test_other_modules_are_left_to_the_pass(name):
    mod = typed(HARMLESS[name])
    before = mod["main"]
    assert not fence_products(mod)
    assert mod["main"].same_as(before)


def test_a_users_own_annotations_stay():
    mod = typed(lambda: relay.annotation.compiler_begin(x() * x("y"), "theirs"))
    fenced = mod.clone()
    assert fence_products(fenced) and remove_fences(fenced)
    assert tvm.ir.structural_equal(fenced, mod)


def weights_of(mod):
    layers = ("nn.dense", "nn.conv2d")
    return [call.args[1] for call in operator_calls(mod) if call.op.name in layers]


@pytest.mark.parametrize("name", HARMFUL)
def test_weights_stay_constants_and_outputs_right(name):
    function = function_of(HARMFUL[name]())
    mod = prepare(tvm.IRModule.from_expr(function), None, "llvm")
    assert all(isinstance(weight, relay.Constant) for weight in weights_of(mod))
    inputs = random_inputs(function)
    module = graph_executor.GraphModule(build_library(mod, "llvm")["default"](tvm.cpu()))
    module.run(**inputs)
    assert_close([module.get_output(0).numpy()], reference(function, inputs))


def test_a_known_scale_is_folded_still():
    mod = prepare(tvm.IRModule.from_expr(function_of(HARMLESS["known scale"]())), None, "llvm")
    assert "multiply" not in mod["main"].astext(show_meta_data=False)


def test_a_known_scale_is_folded_beside_a_gate():
    """As in pre-activation nets with squeeze-and-excite: only what is unknown stays."""
    body = conv(gated(conv(image() * constant(2, 4, 1, 1))))
    mod = prepare(tvm.IRModule.from_expr(function_of(body)), None, "llvm")
    assert mod["main"].astext(show_meta_data=False).count("multiply(") == 1
    assert all(isinstance(weight, relay.Constant) for weight in weights_of(mod))


@pytest.mark.parametrize("half", [0.5, [0.5], [[[0.5]]]])
def test_a_gelu_keeps_its_half(half):
    """Its half would be in the weights behind it, and what is left is a GELU that nobody knows."""
    data = conv(image())
    scaled = data * (relay.erf(data / relay.const(2**0.5)) + relay.const(1.0))
    function = function_of(conv(scaled * relay.const(np.float32(half))))
    mod = prepare(tvm.IRModule.from_expr(function), None, "llvm")
    before, after = weights_of(function), weights_of(mod)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old.data.numpy(), new.data.numpy())
    # A factor for each channel is no number: it is folded, as before.
    factor = function_of(conv(scaled * constant(2, 4, 1, 1)))
    mod = prepare(tvm.IRModule.from_expr(factor), None, "llvm")
    assert mod["main"].astext(show_meta_data=False).count("multiply(") == 1


def test_a_weight_that_each_step_transposes_is_one_constant():
    weight = relay.var("weight", shape=(8, 8))
    value = x()
    for _ in range(3):
        value = nn.dense(value, relay.transpose(weight))
    other = relay.transpose(relay.var("other", shape=(8, 8)))
    mod = tvm.IRModule.from_expr(function_of(nn.dense(value, other)))
    draw = np.random.default_rng(0)
    params = {name: draw.standard_normal((8, 8)).astype("float32") for name in ("weight", "other")}
    first, second, third, last = weights_of(prepare(mod, params, "llvm"))
    assert first.same_as(second) and second.same_as(third)
    assert not first.same_as(last)
    np.testing.assert_array_equal(last.data.numpy(), params["other"].T)
    np.testing.assert_array_equal(first.data.numpy(), params["weight"].T)
