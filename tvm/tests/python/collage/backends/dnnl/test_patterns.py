# SPDX-License-Identifier: Apache-2.0
"""The pattern table: which chains become one composite, and which look-alikes do not."""

import math

import numpy as np
import pytest
import tvm
from onednn_nets import (
    assert_close,
    build,
    constant,
    function_of,
    random_inputs,
    reference,
    run,
    table_composites,
    typed,
    var,
)
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import optimizer, rules
from tvm.relay.collage.backends import get_backend, greedy_partition
from tvm.relay.collage.backends.dnnl.codegen import lower_function
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.dataflow_pattern import is_op, wildcard

nn = relay.nn


def conv(data, channels=16, in_channels=8, **attrs):
    weight = constant(1, channels, in_channels, 3, 3)
    return nn.conv2d(data, weight, channels=channels, kernel_size=(3, 3), padding=1, **attrs)


X = var("x", 1, 8, 10, 10)
Y = var("y", 1, 16, 10, 10)
BIAS = constant(2, 16, 1, 1)
SQRT2 = relay.const(math.sqrt(2.0))
HALF, ONE, THREE, SIX = (relay.const(value) for value in (0.5, 1.0, 3.0, 6.0))


def gelu(x):
    return x * (relay.erf(x / SQRT2) + ONE) * HALF


FOUND = {
    "conv2d": conv(X),
    "conv2d_bias": nn.bias_add(conv(X), constant(2, 16)),
    "conv2d_bias_relu": nn.relu(relay.add(conv(X), BIAS)),
    "conv2d_bias_clip": relay.clip(relay.add(BIAS, conv(X)), 0.0, 6.0),
    "conv2d_bias_sum": relay.add(conv(X), BIAS) + Y,
    "conv2d_bias_sum_relu": nn.relu(Y + relay.add(conv(X), BIAS)),
    "conv2d_bias_leaky_relu_sum": nn.leaky_relu(relay.add(conv(X), BIAS), 0.1) + Y,
    "conv2d_bias_sum_prelu": nn.prelu(relay.add(conv(X), BIAS) + Y, constant(3, 16)),
    "conv2d_sum_relu": nn.relu(conv(X) + Y),
    "conv2d_relu": nn.relu(conv(X)),
    "conv2d_bias_swish": (lambda a: a * relay.sigmoid(a))(relay.add(conv(X), BIAS)),
    "conv2d_bias_gelu": gelu(relay.add(conv(X), BIAS)),
    "dense_bias_gelu": gelu(relay.add(nn.dense(var("x", 4, 8), constant(1, 6, 8)), constant(2, 6))),
    "dense_bias_sum": nn.bias_add(nn.dense(var("x", 4, 8), constant(1, 6, 8)), constant(2, 6))
    + var("y", 4, 6),
    "add_relu": nn.relu(X + var("z", 1, 8, 10, 10)),
    "gelu": gelu(X),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_chain_is_one_composite(name):
    assert table_composites(FOUND[name]) == [f"dnnl.{name}"]


GELUS = {
    "half_first": lambda x: (x * HALF) * (relay.erf(x * relay.const(1 / math.sqrt(2.0))) + ONE),
    "half_inside": lambda x: x * ((ONE + relay.erf(x / SQRT2)) * HALF),
    "distributed": lambda x: x * (relay.erf(x / SQRT2) * HALF + HALF),
}


@pytest.mark.parametrize("name", GELUS)
def test_spellings_of_gelu(name):
    dense = nn.bias_add(nn.dense(var("x", 4, 8), constant(1, 6, 8)), constant(2, 6))
    assert table_composites(GELUS[name](dense)) == ["dnnl.dense_bias_gelu"]


HARDSWISHES = {
    "divide": lambda x: x * (relay.clip(x + THREE, 0.0, 6.0) / SIX),
    "line": lambda x: x * relay.clip(x * relay.const(1 / 6) + HALF, 0.0, 1.0),
    "product": lambda x: (x * relay.clip(x + THREE, 0.0, 6.0)) / SIX,
}


@pytest.mark.parametrize("name", HARDSWISHES)
def test_spellings_of_hardswish(name):
    assert table_composites(HARDSWISHES[name](nn.bias_add(conv(X), constant(2, 16)))) == [
        "dnnl.conv2d_bias_hardswish"
    ]


def conv_bias_sum_relu():
    """The end of a residual block with a convolution on either way."""
    convs = [nn.bias_add(conv(data), constant(2, 16)) for data in (X, var("x2", 1, 8, 10, 10))]
    return nn.relu(relay.add(*convs))


def sums_of_convs(graph):
    chain = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    return collage.find_matches(is_op("nn.relu")(is_op("add")(chain, wildcard())), graph)


def test_a_sum_of_two_convolutions_is_offered_to_either():
    mod = typed(conv_bias_sum_relu())
    targets = [tvm.target.Target(name) for name in ("llvm", "dnnl")]
    offered = {
        tuple(sorted(candidate.sub_graph.inside))
        for candidate in collage.candidates(mod, targets)
        if "dnnl.conv2d_bias_sum_relu by" in str(candidate).replace("[", "").replace("]", "")
    }
    matches = sums_of_convs(collage.dataflow_graph(mod["main"]))
    assert offered == {tuple(sorted(match.inside)) for match in matches}
    assert len(offered) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_sum_runs_in_the_convolution_that_was_chosen(number):
    def find(graph):
        inside = sums_of_convs(graph)[number].inside
        return [graph.sub_graph(inside, composites={"dnnl.conv2d_bias_sum_relu": inside})]

    function = function_of(conv_bias_sum_relu())
    targets = parse_targets([tvm.target.Target(name) for name in ("llvm", "dnnl")])
    rules.set_partition_rule("dnnl", rules.Primitive(rules.Custom("chosen", find)))
    try:
        estimator = collage.MockCostEstimator({"llvm": 100, "dnnl": 1})
        mod = optimizer.partition(tvm.IRModule.from_expr(function), targets, estimator)
    finally:
        rules.set_partition_rule("dnnl", None)
    [name] = [v for v in mod.get_global_vars() if v.name_hint != "main"]
    [primitive] = lower_function(mod[name]).nodes
    assert [post.kind for post in primitive.post_ops] == ["sum", "relu"]
    mod[name] = mod[name].with_attr("Inline", tvm.tir.IntImm("int32", 1))
    inputs = random_inputs(function)
    assert_close(run(build(mod), inputs), reference(function, inputs))


def test_a_sum_of_which_one_side_is_broadcast():
    """The predicate cannot tell whose sum it is asked about; what it lets pass runs correctly."""
    small = nn.conv2d(
        var("x2", 1, 8, 3, 3), constant(3, 16, 8, 3, 3), channels=16, kernel_size=(3, 3)
    )
    for ends in ((conv(X), small), (small, conv(X))):
        function = function_of(relay.add(*ends))
        mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
        inputs = random_inputs(function)
        assert_close(run(build(mod), inputs), reference(function, inputs))


def test_almost_gelu_is_not_gelu():
    wrong = (X * (relay.erf(X / relay.const(1.5)) + ONE)) * HALF
    assert table_composites(wrong) == []


def test_scalar_is_no_bias():
    assert table_composites(relay.add(conv(X), relay.const(2.0))) == ["dnnl.conv2d"]


def test_bias_along_another_axis_is_no_bias():
    assert table_composites(relay.add(conv(X), constant(2, 10))) == ["dnnl.conv2d"]


def test_result_that_others_read_is_kept():
    out = conv(X)
    names = table_composites(relay.Tuple([nn.relu(out), out]))
    assert "dnnl.conv2d_relu" not in names and "dnnl.conv2d" in names


def test_other_types_are_left_alone():
    x = relay.var("x", shape=(1, 8, 10, 10), dtype="float16")
    weight = relay.var("w", shape=(16, 8, 3, 3), dtype="float16")
    assert table_composites(nn.conv2d(x, weight, channels=16, kernel_size=(3, 3))) == []


def test_dynamic_shapes_are_left_alone():
    x = relay.var("x", shape=(relay.Any(), 8, 10, 10))
    assert table_composites(conv(x)) == []


def test_op_predicates():
    takes = get_backend("dnnl").op_predicates

    def call(expr):
        mod = typed(expr)
        return mod["main"].body

    assert takes["nn.max_pool2d"](call(nn.max_pool2d(X, (2, 2))))
    assert takes["concatenate"](call(relay.concatenate([X, X], 1)))
    i, j = (relay.var(name, shape=(2,), dtype="int32") for name in "ij")
    assert not takes["add"](call(relay.add(i, j)))
    assert not takes["erf"](call(relay.erf(X)))
    assert takes["tanh"](call(relay.tanh(X)))
    assert "cumsum" not in takes


def blocked_conv():
    weights = relay.var("w", shape=(1, 1, 3, 3, 16, 16))
    layouts = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o"}
    return nn.conv2d(var("x", 1, 1, 8, 8, 16), weights, channels=16, kernel_size=(3, 3), **layouts)


def counted_pool():
    return nn.avg_pool2d(
        var("x", 1, 4, 9, 9), (3, 3), (2, 2), padding=(1, 1), ceil_mode=True, count_include_pad=True
    )


def halves(*shape):
    return relay.var("x", shape=shape, dtype="float16")


def qnn_dense():
    one, zero = relay.const(1.0), relay.const(0)
    weights = relay.const(np.ones((6, 8), "int8"))
    x = relay.var("x", shape=(4, 8), dtype="int8")
    product = relay.qnn.op.dense(x, weights, zero, relay.const(1), one, one, units=6)
    return relay.qnn.op.requantize(product, one, zero, one, zero, out_dtype="int8")


REFUSED = {
    "dnnl.conv2d": (blocked_conv(), "nn.conv2d: data_layout=NCHW16c is not supported"),
    "bare": (counted_pool(), "nn.avg_pool2d: ceil_mode=1 is not supported"),
    "dnnl.dense": (nn.dense(halves(4, 8), halves(6, 8)), "nn.dense: dtype=float16"),
    "dnnl.swish": ((lambda x: x * relay.sigmoid(x))(halves(4, 8)), "sigmoid: dtype=float16"),
    "dnnl.qnn_dense": (qnn_dense(), "qnn.dense: kernel_zero_point other than 0"),
    "dnnl.conv2d_bias": (conv(X) + relay.const(2.0), "not one primitive"),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_refusals_say_why(rule):
    body, reason = REFUSED[rule]
    mod = typed(body)
    rows = [row for row in collage.refusals(mod, ["llvm", "dnnl"]) if row.rule == rule]
    assert rows and all(reason in row.reason for row in rows)


def test_composite_names_of_tvms_own_table():
    """What TVM's own partition_for_dnnl makes compiles here too: its body says what to compute."""
    out = gelu(relay.add(nn.dense(var("x", 4, 8), constant(1, 6, 8)), constant(2, 6)))
    function = function_of(out)
    inputs = random_inputs(function)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    from tvm.relay.op.contrib import dnnl

    mod = relay.transform.MergeComposite(dnnl.pattern_table())(mod)
    mod = relay.transform.AnnotateTarget("dnnl")(mod)
    mod = relay.transform.PartitionGraph()(relay.transform.MergeCompilerRegions()(mod))
    assert len(mod.get_global_vars()) == 2
    assert_close(run(build(mod), inputs), reference(function, inputs))


def test_greedy_takes_the_largest_regions():
    body = nn.relu(nn.bias_add(conv(X), constant(2, 16)))
    body = relay.cumsum(nn.max_pool2d(body, (2, 2)), axis=1)
    body = nn.dense(nn.batch_flatten(body), constant(3, 10, 16 * 81))
    function = function_of(body)
    mod = greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
    parts = [mod[v] for v in mod.get_global_vars() if v.name_hint != "main"]
    assert len(parts) == 2
    for part in parts:
        assert part.attrs["Compiler"] == "dnnl" and part.attrs["Inline"] and part.attrs["Primitive"]
    inputs = random_inputs(function)
    assert_close(run(build(mod), inputs), reference(function, inputs))
    assert np.isfinite(run(build(mod), inputs)[0]).all()
