# SPDX-License-Identifier: Apache-2.0
"""Einsum, PReLU and take as operators that libraries know, with the same results; what has no such
form stays."""

import random

import numpy as np
import onnx
import pytest
import tvm
from onednn_nets import random_inputs, run
from onnx import helper, numpy_helper
from relay_text import module_of, operators, plain_host
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.relay_util.walk import operator_calls

EXTENTS = {"b": 2, "h": 3, "w": 4, "c": 5, "k": 6, "x": 1}
CONSTANTS = {"neither": (), "first": (0,), "second": (1,)}


def net(equation, constants=(), extents=EXTENTS):
    """The module, the values of both operands, and the inputs by name."""
    rng = np.random.default_rng(0)
    operands = equation.split("->")[0].split(",")
    values = [
        rng.standard_normal([extents[letter] for letter in each]).astype("float32")
        for each in operands
    ]
    variables = [relay.var(f"v{i}", shape=value.shape) for i, value in enumerate(values)]
    used = [relay.const(v) if i in constants else variables[i] for i, v in enumerate(values)]
    params = [each for i, each in enumerate(variables) if i not in constants]
    function = relay.Function(params, relay.einsum(relay.Tuple(used), equation))
    inputs = {f"v{i}": v for i, v in enumerate(values) if i not in constants}
    return tvm.IRModule.from_expr(function), values, inputs


def check(equation, constants=()):
    mod, values, inputs = net(equation, constants)
    mod = prepare(mod)
    [got] = run(build_library(mod, plain_host()), inputs)
    np.testing.assert_allclose(got, np.einsum(equation, *values), rtol=1e-4, atol=1e-5)
    return str(mod["main"])


@pytest.mark.parametrize(
    "equation, constants",
    [
        *(("bhw,kxh->bkxw", constants) for constants in CONSTANTS),
        ("bhwc,hkc->bhwk", "first"),
        ("bwc,bkc->bwk", "neither"),
    ],
)
def test_products(equation, constants):
    text = check(equation, CONSTANTS[constants])
    is_dense = equation == "bhw,kxh->bkxw" and constants != "neither"
    assert "einsum" not in text
    assert ("nn.dense" in text, "nn.batch_matmul" in text) == (is_dense, not is_dense)


def test_any_product():
    rng = random.Random(0)
    for _ in range(4):
        letters = {each: rng.sample(sorted(EXTENTS), rng.randint(1, 4)) for each in (0, 1)}
        shared = set(letters[0]) & set(letters[1])
        summed = set(rng.sample(sorted(shared), min(1, len(shared))))
        result = [
            x
            for x in sorted({*letters[0], *letters[1]} - summed)
            if x not in shared or rng.random() < 0.5
        ]
        rng.shuffle(result)
        equation = f"{''.join(letters[0])},{''.join(letters[1])}->{''.join(result)}"
        text = check(equation, rng.choice(list(CONSTANTS.values())))
        assert ("einsum" in text) == (not shared), equation


OTHER_EINSUMS = ["bh,bh", "bhw,bc->hc", "bb,bh->bh", "bhw->bwh", "b,b,b->b", "bhw,w->bhw"]


@pytest.mark.parametrize("equation", OTHER_EINSUMS)
def test_an_einsum_that_stays(equation):
    assert "einsum" in str(prepare(net(equation)[0])["main"])


def test_an_einsum_of_nothing_stays_as_it_is():
    nothing = net("bh,hk->bk", extents=EXTENTS | {"b": 0})[0]
    assert "einsum" in str(prepare(nothing)["main"])


@pytest.mark.parametrize("rows, dtype", [(4, "int8"), (relay.Any(), "float32")])
def test_an_einsum_of_bytes_and_of_open_shapes_stay_as_they_are(rows, dtype):
    a, b = relay.var("a", shape=(rows, 3), dtype=dtype), relay.var("b", shape=(4, 3), dtype=dtype)
    function = relay.Function([a, b], relay.einsum(relay.Tuple([a, b]), "ij,kj->ik"))
    assert "einsum" in str(prepare(tvm.IRModule.from_expr(function))["main"])


SHAPE = (2, 3, 4, 5)
RNG = np.random.default_rng(0)


def imported_prelu(slopes):
    """Of ONNX, where slopes broadcast to the data, by TVM's own importer."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("PRelu", ["x", "slopes"], ["y"])],
        "net",
        [value("x", 1, SHAPE)],
        [value("y", 1, SHAPE)],
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
    mod = imported_prelu(slopes)
    [call] = operator_calls(mod)
    assert call.op.name == "nn.prelu" and call.attrs.axis == axis
    assert_prelu(mod, slopes)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (3, 1, 1)])
def test_one_slope_for_all(shape):
    slopes = np.full(shape, -0.25, "float32")
    mod = imported_prelu(slopes)
    assert operators(mod) == ["nn.leaky_relu"]
    assert_prelu(mod, slopes)


def test_slopes_of_two_axes_and_of_the_caller_stay_as_they_are():
    slopes = RNG.standard_normal((3, 4, 1)).astype("float32")
    mod = imported_prelu(slopes)
    assert "nn.prelu" in operators(mod) and operators(mod).count("reshape") == 3
    assert_prelu(mod, slopes)
    x, alpha = (relay.var(name, shape=shape) for name, shape in (("x", SHAPE), ("a", (120,))))
    flat = relay.nn.prelu(relay.reshape(x, (-1,)), alpha, axis=0)
    for shape in (SHAPE, (6, 20)):
        function = relay.Function([x, alpha], relay.reshape(flat, shape))
        kept = prepare(tvm.IRModule.from_expr(function))
        assert operators(kept) == ["reshape", "nn.prelu", "reshape"]


def flat_prelu(data, slopes, shape=SHAPE):
    """As TVM's importer writes it."""
    slopes = relay.reshape(relay.broadcast_to(slopes, shape), (-1,))
    return relay.reshape(relay.nn.prelu(relay.reshape(data, (-1,)), slopes, axis=0), shape)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64"])
def test_a_prelu_of_other_types(dtype):
    x = relay.var("x", shape=SHAPE, dtype=dtype)
    slopes = relay.const(np.arange(3).reshape(3, 1, 1).astype(dtype), dtype)
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], flat_prelu(x, slopes))))
    assert mod["main"].ret_type.dtype == dtype
    assert (operators(mod) == ["nn.prelu"]) == ("float" in dtype)


def test_bits_of_bfloat16_are_no_slopes():
    x = relay.var("x", shape=SHAPE, dtype="bfloat16")
    slope = relay.cast(relay.const(np.full((3, 1, 1), 0.25, "float32")), "bfloat16")
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], flat_prelu(x, slope))))
    assert "nn.prelu" in operators(mod) and "nn.leaky_relu" not in operators(mod)


def test_one_prelu_on_another():
    x = relay.var("x", shape=SHAPE)
    first, second = (relay.const(np.full((3, 1, 1), s, "float32")) for s in (0.5, 0.25))
    mod = prepare(
        tvm.IRModule.from_expr(relay.Function([x], flat_prelu(flat_prelu(x, first), second)))
    )
    assert operators(mod) == ["nn.leaky_relu", "nn.leaky_relu"]
    assert_prelu(mod, np.float32(0.125))


def test_a_prelu_of_nothing():
    x = relay.var("x", shape=(0, 3))
    net = flat_prelu(x, relay.const(np.ones(3, "float32")), (0, 3))
    prepared = prepare(tvm.IRModule.from_expr(relay.Function([x], net)))
    assert "nn.leaky_relu" not in operators(prepared)


def assert_prelu(mod, slopes):
    x = RNG.standard_normal(SHAPE).astype("float32")
    [got] = run(build_library(mod, collage.host_target()), {"x": x})
    np.testing.assert_allclose(got, np.where(x > 0, x, x * slopes), rtol=1e-6)


DATA = relay.var("x", shape=(3, 4, 5))


def take(indices, axis, dtype="int64", **more):
    index = relay.const(np.array(indices, dtype))
    return relay.take(DATA, index, axis, **more)


def test_slices_give_the_same():
    takes = [take(0, 0), take([1, 2], 1), take([2, 3, 4], 2), take([[0, 1], [2, 3]], 1)]
    before = module_of(relay.Tuple([*takes, take([2], 0, "int32", mode="fast")]))
    after = prepare(before)
    assert "take(" not in str(after)
    inputs = random_inputs(before["main"])
    wanted, got = (run(build_library(mod, plain_host()), inputs) for mod in (before, after))
    for one, other in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(one, other)


OTHER_TAKES = {
    "in another order": lambda: take([1, 0], 0),
    "with a gap": lambda: take([0, 2], 0),
    "again": lambda: take([1, 1], 0),
    "before the first": lambda: take([-1, 0], 0),
    "behind the last": lambda: take([2, 3], 0),
    "of none": lambda: take(np.zeros(0), 0),
    "of all in a row": lambda: take([1, 2], None),
    "unknown": lambda: relay.take(DATA, relay.var("i", shape=(2,), dtype="int64"), 0),
    "row by row": lambda: take([[0, 1], [1, 2], [2, 3]], 1, batch_dims=1),
}


@pytest.mark.parametrize("case", OTHER_TAKES)
def test_a_take_that_stays(case):
    mod = module_of(OTHER_TAKES[case]())
    tvm.ir.assert_structural_equal(prepare(mod)["main"], mod["main"])
