# SPDX-License-Identifier: Apache-2.0
"""Quantised ops on oneDNN: which chains are one primitive, and their numbers beside TVM's own.

A product is rounded once by oneDNN; TVM rounds in fixed point, so results may be one apart.
"""

import numpy as np
import pytest
import tvm
from onednn_nets import build, hand_placed, needs_vnni, reference, run
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.backends import UnsupportedOpError, get_backend, greedy_partition
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.op.contrib.register import get_pattern_table
from tvm.relay.qnn import op as qnn

get_backend("dnnl")
pytestmark = needs_vnni


def scale(*values):
    return relay.const(np.array(values if len(values) > 1 else values[0], "float32"))


def zero(value=0):
    return relay.const(value, "int32")


def weights(*shape):
    return relay.const(np.random.default_rng(1).integers(-20, 20, shape).astype("int8"))


def bias(*shape):
    return relay.const(np.random.default_rng(2).integers(-500, 500, shape).astype("int32"))


def conv(x, data_zero=0, kernel_zero=0, padding=(1, 1), kernel=None):
    kernel = kernel or weights(16, 8, 3, 3)
    return qnn.conv2d(
        x, kernel, zero(data_zero), zero(kernel_zero), scale(0.2), scale(0.1),
        kernel_size=(3, 3), channels=16, padding=padding,
    )  # fmt: skip


def requantized(x, factors=None, out="uint8"):
    return qnn.requantize(
        x, factors or scale(0.02), zero(), scale(0.7), zero(9), axis=1, out_dtype=out
    )


def added(x, other):
    return qnn.add(
        x, other, scale(0.7), zero(9), scale(0.3), zero(15), scale(0.8), zero(4)
    )  # fmt: skip


def image(name="x", channels=8):
    return relay.var(name, shape=(2, channels, 6, 6), dtype="uint8")


def net(name):
    """An expression over bytes that oneDNN computes in one primitive."""
    x, y = image(), image("y", 16)
    with_bias = relay.add(conv(x), bias(16, 1, 1))
    per_channel = scale(*np.linspace(0.01, 0.03, 16))
    clipped = relay.clip(requantized(conv(x), out="int32"), 0, 255)
    rows = relay.var("rows", shape=(4, 10), dtype="uint8")
    dense = qnn.dense(
        rows, weights(12, 10), zero(3), zero(), scale(0.2), scale(0.1), units=12, out_dtype="int32"
    )
    nets = {
        "requantize": lambda: requantized(conv(x)),
        "bias": lambda: requantized(with_bias),
        "bias_add": lambda: requantized(relay.nn.bias_add(conv(x), bias(16))),
        "padded zero point": lambda: requantized(conv(x, data_zero=7)),
        "by channel": lambda: requantized(with_bias, per_channel),
        "signed": lambda: requantized(conv(x), out="int8"),
        "clip and cast": lambda: relay.cast(clipped, "uint8"),
        "relu6": lambda: relay.clip(requantized(conv(x)), 9, 40),
        "sum": lambda: added(requantized(with_bias), y),
        "sum from the left": lambda: added(y, requantized(with_bias)),
        "sum of int8": lambda: relay.clip(added(requantized(conv(x)), y), 0, 200),
        "dense": lambda: requantized(relay.nn.bias_add(dense, bias(12))),
    }
    return nets if name is None else nets[name]()


def function_of(body):
    typed = relay.Function(relay.analysis.free_vars(body), body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(typed))["main"]


def bytes_for(function, seed=0):
    rng = np.random.default_rng(seed)
    return {
        p.name_hint: rng.integers(0, 60, [int(d) for d in p.checked_type.shape]).astype("uint8")
        for p in function.params
    }


def assert_one_apart(got, wanted, share=0.02):
    """Numbers that differ do so by 1, and are at most that share of all."""
    assert got.dtype == wanted.dtype
    difference = np.abs(got.astype("int64") - wanted.astype("int64"))
    assert difference.max() <= 1 and (difference > 0).mean() < share
    assert len(np.unique(wanted)) > 5  # not all of them saturated


@pytest.mark.parametrize("name", net(None))
def test_a_chain_is_one_primitive_with_tvms_numbers(name):
    function = function_of(net(name))
    assert [node.op for node in lower_function(function).nodes] in (["conv"], ["matmul"])
    inputs = bytes_for(function)
    (wanted,) = reference(function, inputs)
    (got,) = run(build(hand_placed(function)), inputs)
    # TVM rounds both operands of a sum before adding, which we need not.
    assert_one_apart(got, wanted, share=0.4 if "sum" in name else 0.02)


@pytest.mark.parametrize("name", net(None))
def test_a_chain_is_one_composite(name):
    mod = relay.transform.MergeComposite(get_pattern_table("dnnl"))(
        tvm.IRModule.from_expr(function_of(net(name)))
    )
    call = mod["main"].body
    kind = "dense" if name == "dense" else "conv2d"
    suffix = "_sum" if "sum" in name else ""
    assert str(call.op.attrs["Composite"]) == f"dnnl.qnn_{kind}{suffix}"
    assert all(isinstance(operand, relay.Var | relay.Constant) for operand in call.args)


def test_a_whole_quantised_block_is_one_region():
    x = relay.var("x", shape=(2, 8, 6, 6))
    q = qnn.quantize(x, scale(0.05), zero(12), out_dtype="uint8")
    left = requantized(conv(q, data_zero=12))
    right = relay.nn.max_pool2d(requantized(conv(q, data_zero=12, kernel=weights(16, 8, 3, 3))))
    body = qnn.dequantize(added(left, right), scale(0.8), zero(4))
    function = function_of(body)
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 8, 6, 6)).astype("float32")}
    mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
    assert len(mod.functions) == 2
    (wanted,) = reference(function, inputs)
    (got,) = run(build(mod), inputs)
    np.testing.assert_allclose(got, wanted, atol=0.81)  # one step of the last scale
    assert (np.abs(got - wanted) > 1e-3).mean() < 0.4


REFUSED = {
    "kernel_zero_point": lambda x: requantized(conv(x, kernel_zero=3)),
    "not a constant": lambda x: requantized(conv(x), relay.var("s", shape=(), dtype="float32")),
    # Without a quantised product before it a cast means what TVM's does.
    "convert": lambda x: relay.cast(relay.cast(x, "float32") * relay.const(0.3), "uint8"),
    "binary .add.": lambda x: relay.add(x, image("y")),
    "types uint8, uint8": lambda x: relay.nn.conv2d(
        x, relay.cast(weights(16, 8, 3, 3), "uint8"), kernel_size=(3, 3), out_dtype="int32"
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    function = function_of(REFUSED[words](image()))
    function = relay.transform.FoldConstant()(tvm.IRModule.from_expr(function))["main"]
    with pytest.raises(UnsupportedOpError, match=words.replace("not a constant", "a constant")):
        lower_function(function)


def test_a_search_has_them_as_candidates():
    mod = tvm.IRModule.from_expr(function_of(net("sum")))
    found = "\n".join(map(str, collage.candidates(mod, [tvm.target.Target("llvm"), "dnnl"])))
    for composite in ("dnnl.qnn_conv2d]", "dnnl.qnn_conv2d_sum]"):
        assert composite in found
