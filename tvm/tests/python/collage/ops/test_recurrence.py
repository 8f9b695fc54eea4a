# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of ONNX files as one operator: what it computes, what is left to TVM."""

from pathlib import Path

import numpy as np
import onnx
import onnx_nets
import pytest
import tvm
from onnx import helper, numpy_helper
from onnx_cases import f, layer, typed
from onnx_one_node import by_onnxruntime
from relay_text import operators, plain_host
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.candidate.inputs import describe_inputs
from tvm.relay.collage.candidate.weights import kept_constants
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.ops import KINDS
from tvm.relay.collage.ops import recurrence_kernel as kernel
from tvm.relay.collage.relay_util.walk import operator_calls

pytest.importorskip("onnxruntime")

# TVM's importer warns of what it guesses and of opsets.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
OPERATORS = {item.operator for item in KINDS.values()}


class Layers:
    """An ONNX model of recurrent layers of one input, each with weights of its own."""

    def __init__(self, steps, batch, width, units):
        self.sizes, self.units = (steps, batch, width), units
        self.weights, self.nodes = onnx_nets.Weights(), []
        self.inputs = {"x": [steps, batch, width]}
        self.outputs = {}

    def add(
        self,
        kind,
        direction="forward",
        bias=True,
        state=False,
        lengths=False,
        peepholes=False,
        **attrs,
    ):
        d, gates, n = DIRECTIONS[direction], KINDS[kind].gates * self.units, len(self.nodes)
        steps, batch, width = self.sizes
        names = [f"w{n}", f"r{n}", f"b{n}", "", f"h{n}", f"c{n}"]
        self.weights.add(names[0], d, gates, width)
        self.weights.add(names[1], d, gates, self.units)
        if bias:
            self.weights.add(names[2], d, 2 * gates)
        rows = [d, batch, self.units]
        states = names[4 : 4 + KINDS[kind].states] if state else []
        self.inputs.update(dict.fromkeys(states, rows))
        if lengths:
            names[3] = "lengths"
            self.weights["lengths"] = np.arange(batch, dtype="int32") % steps + 1
        given = ["x", *names[:2], names[2] if bias else "", names[3], *states]
        if peepholes:
            self.weights.add(f"p{n}", d, 3 * self.units)
            given += ["", "", f"p{n}"]
        outputs = [f"{name}{n}" for name in ("all", "last", "cell")[: 1 + KINDS[kind].states]]
        self.outputs.update(dict(zip(outputs, [[steps, *rows], rows, rows])))
        self.nodes.append(
            helper.make_node(
                *(kind, given, outputs), direction=direction, hidden_size=self.units, **attrs
            )
        )

    def model(self):
        inputs, outputs = self.inputs.items(), self.outputs.items()
        return onnx_nets.model(self.nodes, inputs, outputs, self.weights, opset=14)

    def arrays(self):
        rng = np.random.default_rng(1)
        return {n: rng.standard_normal(s).astype("float32") for n, s in self.inputs.items()}


def all_layers(*sizes):
    layers = Layers(*sizes)
    layers.add("LSTM")
    layers.add("LSTM", "reverse", state=True, bias=False)
    layers.add("LSTM", "reverse", lengths=True)
    layers.add("LSTM", "bidirectional", state=True, lengths=True)
    layers.add("GRU", linear_before_reset=1)
    layers.add("GRU", "reverse", activations=["Sigmoid", "Relu"])
    layers.add("GRU", "bidirectional", state=True, bias=False)
    layers.add("GRU", "bidirectional", lengths=True, linear_before_reset=1)
    layers.add("RNN", lengths=True)
    layers.add("RNN", "reverse", state=True)
    layers.add("RNN", "bidirectional", activations=["Relu", "Relu"])
    return layers


def run(mod, arrays, params=None, build=build_library):
    """TVM's own build compiles each constant that it folds, which takes twice the time of ours."""
    with tvm.transform.PassContext(opt_level=3):
        library = build(mod, plain_host(), params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(**arrays)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def assert_close(results, wanted):
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "batch, units, many, build",
    [
        (6, 20, kernel.MANY, build_library),
        (1, 1, 1, relay.build),
        *(
            pytest.param(*sizes, marks=pytest.mark.slow("eleven layers of other sizes"))
            for sizes in ((1, 10, 1, build_library), (4, 17, kernel.MANY, relay.build))
        ),
    ],
)
def test_all_kinds_give_what_onnxruntime_gives(batch, units, many, build, monkeypatch):
    """With `many` of 1 as large layers do: rows by thread, or a step's columns. Of 17 and 1 units
    one is left for a vector of one number, which TVM does not know."""
    monkeypatch.setattr(kernel, "MANY", many)
    monkeypatch.setattr(kernel, "BLOCK", 16)
    layers = all_layers(4, batch, 3, units)
    model, arrays = layers.model(), layers.arrays()
    mod, _ = collage.from_onnx(model)
    found = operators(mod)
    assert sum(name in OPERATORS for name in found) == len(layers.nodes)
    assert found.count("nn.dense") == len(layers.nodes)  # one for all steps
    wanted = by_onnxruntime(model, arrays)
    assert_close(run(mod, arrays, build=build), wanted)


def own_tests():
    """Models with inputs and outputs that the package onnx holds."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    found = [path for kind in ("lstm", "gru", "*rnn") for path in data.glob(f"test_{kind}_*")]
    return sorted(p for p in found if p.name.endswith(("batchwise", "initial_bias", "seq_length")))


def arrays_of(path, kind):
    files = sorted(path.glob(f"test_data_set_0/{kind}_*.pb"))
    return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


@pytest.mark.parametrize("path", own_tests(), ids=lambda path: path.name)
def test_models_of_onnx_itself(path):
    """Weights and lengths are inputs in some of them, some have the batch first."""
    model = onnx.load(path / "model.onnx")
    mod, params = collage.from_onnx(model)
    assert not OPERATORS.isdisjoint(operators(mod))
    names = [item.name for item in model.graph.input]
    inputs = dict(zip(names, arrays_of(path, "input"), strict=True))
    known = {param.name_hint for param in mod["main"].params}
    results = run(mod, {name: inputs[name] for name in known}, params)
    assert_close(results, arrays_of(path, "output"))


@pytest.mark.parametrize(
    "kind, attrs",
    [
        ("LSTM", {"activations": ["HardSigmoid", "Tanh", "Tanh"]}),
        ("LSTM", {"peepholes": True}),
        ("GRU", {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh"] + ["Relu"] * 2}),
    ],
)
def test_other_functions_are_left_to_tvm(kind, attrs):
    layers = Layers(3, 2, 3, 4)
    layers.add(kind, **attrs)
    found = operators(collage.from_onnx(layers.model())[0])
    assert OPERATORS.isdisjoint(found)
    assert found.count("tanh") >= layers.sizes[0]  # one a step at least


def test_a_start_of_unknown_shape_is_left_to_tvm():
    layers = Layers(3, 2, 3, 4)
    layers.add("LSTM", state=True)
    model = layers.model()
    for item in model.graph.input:
        if item.name != "x":
            item.type.tensor_type.shape.dim[1].dim_param = "rows"
    assert OPERATORS.isdisjoint(operators(collage.from_onnx(model)[0]))


def test_mixed_precision_leaves_layers_in_float32():
    layers = Layers(3, 2, 3, 4)
    layers.add("GRU", state=True)
    mod, params = collage.from_onnx(layers.model())
    mod = relay.transform.ToMixedPrecision("float16")(relay.transform.InferType()(mod))
    types = {call.op.name: call for call in operator_calls(mod)}
    assert types["nn.dense"].checked_type.dtype == "float16"
    assert types["collage.gru"].checked_type.fields[0].dtype == "float32"


def test_lengths_are_made_up_as_all_steps_and_starts_belong_to_the_key():
    """No step would be done of rows without any, and a library may leave out states of zero."""
    function = typed(*layer("LSTM"))
    described = describe_inputs(tvm.IRModule.from_expr(function))
    assert [(item["low"], item["high"]) for item in described if item["dtype"] == "int32"] == [
        (4, 4)
    ]
    start = function.params[4]
    keys = set()
    for states in (np.zeros, np.ones):
        values = relay.const(states([int(e) for e in start.checked_type.shape], "float32"))
        body = relay.bind(function.body, {start: values})
        mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
        kept = kept_constants([mod["main"]], mod)
        keys |= {tuple(constant.data.numpy().ravel()) for constant in kept}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "attrs",
    [
        {"clip": 0.5},
        {"input_forget": 1},
        {"lengths": True, "activations": ["HardSigmoid", "Tanh", "Tanh"]},
    ],
)
def test_what_tvm_would_drop_is_left_to_onnxruntime(attrs):
    layers = Layers(3, 2, 3, 4)
    layers.add("LSTM", **attrs)
    mod, _ = collage.from_onnx(layers.model())
    assert "collage.onnx_node" in mod.astext(show_meta_data=False)


def test_a_long_layer_is_imported_as_one_operator():
    layers = Layers(1000, 1, 2, 3)
    layers.add("GRU")
    assert len(operators(collage.from_onnx(layers.model())[0])) < 10


def test_files_hold_the_operator():
    mod = tvm.IRModule.from_expr(typed(*layer("LSTM", "bidirectional")))
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    arrays = {
        f"x{n}": np.full([int(e) for e in param.checked_type.shape], 1, param.checked_type.dtype)
        for n, param in enumerate(mod["main"].params)
    }
    again = relay.fromtext(mod.astext())
    assert_close(run(again, arrays, build=relay.build), run(mod, arrays))


def test_operands_of_a_wrong_shape_are_named():
    types, build = layer("GRU")
    types[1] = f(1, 4, 9)
    with pytest.raises(tvm.TVMError, match="collage.gru: an operand is"):
        typed(types, build)
