# SPDX-License-Identifier: Apache-2.0
"""NNCF quantises a model by samples: each layer can be told from its values; what cannot be
quantised is an error of the model."""

import importlib.util

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_nets import attention, conv_net, model
from tvm.relay import collage
from tvm.relay.collage.precision import quantiser
from tvm.relay.collage.precision.layers import Quantised, is_quantised
from tvm.relay.collage.precision.quantiser import quantise


def samples(made, count=4):
    rng = np.random.default_rng(0)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in made.graph.input}
    return [
        {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    made = conv_net()
    files = quantise(made, samples(made), str(tmp_path_factory.mktemp("quantised")))
    return onnx.load(files.simple), onnx.load(files.quantised)


def test_normalisations_are_part_of_the_weights(forms):
    assert "BatchNormalization" not in {node.op_type for node in forms[0].graph.node}
    assert [node.name for node in forms[0].graph.node] == [
        node.output[0] for node in forms[0].graph.node
    ]


def test_each_layer_can_be_in_8_bits_or_not(forms):
    plain, quantised = forms
    assert is_quantised(quantised) and not is_quantised(plain)
    both = Quantised(plain, quantised)
    assert [layer.op for layer in both.layers] == ["Conv", "Conv", "Gemm"]
    one = both.model_with([both.layers[0].name])
    onnx.checker.check_model(one)
    weights = [tensor for tensor in one.graph.initializer if len(tensor.dims) > 1]
    assert sorted(tensor.data_type for tensor in weights) == [1, 1, onnx.TensorProto.INT8]


def test_products_of_attention_are_layers(tmp_path):
    made = attention()
    files = quantise(made, samples(made), str(tmp_path))
    both = Quantised(onnx.load(files.simple), onnx.load(files.quantised))
    products = [n.output[0] for n in both._model.graph.node if n.op_type == "MatMul"]
    layers = [layer.name for layer in both.layers]
    # The product of queries and keys reads values that were quantised before they were reshaped.
    assert {"q", "k", "v", "qk", "out", "wide", "narrow"} <= set(layers) <= set(products)
    rows = samples(made)

    def outputs(model):
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, rows[0])[0]

    whole = both.model_with([layer.name for layer in both.layers])
    np.testing.assert_allclose(outputs(whole), outputs(onnx.load(files.quantised)), 1e-3, 1e-4)
    assert len(whole.graph.node) == len(onnx.load(files.quantised).graph.node)


def test_an_older_model_is_brought_to_where_weights_have_an_axis(tmp_path):
    made = model(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        [("x", [1, 3, 8, 8])],
        [("y", [1, 4, 6, 6])],
        {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("float32")},
        opset=11,
    )
    files = quantise(made, samples(made), str(tmp_path))
    assert onnx.load(files.quantised).opset_import[0].version >= 13


def test_what_cannot_be_quantised_is_an_error_of_the_model(tmp_path):
    made = conv_net()
    wrong = [{"x": np.zeros((1, 5, 16, 16), "float32")}]
    with pytest.raises(collage.ModelError, match="it cannot be quantised"):
        quantise(made, wrong, str(tmp_path))


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(quantiser, "PACKAGE", "no_such_package_here")
    assert importlib.util.find_spec(quantiser.PACKAGE) is None
    with pytest.raises(collage.OptionError, match=r"pip install 'tvm-collage\[precision\]'"):
        quantiser.check_installed()
