# SPDX-License-Identifier: Apache-2.0
"""The quick ONNX import: the stock importer's module, its errors named, nothing left behind."""

import copy
import functools
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_nets
import pytest
import tvm
from models.graph import Graph
from onnx import TensorProto, helper
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.importer import clean
from tvm.relay.collage.importer import onnx as importer
from tvm.relay.collage.importer.activations import ACTIVATIONS
from tvm.relay.collage.relay_util.walk import children_of
from tvm.relay.frontend import common
from tvm.relay.frontend import onnx as stock_onnx

# TVM's importer warns of what it guesses and of opsets.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# Of an LSTM that our operator for recurrent layers (ops/test_recurrence.py) does not describe.
LEFT_TO_TVM = ["HardSigmoid", "Tanh", "Tanh"]


def net_of_many_kinds():
    """Branches, several outputs of a node, some of them unused, and a shape that is computed."""
    g = Graph("kinds")
    x = g.relu(g.norm(g.conv(g.input("x", (1, 4, 6, 6)), 8, 3)))
    halves = g.op("Split", g.concat([x, g.pool("Max", x, 3, 1, 1)]), axis=1, outputs=2)
    y = g.op("Mul", halves[0], g.op("Sigmoid", halves[1]))
    first = g.op("Gather", g.op("Shape", y), g.constant([0]))
    y = g.op("Reshape", y, g.op("Concat", first, g.constant([-1]), axis=0))
    gates = g.normal((1, 16, 3), 1.0), g.normal((1, 16, 4), 1.0)
    attrs = {"hidden_size": 4, "activations": LEFT_TO_TVM}
    _, h, c = g.op("LSTM", g.input("steps", (2, 1, 3)), *gates, outputs=3, **attrs)
    return g.model(y, g.op("Add", h, c))


def dynamic_indices():
    """Indices that may be negative, of data whose rows are not known: shape_of stays, and is used
    twice."""
    node = helper.make_node
    nodes = [
        node("Gather", ["x", "at"], ["g"], axis=0),
        node("EyeLike", ["x"], ["e"]),
        node("Shape", ["e"], ["s"]),
        node("ConstantOfShape", ["s"], ["zeros"]),
        node("NonZero", ["g"], ["n"]),
        node("Add", ["zeros", "e"], ["y"]),
    ]
    inputs = [("x", ["rows", 4]), ("at", [3], TensorProto.INT64)]
    return onnx_nets.model(nodes, inputs, [("y", ["rows", 4]), ("n", [2, "k"], TensorProto.INT64)])


def quantised():
    """Weights and activations of eight bits between QuantizeLinear and DequantizeLinear."""
    node = helper.make_node
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-127, 127, (4, 3, 3, 3)).astype("int8"),
        "scale": np.float32(0.1),
        "w_scales": rng.random(4).astype("float32") + 0.1,
        "w_zeros": np.zeros(4, "int8"),
        "zero": np.uint8(3),
    }
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "w_scales", "w_zeros"], ["dw"], axis=0),
        node("Conv", ["d", "dw"], ["c"]),
        node("QuantizeLinear", ["c", "scale", "zero"], ["qc"]),
        node("DequantizeLinear", ["qc", "scale", "zero"], ["y"]),
    ]
    return onnx_nets.model(nodes, [("x", [1, 3, 6, 6])], [("y", [1, 4, 4, 4])], weights)


def products():
    """Matrices of rank 3, whose shapes TVM's importer computes: slow there, so they are few."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["wide"]),
        helper.make_node("MatMul", ["wide", "v"], ["y"]),
    ]
    w = onnx_nets.Weights()
    w.add("w", 8, 4), w.add("v", 1, 4, 3)
    return onnx_nets.model(nodes, [("x", [1, 6, 8])], [("y", [1, 6, 3])], w)


NETS = {
    "conv": onnx_nets.conv_net,
    "products": products,
    "lstm": lambda: onnx_nets.lstm(activations=LEFT_TO_TVM),
    "branch": onnx_nets.branch,
    "loop": onnx_nets.loop,
    "static shapes": lambda: onnx_nets.shape_arithmetic(2),
    "dynamic batch": onnx_nets.shape_arithmetic,
    "several outputs": onnx_nets.several_outputs,
    "many kinds": net_of_many_kinds,
    "dynamic indices": dynamic_indices,
    "quantised": quantised,
}


@functools.cache
def stock(name):
    """What stock TVM imports."""
    return relay.frontend.from_onnx(NETS[name]())


def assert_same(name, **options):
    """Module and parameters as we import them are what stock TVM makes of the model."""
    mod, params = collage.from_onnx(NETS[name](), **options)
    plain = relay.frontend.from_onnx(NETS[name](), **options) if options else stock(name)
    expected, expected_params = plain
    tvm.ir.assert_structural_equal(mod, expected, map_free_vars=True)
    # The text says which expressions are shared, and their spans are of the model's nodes.
    assert mod.astext(show_meta_data=False) == expected.astext(show_meta_data=False)
    assert params.keys() == expected_params.keys()
    for name, value in params.items():
        assert value.numpy().tobytes() == expected_params[name].numpy().tobytes()
    return mod


@pytest.mark.parametrize("name", NETS)
def test_the_module_is_the_stock_importers(name):
    assert_same(name)


@pytest.mark.parametrize("name", ["conv", "products", "dynamic indices"])
def test_parameters_that_stay_variables(name):
    assert_same(name, freeze_params=False)


def test_the_arguments_are_those_of_the_stock_importer(tmp_path):
    import inspect

    ours, stock = map(inspect.signature, (collage.from_onnx, relay.frontend.from_onnx))
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default) for p in stock.parameters.values()
    ]
    options = {"shape": {"x": (3, 3, 8, 8)}, "dtype": {"x": "float32"}, "opset": 13}
    mod = assert_same("dynamic batch", **options)
    assert [int(dim) for dim in mod["main"].params[0].checked_type.shape] == [3, 3, 8, 8]
    collage.from_onnx(onnx_nets.loop(), export_node_renamed_model_path=str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1


@functools.cache
def backend_tests():
    """Models of ONNX's own tests of backends, that its package holds."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return sorted(path.parent for path in data.glob("*/*/model.onnx"))


def check_backend_test(path):
    """None where stock TVM cannot import the model, else True: ours is the same."""
    model = onnx.load(path / "model.onnx")
    # TVM's importer draws a seed, another each time; ours has one operator for a recurrent layer,
    # exact formulas, and writes some operators out.
    others = {"Bernoulli", "LSTM", "GRU", "RNN", *ACTIVATIONS, *clean._WRITTEN_OUT}
    if not others.isdisjoint(node.op_type for node in model.graph.node):
        return None
    try:
        expected = relay.frontend.from_onnx(copy.deepcopy(model))
    except Exception:  # noqa: BLE001 - of any kind, of any operator
        return None
    try:
        mod, _ = collage.from_onnx(model)
    except collage.ModelError:
        return None  # of a type that TVM has not, for which stock TVM takes another
    if "collage.onnx_node" in mod.astext(show_meta_data=False):
        return None  # onnxruntime computes what stock TVM gets wrong (bench/conformance.py)
    tvm.ir.assert_structural_equal(mod, expected[0], map_free_vars=True)
    assert mod.astext(show_meta_data=False) == expected[0].astext(show_meta_data=False)
    return True


# Operators that stock TVM imports in seconds.
SLOW = {"EyeLike", "Loop", "MaxUnpool", "NonMaxSuppression", "Unique"}


def one_for_each_operator():
    """The models of fewest nodes, then bytes, with each operator in the main graph, but for SLOW
    ones; functions expanded into nodes are slow, too."""
    smallest = {}
    for path in backend_tests():
        model = onnx.load(path / "model.onnx")
        operators = {node.op_type for node in model.graph.node}
        if "_expanded" not in path.name and SLOW.isdisjoint(operators):
            size = len(model.graph.node), model.ByteSize()
            for operator in operators:
                smallest[operator] = min((size, path), smallest.get(operator, (size, path)))
    return sorted({path for _, path in smallest.values()})


def test_models_of_onnx_itself(capfd):
    """One for each operator; COLLAGE_IMPORT_TESTS=1: all (some hours of CPU, most stock TVM's)."""
    is_whole = os.environ.get("COLLAGE_IMPORT_TESTS")
    results = [
        check_backend_test(p) for p in (backend_tests if is_whole else one_for_each_operator)()
    ]
    assert results.count(True) > len(results) // 3


def failing(op, inputs, **attrs):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node(op, inputs, ["y"], name="second", **attrs),
    ]
    return onnx_nets.model(nodes, [("x", (2, 3))], [("y", None)], is_checked=False)


@pytest.mark.parametrize(
    "op, inputs, attrs, why",
    [
        ("Cast", ["r"], {"to": TensorProto.STRING}, "STRING|string|object"),
        ("Reshape", ["r", "nowhere"], {}, "it reads 'nowhere', which nothing gives"),
        ("NoSuchOperator", ["r"], {}, "not implemented.*onnxruntime does not take it either"),
        # TVM reads a node's attributes before it asks for its name.
        ("Constant", [], {"value_type": helper.make_tensor_type_proto(1, [1])}, "[A-Za-z0-9]"),
    ],
)
def test_an_error_names_the_node_on_one_line(op, inputs, attrs, why):
    with pytest.raises(collage.ModelError) as caught:
        collage.from_onnx(failing(op, inputs, **attrs))
    where, _, reason = str(caught.value).partition(f'node {op} "second" (output "y"): ')
    assert where == "TVM cannot import the ONNX " and re.search(why, reason)
    assert "\n" not in reason and caught.value.__cause__ is not None


@pytest.mark.parametrize("what", ["nodes", "outputs"])
def test_an_empty_model_is_refused(what):
    node = helper.make_node("Relu", ["x"], ["y"])
    nodes = [] if what == "nodes" else [node]
    empty = onnx.ModelProto() if what == "nodes" else onnx.ModelProto(graph={"node": nodes})
    with pytest.raises(collage.ModelError, match=f"the ONNX model has no {what}: .* export it"):
        collage.from_onnx(empty)


def test_a_wrong_count_of_channels_is_one_line(capfd):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])]
    weights = {"w": np.zeros((4, 4, 3, 3), "float32")}
    ends = ([(name, [1, 5, 8, 8])] for name in "xy")
    model = onnx_nets.model(nodes, *ends, weights, is_checked=False)
    with pytest.raises(collage.ModelError, match="TVM cannot import") as caught:
        collage.from_onnx(model)
    assert "\n" not in str(caught.value) and capfd.readouterr() == ("", "")


def test_a_path_is_no_model():
    with pytest.raises(TypeError, match="an onnx.ModelProto, got str: onnx.load"):
        collage.from_onnx("model.onnx")


INPUTS = {
    "no shape": (TensorProto.FLOAT, None, collage.errors.ShapeError, "x has no shape .*--shape"),
    "float8": (TensorProto.FLOAT8E5M2, [3], collage.ModelError, "x is of type float8e5m2, and TVM"),
    "string": (TensorProto.STRING, [3], collage.ModelError, "x is of type string, and TVM"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_is_no_tensor_of_tvms_is_refused(name):
    kind, shape, error, why = INPUTS[name]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    model = onnx_nets.model(nodes, [("x", shape, kind)], [("y", [3])], is_checked=False)
    with pytest.raises(error, match=why):
        collage.from_onnx(model)


def test_a_shape_that_is_given_stands_for_one_that_is_not_there():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = onnx_nets.model(nodes, [("x", None)], [("y", [3])], is_checked=False)
    mod, _ = collage.from_onnx(model, shape={"x": (3,)})
    assert [int(n) for n in mod["main"].params[0].type_annotation.shape] == [3]


def patched():
    """Which of TVM's functions are others than when this file was imported."""
    return [place for place, function in STOCK.items() if vars(place[0])[place[1]] is not function]


PLACES = [
    (relay.frontend, "from_onnx"),
    (stock_onnx.GraphProto, "_check_for_unsupported_ops"),
    (common, "infer_type"),
    (common, "fold_constant"),
    (stock_onnx, "infer_type"),
    (stock_onnx, "fold_constant"),
    (stock_onnx, "set_span"),
    (stock_onnx, "_get_convert_map"),
    (stock_onnx, "get_source_name"),
    (stock_onnx.GraphProto, "_construct_nodes"),
    (stock_onnx.GraphProto, "_convert_operator"),
]
STOCK = {place: vars(place[0])[place[1]] for place in PLACES}


def test_scopes_overlap_and_leave_stock_tvm_behind():
    model = onnx_nets.conv_net()
    inside, leave = threading.Event(), threading.Event()
    made = {}

    def first():
        with collage.quick_import():
            inside.set()
            leave.wait()

    def second():
        with collage.quick_import():
            leave.set()
            thread.join()
            made["quick"] = type(common.infer_type(relay.const(1.0)))
            made["mod"] = relay.frontend.from_onnx(copy.deepcopy(model))[0]

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    # In a thread without a scope TVM is stock.
    assert patched() and isinstance(common.infer_type(relay.const(1.0)), relay.Constant)
    other = threading.Thread(target=second)
    other.start()
    other.join()
    assert not issubclass(made["quick"], relay.Constant) and patched() == []
    tvm.ir.assert_structural_equal(made["mod"], stock("conv")[0])


def test_an_error_leaves_stock_tvm_behind():
    with pytest.raises(collage.ModelError), collage.quick_import():
        relay.frontend.from_onnx(failing("Reshape", ["r", "nowhere"]))
    assert patched() == []


def test_imports_at_once_in_threads():
    names = ("conv", "products", "loop")
    with ThreadPoolExecutor(len(names)) as pool:
        made = pool.map(lambda name: collage.from_onnx(NETS[name]())[0], names)
    for mod, name in zip(made, names, strict=True):
        tvm.ir.assert_structural_equal(mod, stock(name)[0])
    assert patched() == []


def test_types_are_worked_out_once_and_no_call_is_folded_twice(monkeypatch):
    """Work grows with the net, not with its square: a chain four times as long."""
    from tvm.relay.collage.importer import folds, types

    def work(length):
        count = dict.fromkeys(("typed", "folded"), 0)

        def counted(owner, name, key):
            stock = getattr(owner, name)

            def call(*args):
                count[key] += 1
                return stock(*args)

            monkeypatch.setattr(owner, name, call)

        counted(types.Types, "_infer", "typed")
        counted(folds.Folds, "_fold", "folded")
        nodes = [
            helper.make_node("LogSoftmax", [f"v{index}"], [f"v{index + 1}"])
            for index in range(length)
        ]
        collage.from_onnx(onnx_nets.model(nodes, [("v0", [2, 3])], [(f"v{length}", [2, 3])]))
        monkeypatch.undo()
        return count

    short, long = work(10), work(40)
    assert 0 < long["typed"] <= 5 * short["typed"]
    assert 0 < long["folded"] <= 5 * short["folded"]


def test_a_layer_of_many_steps_is_walked_once(monkeypatch):
    """The steps of an LSTM share what comes before: the paths through them double with each."""
    walked = []

    def counting(expr):
        walked.append(expr)
        assert len(walked) < 10_000, "expressions are met again for each path to them"
        return children_of(expr)

    monkeypatch.setattr(importer, "children_of", counting)
    g = Graph("steps")
    gates = g.normal((1, 16, 3), 1.0), g.normal((1, 16, 4), 1.0)
    attrs = {"hidden_size": 4, "activations": LEFT_TO_TVM}
    _, h, _ = g.op("LSTM", g.input("x", (12, 1, 3)), *gates, outputs=3, **attrs)
    mod, _ = collage.from_onnx(g.model(h))
    assert mod["main"].astext(show_meta_data=False).count("tanh") == 2 * 12
    assert walked
