# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes that Relay has no operators for: imported as one call each, beside onnxruntime."""

import sys

import numpy as np
import onnx_nets
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_one_node import (
    assert_alike,
    by_onnxruntime,
    by_tvm,
    by_vm,
    one_node,
    with_types,
)
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.ops import ONNX_NODES
from tvm.relay.collage.relay_util.walk import nodes_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype("float32")


def calls(mod):
    """Operators of ONNX that are calls of ours."""
    return [
        str(each.attrs["operator"])
        for each in nodes_of(mod["main"])
        if isinstance(each, relay.Call) and getattr(each.op, "name", "") in ONNX_NODES
    ]


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def while_loop():
    """s doubles until its largest element is above `limit`, of the graph around it."""
    body = helper.make_graph(
        [
            node("Add", ["s", "s"], ["s2"]),
            node("ReduceMax", ["s2"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["again"]),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []),
         value("s", TensorProto.FLOAT, [3, 4])],
        [value("again", TensorProto.BOOL, []), value("s2", TensorProto.FLOAT, [3, 4])],
    )  # fmt: skip
    return node("Loop", ["", "t", "x"], ["y"], body=body)


QUANTISED = {"x": RNG.integers(0, 256, (3, 4)).astype("uint8")}
CASES = {
    "a split into unequal parts": (node("Split", ["x"], ["a", "b", "c"], num_outputs=3),
                                   {"x": RNG.random((7, 2), "float32")}, {}),
    "the smallest": (node("TopK", ["x", "k"], ["v", "i"], largest=0), {"x": X},
                     {"k": np.array([2])}),
    "an operator of onnxruntime's own": (node("QuickGelu", ["x"], ["y"], domain="com.microsoft"),
                                         {"x": X}, {}),
    "bytes by signed bytes": (node("MatMulInteger", ["x", "w"], ["y"]), QUANTISED,
                              {"w": RNG.integers(-128, 128, (4, 5)).astype("int8")}),
    "a loop without a count": (while_loop(), {"x": X},
                               {"t": np.array(True), "limit": np.float32(100)}),
    "a batch norm in training": (
        node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"], training_mode=1),
        {"x": X}, {"s": np.ones(4, "float32")},
    ),
}  # fmt: skip


def assert_imported(model, inputs, operators, expected=None):
    """These of its operators are calls; it gives what onnxruntime gives, or what is expected."""
    mod, _ = collage.from_onnx(model)
    assert calls(mod) == operators
    assert_alike(by_tvm(mod, inputs), expected or by_onnxruntime(model, inputs))


@pytest.mark.parametrize("name", CASES)
def test_a_node_is_one_call_that_onnxruntime_computes(name):
    made, inputs, weights = CASES[name]
    model = one_node(made, inputs, weights)
    assert_imported(with_types(model, by_onnxruntime(model, inputs)), inputs, [made.op_type])


def test_between_operators_of_relay():
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("TopK", ["r", "k"], ["v", "i"], largest=0),
        node("Exp", ["v"], ["y"]),
    ]
    weights = {"k": np.array([2])}
    model = onnx_nets.model(nodes, [("x", [3, 4])], [("y", [3, 2])], weights)
    assert_imported(model, {"x": X}, ["TopK"])


def test_sizes_that_data_decide():
    model = one_node(node("Compress", ["x", "c"], ["a"]), {"x": X, "c": np.ones(12, bool)})
    made = node("CenterCropPad", ["a", "s"], ["y"])
    model.graph.node.append(made)
    model.graph.initializer.append(numpy_helper.from_array(np.array([6]), "s"))
    model.graph.output[0].name = "y"
    mod, _ = collage.from_onnx(model)
    assert "CenterCropPad" in calls(mod)
    several = [{"x": X, "c": chosen} for chosen in (np.ones(12, bool), np.arange(12) % 3 == 0)]
    for found, inputs in zip(by_vm(mod, *several), several, strict=True):
        assert_alike(found, by_onnxruntime(model, inputs))


def test_a_node_on_constants_becomes_their_result():
    made = node("TopK", ["w", "k"], ["v", "i"], largest=0)
    weights = {"w": X, "k": np.array([2])}
    nodes = [made, node("Add", ["x", "v"], ["y"])]
    model = onnx_nets.model(nodes, [("x", [3, 2])], [("y", [3, 2])], weights)
    assert_imported(model, {"x": X[:, :2]}, [])


def test_what_draws_numbers_is_no_constant():
    """Of a constant, too, it gives others in each run."""
    weights = {"w": np.ones((8, 8), "float32"), "r": np.float32(0.5), "t": np.array(True)}
    nodes = [node("Dropout", ["w", "r", "t"], ["d"]), node("Add", ["x", "d"], ["y"])]
    model = onnx_nets.model(nodes, [("x", [8, 8])], [("y", [8, 8])], weights, is_checked=False)
    mod, _ = collage.from_onnx(model)
    assert calls(mod) == ["Dropout"]
    first, again = (by_tvm(mod, {"x": np.zeros((8, 8), "float32")})[0] for _ in range(2))
    assert set(np.unique(first)) == {0, 2} and (first != again).any()


def test_an_older_version_stands_for_one_that_the_library_lacks():
    """Of RoiAlign onnxruntime 1.31 has version 16, of which 22 differs in types."""
    weights = {"r": np.array([[1, 1, 5, 6]], "float32"), "b": np.array([0])}
    made = node("RoiAlign", ["x", "r", "b"], ["y"], output_height=3, output_width=3)
    inputs = {"x": RNG.standard_normal((1, 2, 8, 8)).astype("float32")}
    older, newer = (one_node(made, inputs, weights, opset) for opset in (16, 22))
    expected = by_onnxruntime(older, inputs)
    assert_imported(with_types(newer, expected), inputs, ["RoiAlign"], expected)


def test_sizes_that_a_run_tells():
    """Neither ONNX nor onnxruntime says what a Scaler gives; no data decide about it."""
    made = node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    assert_imported(one_node(made, {"x": X}), {"x": X}, ["Scaler"])


def test_results_of_a_type_that_tvm_has_not_are_refused():
    made = node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E5M2)
    with pytest.raises(collage.ModelError, match="Cast .*float8e5m2"):
        collage.from_onnx(one_node(made, {"x": X}, opset=19))


def test_bytes_that_stand_for_four_bits_give_no_results_of_four_bits():
    made = node("QuantizeLinear", ["x", "s", "z"], ["y"])
    model = one_node(made, {"x": X}, {"s": np.float32(0.5)}, opset=21)
    model.graph.input.append(value("z", TensorProto.INT4, []))
    with pytest.raises(collage.ModelError, match="no values of its result's type"):
        collage.from_onnx(model)


def test_without_onnxruntime_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    made, inputs, weights = CASES["the smallest"]
    with pytest.raises(collage.ModelError, match="pip install onnxruntime"):
        collage.from_onnx(one_node(made, inputs, weights))
