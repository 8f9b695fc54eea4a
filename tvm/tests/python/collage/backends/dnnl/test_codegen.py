# SPDX-License-Identifier: Apache-2.0
"""From a partition to primitives: what is fused with what, constants, the description."""

import json

import numpy as np
from onednn_nets import check, constant, function_of, hand_placed, var
from tvm import relay
from tvm.relay.collage.backends.dnnl.codegen import codegen, lower_function, to_json

nn = relay.nn


def conv(data, seed=1, channels=16):
    in_channels = int(relay.transform.InferTypeLocal(data).shape[1])
    return nn.conv2d(
        data, constant(seed, channels, in_channels, 1, 1), channels=channels, kernel_size=(1, 1)
    )


def lowered(body):
    return lower_function(hand_placed(function_of(body))["dnnl_part"])


def summary(graph) -> list[str]:
    return [" + ".join([node.op, *(post.kind for post in node.post_ops)]) for node in graph.nodes]


X = var("x", 1, 8, 6, 6)


def test_composites_and_bare_ops_give_the_same():
    body = nn.relu(nn.bias_add(conv(X), constant(2, 16)))
    assert summary(lowered(body)) == ["conv + relu"]
    p = var("p", 1, 8, 6, 6)
    inner = relay.Function([p], nn.relu(nn.bias_add(conv(p), constant(2, 16))))
    inner = inner.with_attr("Composite", "dnnl.whatever")
    assert summary(lowered(relay.Call(inner, [X]))) == ["conv + relu"]


def test_one_sum_of_two_convolutions_goes_to_one_of_them():
    graph = lowered(nn.relu(conv(X, 1) + conv(X, 2)))
    assert sorted(summary(graph)) == ["conv", "conv + sum + relu"]
    assert summary(graph)[0] == "conv", "the summand is computed first"


def test_scaled_activations_stay_whole():
    def affine(value, scale, shift):
        return relay.add(relay.multiply(value, relay.const(scale)), relay.const(shift))

    x = affine(conv(X), 0.7, 0.1)
    body = x * relay.clip(x + relay.const(3.0), 0.0, 6.0) / relay.const(6.0)
    assert summary(lowered(affine(body, 1.3, 0.2))) == ["conv + linear + hardswish + linear"]


def test_a_result_that_is_read_twice_is_not_fused_away():
    stem = conv(X)
    graph = lowered(relay.add(nn.relu(stem), stem))
    assert summary(graph) == ["conv", "eltwise", "binary"]


def test_an_output_is_not_fused_away():
    stem = conv(X)
    assert summary(lowered(relay.Tuple([nn.relu(stem), stem]))) == ["conv", "eltwise"]


def test_bias_becomes_a_vector():
    graph = lowered(relay.add(conv(X), constant(2, 1, 16, 1, 1)))
    bias = graph.nodes[0].inputs[2]
    assert graph.shapes[bias] == (16,)
    np.testing.assert_array_equal(graph.constants[bias].numpy(), constant(2, 16).data.numpy())


def test_a_module_holds_only_the_constants_that_it_needs():
    function = hand_placed(function_of(nn.bias_add(conv(X), constant(2, 16))))["dnnl_part"]
    module = codegen().compile(function)
    assert [each.shape for each in module["get_constants"]()] == [(16, 8, 1, 1), (16,)]
    assert list(module["get_const_vars"]()) == []  # TVM has none to keep for it
    swish = hand_placed(function_of(relay.clip(X + relay.const(3.0), 0.0, 6.0)))["dnnl_part"]
    assert len(codegen().compile(swish)["get_constants"]()) == 0


def test_description():
    graph = lowered(nn.relu(conv(X)))
    description = json.loads(to_json(graph))
    assert description["shapes"] == [[1, 8, 6, 6], [16, 8, 1, 1], [1, 16, 6, 6]]
    assert description["inputs"] == [0] and description["constants"] == [1]
    assert description["outputs"] == [2]
    (node,) = description["nodes"]
    assert node["kind"] == "conv" and node["inputs"] == [0, 1] and node["output"] == 2
    assert node["ints"]["groups"] == [1] and node["strings"]["data_layout"] == "NCHW"
    assert [post["kind"] for post in node["post_ops"]] == ["relu"]


def test_deep_functions_do_not_exhaust_the_stack():
    body = X
    for _ in range(1500):
        body = nn.relu(body)
    assert lowered(body).nodes


def dense_rows(x, rows, units=10):
    matrix = nn.dense(relay.reshape(x, (-1, 24)), constant(1, units, 24))
    return relay.reshape(matrix, (*rows, units))


def test_a_dense_layer_takes_bias_and_sum_behind_a_reshape_of_its_rows():
    x, other = var("x", 2, 3, 24), var("y", 2, 3, 10)
    body = nn.relu(relay.add(dense_rows(x, (2, 3)), constant(2, 10)) + other)
    graph = lowered(body)
    assert summary(graph) == ["reshape", "inner_product + sum + relu"]
    assert len(graph.nodes[1].inputs) == 3
    check(body)


def test_a_dense_layer_does_not_take_other_reshapes():
    x = var("x", 2, 3, 24)
    split = relay.reshape(nn.dense(relay.reshape(x, (6, 24)), constant(1, 10, 24)), (2, 3, 5, 2))
    assert summary(lowered(nn.relu(split))) == ["reshape", "inner_product", "reshape", "eltwise"]
    matrix = nn.dense(relay.reshape(x, (6, 24)), constant(1, 10, 24)) + var("y", 6, 10)
    assert summary(lowered(relay.reshape(matrix, (2, 3, 10))))[-1] == "reshape"
    check(nn.relu(split))
    check(relay.reshape(matrix, (2, 3, 10)))
