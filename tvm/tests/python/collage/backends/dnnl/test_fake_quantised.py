# SPDX-License-Identifier: Apache-2.0
"""Floats between dequantize and quantize on oneDNN: what becomes primitives of bytes, what stays in
floats, and results beside TVM's."""

import numpy as np
import pytest
import tvm
from onednn_nets import build, hand_placed, needs_vnni, reference, run
from tvm import relay
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.rewrites import own_dequantized

get_backend("dnnl")
qnn = relay.qnn.op
nn = relay.nn
SCALES = np.linspace(0.01, 0.02, 8).astype("float32")


def number(value, dtype="float32"):
    return relay.const(np.array(value, dtype))


def dequantised(x, scale=0.1, zero=7, axis=1):
    return qnn.dequantize(x, number(scale), number(zero, "int32"), axis)


def quantised(x, scale=0.2, zero=60):
    return qnn.quantize(x, number(scale), number(zero, "int32"), out_dtype="uint8")


def image(name="x"):
    return relay.var(name, shape=(1, 8, 6, 6), dtype="uint8")


def weights(*shape, scales=SCALES, axis=0, dtype="int8", zero=0):
    values = np.random.default_rng(0).integers(0, 60, shape).astype("int32") - 25
    zeros = np.full(np.shape(scales), zero)
    return dequantised(
        number(np.maximum(values, 0 if dtype == "uint8" else -25), dtype), scales, zeros, axis
    )


def conv(x, **of):
    return nn.conv2d(x, weights(8, 8, 3, 3, **of), padding=(1, 1), channels=8, kernel_size=(3, 3))


def bias(in_bytes=True):
    values = np.random.default_rng(2).integers(-900, 900, 8)
    if not in_bytes:
        return number(values * 0.01)
    return dequantised(number(values, "int32"), 0.1 * SCALES, np.zeros(8), 0)


def rows():
    return relay.var("x", shape=(5, 16), dtype="uint8")


def residual():
    x = image()
    inner = dequantised(quantised(nn.relu(nn.bias_add(conv(dequantised(x)), bias()))), 0.2, 60)
    return quantised(nn.relu(conv(inner) + dequantised(x)), 0.5, 3)


ONE_PRIMITIVE = {
    "conv": lambda: quantised(conv(dequantised(image()))),
    "one scale": lambda: quantised(conv(dequantised(image()), scales=0.02)),
    "bias": lambda: quantised(nn.bias_add(conv(dequantised(image())), bias())),
    "bias in floats": lambda: quantised(nn.bias_add(conv(dequantised(image())), bias(False))),
    "sum with a bias": lambda: quantised(
        conv(dequantised(image())) + number(np.arange(8).reshape(8, 1, 1))
    ),
    "relu": lambda: quantised(nn.relu(nn.bias_add(conv(dequantised(image())), bias()))),
    "dense": lambda: quantised(nn.dense(dequantised(rows()), weights(8, 16)) + bias()),
    "a result in floats": lambda: nn.bias_add(conv(dequantised(image())), bias()),
}


def function_of(body):
    typed = relay.Function(relay.analysis.free_vars(body), body)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(typed))
    return relay.transform.InferType()(own_dequantized(mod))["main"]


def primitives(body):
    graph = lower_function(function_of(body))
    return [(node.op, graph.dtypes[node.inputs[0]]) for node in graph.nodes]


def assert_right(body, atol):
    function = function_of(body)
    draw = np.random.default_rng(0)
    inputs = {
        p.name_hint: draw.integers(0, 255, [int(d) for d in p.checked_type.shape]).astype("uint8")
        for p in function.params
    }
    (wanted,) = reference(function, inputs)
    (got,) = run(build(hand_placed(function)), inputs)
    assert got.dtype == wanted.dtype and len(np.unique(wanted)) > 20
    np.testing.assert_allclose(got.astype("float64"), wanted.astype("float64"), atol=atol)


@needs_vnni
@pytest.mark.parametrize("name", ONE_PRIMITIVE)
def test_a_layer_is_one_primitive_of_bytes(name):
    body = ONE_PRIMITIVE[name]()
    (found,) = primitives(body)
    assert found in (("conv", "uint8"), ("matmul", "uint8"))
    assert_right(body, 1e-3 if name == "a result in floats" else 1)


@needs_vnni
def test_a_residual_sum_is_in_its_layer():
    assert primitives(residual()) == [("conv", "uint8")] * 2
    assert_right(residual(), 1)


IN_FLOATS = {
    "weights with a zero point": lambda: quantised(conv(dequantised(image()), zero=3)),
    "weights without a sign": lambda: quantised(conv(dequantised(image()), dtype="uint8"), 1.0),
    "scales of the input's channels": lambda: quantised(conv(dequantised(image()), axis=1)),
    "data by channel": lambda: quantised(conv(dequantised(image(), SCALES, np.zeros(8)))),
}


@pytest.mark.parametrize("name", IN_FLOATS)
def test_what_would_be_wrong_in_bytes_stays_in_floats(name):
    body = IN_FLOATS[name]()
    assert ("conv", "float32") in primitives(body)
    assert_right(body, 1)


def test_without_exact_sums_of_bytes_products_stay_in_floats(monkeypatch):
    module = "tvm.relay.collage.backends.dnnl.fake_quantised.why_bytes_are_inexact"
    monkeypatch.setattr(module, lambda: "no VNNI")
    assert ("conv", "float32") in primitives(ONE_PRIMITIVE["conv"]())


@pytest.mark.parametrize("zero", [0, 60])
def test_bytes_by_channel_are_made(zero):
    floats = relay.nn.relu(dequantised(image()))
    body = qnn.quantize(floats, number(10 * SCALES), number([zero] * 8, "int32"), 1, "uint8")
    assert_right(body, 1)


def pool(scale=0.1):
    return quantised(nn.max_pool2d(dequantised(image()), (2, 2), padding=(1, 1)), scale, 7)


def test_a_pool_of_one_scale_is_of_bytes():
    assert primitives(pool()) == [("pool", "uint8")]
    assert_right(pool(), 0)
    assert ("pool", "float32") in primitives(pool(0.11)), "it has to be scaled"
    assert_right(pool(0.11), 1)
