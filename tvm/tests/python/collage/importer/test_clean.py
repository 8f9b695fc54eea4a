# SPDX-License-Identifier: Apache-2.0
"""Functions of a model written out, and the types that ONNX infers of values."""

import numpy as np
import onnx_nets
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relay
from tvm.relay.collage.importer.clean import cleaned, declared_types

node = helper.make_node


def operators(model):
    return [each.op_type for each in model.graph.node]


def net(nodes, inputs, outputs, weights=None, opset=20):
    return onnx_nets.model(nodes, inputs, outputs, weights or {}, opset, is_checked=False)


@pytest.mark.parametrize("opset, is_written", [(20, True), (17, True), (99, False)])
def test_functions_of_the_model_are_written_out(opset, is_written):
    """Those of another version are converted, or stay."""
    model = net([node("Twice", ["x"], ["y"], domain="my")], [("x", [2, 3])], [("y", None)])
    model.opset_import.append(helper.make_opsetid("my", 1))
    body, opsets = [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", opset)]
    model.functions.append(helper.make_function("my", "Twice", ["a"], ["b"], body, opsets))
    found, types = cleaned(model, {})
    assert operators(found) == (["Add"] if is_written else ["Twice"])
    assert bool(found.functions) != is_written
    assert not is_written or types["y"] == relay.TensorType([2, 3])
    assert operators(model) == ["Twice"]  # the user's stays as it is


@pytest.mark.parametrize(
    "made, opset",
    [
        (node("Gelu", ["x"], ["y"], approximate="tanh"), 20),
        (node("Gelu", ["x"], ["y"], approximate="tanh"), 21),
        (node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2), 21),
    ],
)
def test_operators_that_onnx_defines_by_others_are_written_out(made, opset):
    weights = {"s": np.ones(4, "float32")} if made.op_type != "Gelu" else {}
    model = net([made], [("x", [1, 4, 3, 3])], [("y", [1, 4, 3, 3])], weights, opset)
    found, types = cleaned(model, {})
    assert made.op_type not in operators(found) and len(found.graph.node) > 1
    assert types["y"] == relay.TensorType([1, 4, 3, 3])


def test_what_onnx_cannot_bring_to_the_models_version_stays_as_it_is():
    """Not as a call of a function that no library knows."""
    made = node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)
    x, weights = [1, 4, 3, 3], {"s": np.ones(4, "float32")}
    model = net([made], [("x", x)], [("y", x)], weights, 22)
    found, _ = cleaned(model, {})
    assert not found.functions and all(not each.domain for each in found.graph.node)


@pytest.mark.parametrize("attrs, opset", [({"approximate": "tanh"}, 17), ({}, 20)])
def test_what_the_version_lacks_or_tvm_has_a_converter_for_stays(attrs, opset):
    made = node("Gelu", ["x"], ["y"], **attrs)
    model = net([made], [("x", [2, 4])], [("y", [2, 4])], opset=opset)
    assert cleaned(model, {})[0] is model


def test_types_of_values_with_the_shapes_that_are_given():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["x"], ["small"], to=TensorProto.FLOAT8E5M2),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = {"w": np.zeros((64, 32), "float32")}  # too large to be looked at
    model = net(nodes, [("x", ["n", 64])], [("y", ["n", 32])], weights)
    _, types = cleaned(model, {"x": (7, 64)})
    assert types["y"] == relay.TensorType([7, 32])
    assert types["s"] == relay.TensorType([2], "int64")
    assert types["small"] is None  # TVM has no such type
    assert isinstance(cleaned(model, {})[1]["y"].shape[0], tvm.tir.Any)


def test_what_the_model_says_of_its_outputs_is_not_taken_for_known():
    """Exporters write wrong ones."""
    model = net([node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", [5])])
    assert "y" not in cleaned(model, {})[1] or cleaned(model, {})[1]["y"].shape[0] == 2
    assert declared_types(model)["y"] == relay.TensorType([5])


def test_a_model_that_onnx_cannot_read_has_no_types():
    model = net([node("Relu", ["ghost"], ["y"])], [("x", [2, 3])], [("y", [2, 3])])
    found, types = cleaned(model, {})
    assert found is model and isinstance(types, dict) and "y" not in types
