# SPDX-License-Identifier: Apache-2.0
"""Hand-placed partitions: weights, parameters and outputs of every kind, several parts."""

import numpy as np
import pytest
import tvm
from onednn_nets import (
    assert_close,
    build,
    constant,
    function_of,
    hand_placed,
    plan_of,
    random_inputs,
    reference,
    run,
)
from tvm import relay

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 14, 14), float32]) -> Tensor[(1, 16, 14, 14), float32] {
  %0 = nn.relu(%x);
  %1 = @dnnl_part(%0);
  tanh(%1)
}

def @dnnl_part(%p: Tensor[(1, 8, 14, 14), float32], Primitive=1, Inline=1, Compiler="dnnl",
               global_symbol="dnnl_part") -> Tensor[(1, 16, 14, 14), float32] {
  %2 = nn.conv2d(%p, meta[relay.Constant][0], padding=[1, 1, 1, 1], channels=16,
                 kernel_size=[3, 3]);
  %3 = nn.bias_add(%2, meta[relay.Constant][1]);
  nn.relu(%3)
}
"""


def text_module():
    """The module above, with weights."""
    weights = [constant(1, 16, 8, 3, 3), constant(2, 16)]
    mod = tvm.relay.parse(TEXT, "text", None, {"relay.Constant": weights})
    return relay.transform.InferType()(mod), weights


def text_reference(weights, inputs):
    x = relay.nn.relu(relay.var("x", shape=(1, 8, 14, 14)))
    out = relay.nn.conv2d(x, weights[0], padding=1, channels=16, kernel_size=(3, 3))
    out = relay.tanh(relay.nn.relu(relay.nn.bias_add(out, weights[1])))
    return reference(function_of(out), inputs)


@pytest.fixture(scope="module")
def net():
    mod, weights = text_module()
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 8, 14, 14)).astype("float32")}
    return mod, inputs, text_reference(weights, inputs)


def test_graph_executor(net):
    mod, inputs, wanted = net
    library = build(mod)
    assert_close(run(library, inputs), wanted)
    assert not library.get_params(), "weights live in the partition, packed once"
    assert "conv 1x8x14x14, 16x8x3x3, 16 -> 1x16x14x14 + relu" in plan_of(library)


def test_several_outputs():
    x = relay.var("x", shape=(1, 8, 10, 10))
    first = relay.nn.conv2d(x, constant(1, 16, 8, 1, 1), channels=16, kernel_size=(1, 1))
    second = relay.nn.relu(relay.add(first, constant(2, 16, 1, 1)))
    function = function_of(relay.Tuple([first, second, first, x]))
    inputs = random_inputs(function)
    assert_close(run(build(hand_placed(function)), inputs), reference(function, inputs))


def test_two_partitions_of_equal_shape():
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule()
    value = x
    for i in range(2):
        part = hand_placed(
            function_of(relay.nn.dense(relay.var("p", shape=(4, 8)), constant(i, 8, 8))), f"part{i}"
        )
        variable = part.get_global_var(f"part{i}")
        mod[variable] = part[variable]
        value = variable(value)
    mod["main"] = relay.Function([x], value)
    mod = relay.transform.InferType()(mod)
    wanted = relay.nn.dense(relay.nn.dense(x, constant(0, 8, 8)), constant(1, 8, 8))
    inputs = random_inputs(relay.Function([x], value))
    assert_close(run(build(mod), inputs), reference(function_of(wanted), inputs))


def test_tuple_as_parameter():
    pair = relay.var("pair", type_annotation=relay.TupleType([relay.TensorType((2, 3))] * 2))
    mod = hand_placed(relay.Function([pair], relay.op._make.concatenate(pair, 1)))
    part = mod.get_global_var("dnnl_part")
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    mod["main"] = relay.Function([x, y], part(relay.Tuple([x, y])))
    inputs = random_inputs(mod["main"])
    wanted = np.concatenate([inputs["x"], inputs["y"]], axis=1)
    assert_close(run(build(relay.transform.InferType()(mod)), inputs), [wanted])


def test_scalar_tensors():
    x, y = relay.var("x", shape=()), relay.var("y", shape=(2, 3))
    function = function_of(relay.add(y, relay.nn.relu(x)))
    inputs = {"x": np.array(0.5, "float32"), "y": np.ones((2, 3), "float32")}
    assert_close(run(build(hand_placed(function)), inputs), [np.full((2, 3), 1.5, "float32")])
