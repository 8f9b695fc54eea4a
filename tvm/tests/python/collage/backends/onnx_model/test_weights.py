# SPDX-License-Identifier: Apache-2.0
"""Weights in 8 bits: which are, how exactly, and what runs of them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx_nets import model
from relay_text import is_external
from tvm import IRModule, relay
from tvm.relay.collage.backends import get_backend, greedy_partition
from tvm.relay.collage.backends.onnx_model.weights import FIRST_OPSET, compress_weights

RNG = np.random.default_rng(0)
W = RNG.standard_normal((128, 256)).astype("float32")
node = helper.make_node


def net(nodes, weights, rows=1, inputs=128, outputs=256):
    return model(nodes, [("x", (rows, inputs))], [("y", (rows, outputs))], weights)


def operators(made):
    return [each.op_type for each in made.graph.node]


def output_of(made, x):
    return onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    "product, weights",
    [
        (node("MatMul", ["x", "w"], ["y"]), {"w": W}),
        (node("Gemm", ["x", "w", "b"], ["y"]), {"w": W, "b": W[0].copy()}),
        (node("Gemm", ["x", "w"], ["y"], transB=1), {"w": W.T.copy()}),
    ],
    ids=["matmul", "gemm", "turned"],
)
def test_a_product_computes_nearly_the_same_by_weights_of_a_quarter(product, weights):
    plain = net([product], weights)
    right = output_of(plain, x := RNG.standard_normal((1, 128)).astype("float32"))
    made = compress_weights(onnx.ModelProto.FromString(plain.SerializeToString()))
    onnx.checker.check_model(made)
    assert operators(made) == ["DequantizeLinear", product.op_type]
    assert made.ByteSize() < 0.3 * plain.ByteSize()
    error = np.abs(output_of(made, x) - right).max() / np.abs(right).max()
    assert 1e-4 < error < 0.02


def test_the_largest_weight_of_a_column_is_exact_and_others_are_off_by_half_a_step():
    weights = W.copy()
    weights[:, 3] = 0
    weights[:, 5] *= 1e-3  # a column of small weights has small steps
    made = compress_weights(net([node("MatMul", ["x", "w"], ["y"])], {"w": weights}))
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    again = kept["w.int8"] * kept["w.steps"]
    largest = np.abs(weights).max(axis=0)
    assert np.array_equal(again[:, 3], weights[:, 3])
    assert (np.abs(again - weights) <= 0.501 * largest / 127).all()
    at = np.abs(weights).argmax(axis=0), np.arange(256)
    np.testing.assert_allclose(again[at], weights[at], rtol=1e-6)


@pytest.mark.parametrize(
    "nodes, weights",
    [
        ([node("MatMul", ["x", "w"], ["y"])], {"w": W[:, :64].copy()}),
        ([node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "w"], ["y"])], {"w": W[:1].copy()}),
        (
            [node("MatMul", ["x", "w"], ["p"]), node("Gemm", ["p", "w"], ["y"], transB=1)],
            {"w": RNG.standard_normal((128, 128)).astype("float32")},
        ),
        (
            [
                node("MatMul", ["x", "w"], ["p"]),
                node("ReduceSum", ["w"], ["s"], keepdims=0),
                node("Add", ["p", "s"], ["y"]),
            ],
            {"w": W},
        ),
    ],
    ids=["small", "row", "both ways", "read elsewhere"],
)
def test_other_weights_stay_as_they_are(nodes, weights):
    made = net(nodes, weights, outputs=next(iter(weights.values())).shape[1])
    before = made.SerializeToString(deterministic=True)
    assert compress_weights(made).SerializeToString(deterministic=True) == before


def test_files_of_an_older_version_stay_as_they_are():
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [("x", (1, 128))],
        [("y", (1, 256))],
        {"w": W},
        opset=FIRST_OPSET - 1,
    )
    before = made.SerializeToString(deterministic=True)
    assert compress_weights(made).SerializeToString(deterministic=True) == before


def test_a_matrix_that_a_body_reads_too_stays_as_it_is():
    flag = helper.make_tensor("flag", onnx.TensorProto.BOOL, [], [True])
    bodies = {
        name: helper.make_graph(
            [node("ReduceSum", ["w"], [f"{name}_sum"], keepdims=0)],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_sum", 1, [])],
        )
        for name in ("then_branch", "else_branch")
    }
    made = net(
        [
            node("Constant", [], ["c"], value=flag),
            node("MatMul", ["x", "w"], ["p"]),
            node("If", ["c"], ["s"], **bodies),
            node("Add", ["p", "s"], ["y"]),
        ],
        {"w": W},
    )
    assert "DequantizeLinear" not in operators(compress_weights(made))


def test_openvino_runs_them():
    backend = get_backend("openvino_w8")
    if reason := backend.available():
        pytest.skip(reason)
    from onednn_nets import build, run

    x = relay.var("x", shape=(1, 128))
    body = relay.nn.relu(relay.nn.dense(x, relay.const(W.T.copy())))
    placed = greedy_partition(IRModule.from_expr(relay.Function([x], body)), "openvino_w8")
    assert any(map(is_external, placed.functions.values()))
    given = RNG.standard_normal((1, 128)).astype("float32")
    (got,) = run(build(placed), {"x": given})
    right = np.maximum(given @ W, 0)
    assert 1e-5 < np.abs(got - right).max() / np.abs(right).max() < 0.05


def test_it_says_which_operators_are_less_exact():
    backend = get_backend("openvino_w8")
    assert backend.trades("nn.dense") == "int8 weights" and backend.trades("nn.conv2d") == ""
    assert get_backend("openvino_bf16").trades("nn.conv2d") == "bfloat16"
    assert get_backend("dnnl").trades("nn.dense") == ""
