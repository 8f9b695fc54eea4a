# SPDX-License-Identifier: Apache-2.0
"""Runtimes of original files: inputs as they take them, outputs as arrays, what is missing."""

import sys
import types

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_nets import model
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.exec.reply import Unsupported
from tvm.relay.collage.plans.original.runtimes import run_original


@pytest.fixture
def run(tmp_path):
    def run(file, arrays, sets=0):
        inputs, outputs = str(tmp_path / "i.npz"), str(tmp_path / "o.npz")
        save_arrays(inputs, arrays)
        told = run_original(str(file), inputs, outputs, sets)
        with np.load(outputs) as found:
            return told, [found[name] for name in found.files]

    return run


def saved(tmp_path, proto):
    onnx.save(proto, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def relu():
    return model([helper.make_node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", [2, 3])])


X = np.array([[1, -2, 3], [-4, 5, -6]], "float32")


def test_onnx_by_names_and_in_the_types_that_it_takes(tmp_path, run):
    told, [output] = run(saved(tmp_path, relu()), {"x": X.astype("float64")})
    assert told["by"].startswith("onnxruntime ") and told["names"] == ["y"]
    assert output.dtype == "float32" and (output == np.maximum(X, 0)).all()


def test_sets_of_inputs_run_one_after_the_other(tmp_path, run):
    _, outputs = run(saved(tmp_path, relu()), {"x": np.stack([X, -X])}, sets=2)
    assert [(o == np.maximum(x, 0)).all() for o, x in zip(outputs, (X, -X))] == [True, True]


def test_an_input_that_the_module_lacks_is_made_up(tmp_path, run):
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", [2, 3]), ("unused", ["n", 4], TensorProto.INT64)],
        [("y", [2, 3])],
    )
    _, [output] = run(saved(tmp_path, proto), {"x": X})
    assert (output == np.maximum(X, 0)).all()


def test_a_sequence_of_tensors_is_its_tensors(tmp_path, run):
    proto = model(
        [
            helper.make_node("SplitToSequence", ["x"], ["s"], axis=0),
            helper.make_node("SequenceLength", ["s"], ["y"]),
        ],
        [("x", [2, 3])],
        [("y", [], TensorProto.INT64)],
    )
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    sequence = helper.make_sequence_type_proto(kind)
    proto.graph.output[0].CopyFrom(helper.make_value_info("s", sequence))
    told, outputs = run(saved(tmp_path, proto), {"x": X})
    assert len(outputs) == 2 and told["names"] == [], "there are more tensors than names"


def test_what_answers_otherwise_each_time_is_no_truth(tmp_path, run):
    proto = model([helper.make_node("RandomNormalLike", ["x"], ["y"])], [("x", [2])], [("y", [2])])
    with pytest.raises(Unsupported, match="otherwise each time"):
        run(saved(tmp_path, proto), {"x": np.zeros(2, "float32")})


@pytest.mark.parametrize(
    "name, modules, package",
    [
        ("net.onnx", ["onnxruntime"], "onnxruntime"),
        ("net.pt", ["torch"], "torch"),
        ("net.tflite", ["ai_edge_litert.interpreter", "tflite_runtime.interpreter"], "ai-edge-lit"),
    ],
)
def test_a_runtime_that_is_not_installed_is_named(
    monkeypatch, tmp_path, run, name, modules, package
):
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=f"not installed: pip install {package}"):
        run(tmp_path / name, {"x": X})


class Interpreter:
    """A TFLite model that takes the absolute value."""

    def __init__(self, model_path):
        self.model_path = model_path

    def get_input_details(self):
        return [{"name": "x", "index": 3}]

    def get_output_details(self):
        return [{"name": "y", "index": 5}]

    def resize_tensor_input(self, index, shape):
        self.shape = tuple(shape)

    def allocate_tensors(self):
        pass

    def set_tensor(self, index, array):
        assert index == 3 and array.shape == self.shape
        self.array = array

    def invoke(self):
        self.result = np.abs(self.array)

    def get_tensor(self, index):
        assert index == 5
        return self.result


def test_tflite_by_the_names_of_its_tensors(monkeypatch, tmp_path, run):
    fake = types.ModuleType("pytest.interpreter")
    fake.Interpreter = Interpreter
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", fake)
    told, [output] = run(tmp_path / "net.tflite", {"x": X})
    assert (output == np.abs(X)).all() and told["names"] == ["y"]
    assert told["by"] == f"pytest {pytest.__version__}"


def test_torchscript_by_names_or_its_one_input(tmp_path, run):
    torch = pytest.importorskip("torch", reason="torch is not among the requirements")

    class Net(torch.nn.Module):
        def forward(self, x, y):
            return x - y, {"sum": x + y}

    torch.jit.script(Net()).save(tmp_path / "net.pt")
    told, outputs = run(tmp_path / "net.pt", {"y": X, "x": 2 * X})
    assert [np.array_equal(a, b) for a, b in zip(outputs, (X, 3 * X))] == [True, True]
    with pytest.raises(Unsupported, match="its inputs are called x, y"):
        run(tmp_path / "net.pt", {"a": X, "b": X})
