# SPDX-License-Identifier: Apache-2.0
"""Models on bytes in the form that all backends get: floats between dequantize and quantize."""

import numpy as np
import pytest
import tvm
from onednn_nets import run
from relay_text import module_of
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile.library import build_library
from tvm.relay.collage.compile.prepare import prepare
from tvm.relay.collage.relay_util.walk import nodes_of, operator_calls

qnn = relay.qnn.op
DRAW = np.random.default_rng(0)


def number(value, dtype="float32"):
    return relay.const(np.array(value, dtype))


def zero(value=0):
    return number(value, "int32")


def weights(*shape):
    return number(DRAW.integers(-60, 60, shape), "int8")


def image(name="x"):
    return relay.var(name, shape=(1, 3, 6, 6), dtype="uint8")


def conv(x, scales=0.02, **attrs):
    zeros = zero(np.zeros(np.shape(scales)))
    attrs = {"kernel_size": (3, 3), "channels": 4, **attrs}
    return qnn.conv2d(x, weights(4, 3, 3, 3), zero(7), zeros, number(0.1), number(scales), **attrs)


def requantized(x, scale=0.002, axis=1):
    zeros = zero(np.zeros(np.shape(scale)))
    return qnn.requantize(x, number(scale), zeros, number(0.9), zero(60), axis, out_dtype="uint8")


SCALES = np.linspace(0.01, 0.02, 4).astype("float32")
BIAS = DRAW.integers(-900, 900, 4)


def rows(name="x"):
    return relay.var(name, shape=(5, 7), dtype="uint8")


def dense(x):
    return qnn.dense(
        *(x, weights(4, 7), zero(7), zero(np.zeros(4)), number(0.1), number(SCALES)), units=4
    )


def stacks():
    x, y = (relay.var(name, shape=(2, 3, 4), dtype="uint8") for name in "xy")
    product = qnn.batch_matmul(x, y, zero(7), zero(9), number(0.1), number(0.02))
    return requantized(product)


def two(op, *attrs):
    scales = (number(0.1), zero(7), number(0.2), zero(90), number(0.3), zero(100))
    return op(image("x"), image("y"), *scales, *attrs)


NETS = {
    "conv": lambda: requantized(conv(image())),
    "conv padded": lambda: requantized(conv(image(), padding=(1, 1))),
    "conv by channel": lambda: requantized(conv(image(), SCALES), 0.1 * SCALES),
    "bias": lambda: requantized(relay.nn.bias_add(conv(image()), number(BIAS, "int32"))),
    "sum with a bias": lambda: requantized(
        conv(image(), SCALES) + number(BIAS.reshape(4, 1, 1), "int32"), 0.1 * SCALES
    ),
    "dense": lambda: requantized(dense(rows()) + number(BIAS, "int32"), 0.1 * SCALES),
    "batch_matmul": stacks,
    "requantize": lambda: requantized(image(), 0.5),
    "add": lambda: two(qnn.add),
    "subtract": lambda: two(qnn.subtract),
    "mul": lambda: two(qnn.mul),
    "concatenate": lambda: qnn.concatenate(
        relay.Tuple([image("x"), image("y")]), relay.Tuple([number(0.1), number(0.2)]),
        relay.Tuple([zero(7), zero(90)]), number(0.3), zero(100), 1,
    ),
}  # fmt: skip


def quantised_ops(mod):
    return {call.op.name for call in operator_calls(mod) if call.op.name.startswith("qnn.")}


def output(mod, inputs):
    return run(build_library(mod, collage.host_target()), inputs)[0]


@pytest.mark.parametrize("name", NETS)
def test_operators_on_bytes_become_floats_between(name):
    mod = module_of(NETS[name]())
    prepared = prepare(mod)
    assert quantised_ops(prepared) == {"qnn.dequantize", "qnn.quantize"}
    tvm.ir.assert_structural_equal(prepare(prepared), prepared)
    shapes = {p.name_hint: [int(d) for d in p.checked_type.shape] for p in mod["main"].params}
    inputs = {
        name: np.random.default_rng(1).integers(0, 255, shape).astype("uint8")
        for name, shape in shapes.items()
    }
    got, wanted = (output(each, inputs).astype(int) for each in (prepared, mod))
    # TVM rounds each operand of a sum before it adds.
    assert np.abs(got - wanted).max() <= (2 if name in ("add", "subtract") else 1)
    assert len(np.unique(wanted)) > 10, "not all of it is beyond a byte"


KEPT = {
    "a scale that is computed": lambda: qnn.requantize(
        *(image(), relay.var("s", shape=()), zero(), number(0.9), zero(60)), out_dtype="uint8"
    ),
    "a wide result": lambda: qnn.requantize(
        *(image(), number(0.5), zero(), number(0.9), zero(60)), out_dtype="int32"
    ),
    "another scale than the product's": lambda: requantized(conv(image()), 0.03),
    "a summand for each place": lambda: requantized(
        conv(image()) + number(DRAW.integers(0, 9, (4, 4, 4)), "int32")
    ),
    "tuples from elsewhere": lambda: qnn.concatenate(
        relay.var("t", type_annotation=relay.TupleType([image().type_annotation] * 2)),
        relay.Tuple([number(0.1)] * 2), relay.Tuple([zero()] * 2), number(0.3), zero(), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_such_form_stays(name):
    others = quantised_ops(prepare(module_of(KEPT[name]()))) - {"qnn.dequantize", "qnn.quantize"}
    assert len(others) == 1


def scaled_weights(factors, lowest=-60):
    """A convolution of dequantised weights, with factors of its channels behind it."""
    values = np.arange(4 * 27).reshape(4, 3, 3, 3) % 100 + lowest
    w = qnn.dequantize(number(values, "int8"), number(SCALES), zero(np.zeros(4)), 0)
    x = relay.var("x", shape=(1, 3, 6, 6))
    found = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3))
    return relay.nn.relu(found * number(np.reshape(factors, (4, 1, 1))))


def test_factors_of_channels_go_into_the_scales_of_weights():
    mod = module_of(scaled_weights([2.0, -3.0, 0.5, -1.0]))
    prepared = prepare(mod)
    assert [call.op.name for call in operator_calls(prepared)] == [
        *("qnn.dequantize", "nn.conv2d", "nn.relu"),
    ]
    inputs = {"x": DRAW.standard_normal((1, 3, 6, 6)).astype("float32")}
    np.testing.assert_allclose(output(prepared, inputs), output(mod, inputs), rtol=1e-4, atol=1e-4)


def depthwise(scales, zeros):
    data = qnn.dequantize(relay.var("x", shape=(1, 4, 6, 6), dtype="uint8"), scales, zeros, 1)
    w = qnn.dequantize(weights(4, 1, 3, 3), number(SCALES), zero(np.zeros(4)), 0)
    found = relay.nn.conv2d(data, w, groups=4, channels=4, kernel_size=(3, 3), padding=(1, 1))
    return relay.nn.relu(found)


@pytest.mark.parametrize("zeros, is_moved", [([7, 7, 7, 7], True), ([7, 7, 7, 8], False)])
def test_scales_of_depthwise_data_go_into_those_of_weights(zeros, is_moved):
    mod = module_of(depthwise(number([0.1, 0.2, 0.3, 0.4]), zero(zeros)))
    prepared = prepare(mod)
    data, _ = (call for call in operator_calls(prepared) if call.op.name == "qnn.dequantize")
    assert (data.args[1].data.numpy().size == 1) == is_moved
    inputs = {"x": DRAW.integers(0, 255, (1, 4, 6, 6)).astype("uint8")}
    np.testing.assert_allclose(output(prepared, inputs), output(mod, inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["a factor of zero", "a byte without its negative"])
def test_factors_that_scales_cannot_be_stay(case):
    is_zero = case == "a factor of zero"
    body = scaled_weights([-2.0, 0.0 if is_zero else 3.0, 0.5, 1.0], -60 if is_zero else -128)
    mod = module_of(body)
    prepared = prepare(mod)
    assert "multiply" in [call.op.name for call in operator_calls(prepared)]
    inputs = {"x": DRAW.standard_normal((1, 3, 6, 6)).astype("float32")}
    np.testing.assert_allclose(output(prepared, inputs), output(mod, inputs), rtol=1e-4, atol=1e-4)


def test_every_reader_has_a_dequantised_value_of_its_own():
    x = qnn.dequantize(image(), number(0.1), zero(7))
    y = relay.exp(x)
    prepared = prepare(module_of(relay.concatenate((x, y, relay.nn.relu(x), y), 1)))
    made = [call for call in operator_calls(prepared) if call.op.name == "qnn.dequantize"]
    assert len(made) == 3
    assert sum(call.op.name == "exp" for call in nodes_of(prepared, relay.Call)) == 1


def test_tvms_kernels_round_halves_to_even():
    x = relay.var("x", shape=(6,))
    both = relay.Tuple([relay.round(x), qnn.quantize(x, number(1.0), zero(), out_dtype="int8")])
    data = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.4], "float32")
    for got in run(build_library(module_of(both), collage.host_target()), {"x": data}):
        np.testing.assert_array_equal(got, np.rint(data))
