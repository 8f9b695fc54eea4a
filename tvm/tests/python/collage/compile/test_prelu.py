# SPDX-License-Identifier: Apache-2.0
"""PReLU as TVM imports it from ONNX, which is one slope a channel again."""

import numpy as np
import onnx
import pytest
import tvm
from onednn_nets import run
from onnx import helper, numpy_helper
from relay_text import operators
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.relay_util.walk import operator_calls

DATA = (2, 3, 4, 5)
RNG = np.random.default_rng(0)


def imported(slopes):
    """Of ONNX, where slopes broadcast to the data, by TVM's own importer."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("PRelu", ["x", "slopes"], ["y"])],
        "net",
        [value("x", 1, DATA)],
        [value("y", 1, DATA)],
        [numpy_helper.from_array(slopes, "slopes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    mod, params = relay.frontend.from_onnx(model, freeze_params=False)
    return prepare(mod, params)


# Shape of the slopes, and the axis along which they differ.
CHANNELS = {
    "channels": ((3, 1, 1), 1),
    "batch": ((2, 1, 1, 1), 0),
    "rows": ((4, 1), 2),
    "columns": ((5,), 3),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_one_slope_a_channel(name):
    shape, axis = CHANNELS[name]
    slopes = RNG.standard_normal(shape).astype("float32")
    mod = imported(slopes)
    [call] = operator_calls(mod)
    assert call.op.name == "nn.prelu" and call.attrs.axis == axis
    assert_right(mod, slopes)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (3, 1, 1)])
def test_one_slope_for_all(shape):
    slopes = np.full(shape, -0.25, "float32")
    mod = imported(slopes)
    assert operators(mod) == ["nn.leaky_relu"]
    assert_right(mod, slopes)


def test_slopes_of_two_axes_and_of_the_caller_stay_as_they_are():
    slopes = RNG.standard_normal((3, 4, 1)).astype("float32")
    mod = imported(slopes)
    assert "nn.prelu" in operators(mod) and operators(mod).count("reshape") == 3
    assert_right(mod, slopes)
    x, alpha = (relay.var(name, shape=shape) for name, shape in (("x", DATA), ("a", (120,))))
    flat = relay.nn.prelu(relay.reshape(x, (-1,)), alpha, axis=0)
    for shape in (DATA, (6, 20)):
        function = relay.Function([x, alpha], relay.reshape(flat, shape))
        kept = prepare(tvm.IRModule.from_expr(function))
        assert operators(kept) == ["reshape", "nn.prelu", "reshape"]


def flat(data, slopes, shape=DATA):
    """As TVM's importer writes it."""
    slopes = relay.reshape(relay.broadcast_to(slopes, shape), (-1,))
    return relay.reshape(relay.nn.prelu(relay.reshape(data, (-1,)), slopes, axis=0), shape)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64"])
def test_other_types(dtype):
    x = relay.var("x", shape=DATA, dtype=dtype)
    slopes = relay.const(np.arange(3).reshape(3, 1, 1).astype(dtype), dtype)
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], flat(x, slopes))))
    assert mod["main"].ret_type.dtype == dtype
    assert (operators(mod) == ["nn.prelu"]) == ("float" in dtype)


def test_bits_of_bfloat16_are_no_slopes():
    x = relay.var("x", shape=DATA, dtype="bfloat16")
    slope = relay.cast(relay.const(np.full((3, 1, 1), 0.25, "float32")), "bfloat16")
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], flat(x, slope))))
    assert "nn.prelu" in operators(mod) and "nn.leaky_relu" not in operators(mod)


def test_one_on_another():
    x = relay.var("x", shape=DATA)
    first, second = (relay.const(np.full((3, 1, 1), s, "float32")) for s in (0.5, 0.25))
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], flat(flat(x, first), second))))
    assert operators(mod) == ["nn.leaky_relu", "nn.leaky_relu"]
    assert_right(mod, np.float32(0.125))


def test_nothing_in_it():
    x = relay.var("x", shape=(0, 3))
    net = flat(x, relay.const(np.ones(3, "float32")), (0, 3))
    prepared = prepare(tvm.IRModule.from_expr(relay.Function([x], net)))
    assert "nn.leaky_relu" not in operators(prepared)


def assert_right(mod, slopes):
    x = RNG.standard_normal(DATA).astype("float32")
    [got] = run(build_library(mod, collage.host_target()), {"x": x})
    np.testing.assert_allclose(got, np.where(x > 0, x, x * slopes), rtol=1e-6)
