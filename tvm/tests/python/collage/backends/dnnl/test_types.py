# SPDX-License-Identifier: Apache-2.0
"""oneDNN on bfloat16 and on plain int8 products, and what it refuses of other types."""

import numpy as np
import pytest
import tvm
from onednn_nets import (
    build,
    constant,
    function_of,
    hand_placed,
    needs_vnni,
    plan_of,
    reference,
    run,
    typed,
)
from tvm import relay
from tvm.relay import ExprMutator, nn
from tvm.relay.collage.backends import UnsupportedOpError, get_backend
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.backends.dnnl.types import runs_bfloat16

get_backend("dnnl")
needs_bfloat16 = pytest.mark.skipif(not runs_bfloat16(), reason="this CPU has no AVX-512")


def main_of(body):
    return typed(body)["main"]


def convolution(activation):
    x = relay.var("x", shape=(1, 8, 10, 10))
    y = nn.conv2d(x, constant(1, 16, 8, 3, 3), channels=16, kernel_size=(3, 3))
    return activation(relay.add(y, constant(2, 16, 1, 1)))


def gelu(x):
    inner = relay.erf(x / relay.const(2**0.5)) + relay.const(1.0)
    return x * inner * relay.const(0.5)


def layer_norm():
    x = relay.var("x", shape=(4, 6, 32))
    return nn.layer_norm(x, constant(1, 32), constant(2, 32))


NETS = {
    "relu": (lambda: convolution(nn.relu), "conv"),
    "gelu": (lambda: convolution(gelu), "conv"),
    "dense": (lambda: nn.dense(relay.var("x", shape=(4, 32)), constant(1, 8, 32)), "inner_product"),
    "layer_norm": (layer_norm, "layer_norm"),
}


class InBfloat16(ExprMutator):
    """Has all variables and constants cast."""

    def visit_var(self, var):
        return relay.cast(var, "bfloat16")

    def visit_constant(self, const):
        return relay.cast(const, "bfloat16")


def in_bfloat16(body):
    """The expression's function on bfloat16, but for its inputs and its result."""
    function = function_of(relay.cast(InBfloat16().visit(body), "float32"))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    return relay.transform.FoldConstant()(mod)["main"]


@needs_bfloat16
@pytest.mark.parametrize("name", NETS)
def test_bfloat16(name):
    body, primitive = NETS[name]
    function = main_of(body())
    inputs = {
        p.name_hint: np.random.default_rng(0)
        .standard_normal([int(d) for d in p.checked_type.shape])
        .astype("float32")
        for p in function.params
    }
    (wanted,) = reference(function, inputs)
    part = in_bfloat16(body())
    graph = lower_function(part)
    main = next(node for node in graph.nodes if node.op == primitive)
    assert graph.dtypes[main.inputs[0]] == "bfloat16"
    library = build(hand_placed(part))
    (got,) = run(library, inputs)
    # Eight bits of mantissa, of the inputs and of the weights.
    np.testing.assert_allclose(got, wanted, rtol=0.02, atol=0.02 * np.abs(wanted).max())
    assert primitive in plan_of(library)


@needs_vnni
@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_products_of_bytes_are_exact(data):
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(2, 8, 6, 6), dtype=data)
    weights = relay.const(rng.integers(-100, 100, (16, 8, 3, 3)).astype("int8"))
    body = nn.conv2d(x, weights, channels=16, kernel_size=(3, 3), out_dtype="int32")
    inputs = {"x": rng.integers(0, 120, (2, 8, 6, 6)).astype(data)}
    function = main_of(body)
    (got,) = run(build(hand_placed(function)), inputs)
    (wanted,) = reference(function, inputs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool"])
def test_types_that_no_primitive_has_are_named_with_the_op(dtype):
    x = relay.var("x", shape=(2, 3), dtype=dtype)
    with pytest.raises(UnsupportedOpError, match=f"maximum: dtype={dtype}"):
        lower_function(main_of(relay.maximum(x, relay.var("y", shape=(2, 3), dtype=dtype))))


def test_of_functions_of_bytes_by_themselves_there_is_relu_alone():
    x = relay.var("x", shape=(2, 3), dtype="uint8")
    assert lower_function(main_of(nn.relu(x))).nodes[0].op == "eltwise"
    with pytest.raises(UnsupportedOpError, match=r"eltwise \(clip\): types uint8 -> uint8"):
        lower_function(main_of(relay.clip(x, 9, 40)))


def test_casts_that_round_are_tvms():
    x = relay.var("x", shape=(2, 3))
    for dtype in ("int32", "uint8"):
        with pytest.raises(UnsupportedOpError, match=f"float32 -> {dtype} are not supported"):
            lower_function(main_of(relay.cast(x, dtype)))


def test_without_avx512_bfloat16_is_refused(monkeypatch):
    monkeypatch.setattr("tvm.relay.collage.backends.dnnl.types.runs_bfloat16", lambda: False)
    x = relay.var("x", shape=(2, 3), dtype="bfloat16")
    with pytest.raises(UnsupportedOpError, match="bfloat16 needs AVX-512"):
        lower_function(main_of(nn.softmax(x)))
