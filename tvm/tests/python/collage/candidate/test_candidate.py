# SPDX-License-Identifier: Apache-2.0
"""Candidate modules: identity, weight-free form and back, random data."""

import json
from importlib import import_module

import numpy as np
import pytest
import tvm
from candidate_nets import conv, external
from measure_fakes import measure
from onnx import helper
from onnx_nets import model
from tvm import relay
from tvm.relay.collage.ops import library_version, onnx_node
from tvm.relay.collage.relay_util.walk import nodes_of

LLVM = "llvm"


def key(function, backend="tvm", **more):
    return measure.candidate_module(function, backend, LLVM, **more).key()


def test_equal_up_to_names_and_weight_values():
    assert key(conv(0)) == key(conv(1, name="another"))
    assert key(external(0, "a")) == key(external(1, "b"))


@pytest.mark.parametrize(
    "other",
    [
        conv(channels=16),
        conv(size=1),
        conv(bias=False),
        external(),
        external(weight_shape=(16, 8)),
    ],
)
def test_different_functions_differ(other):
    assert key(conv()) != key(other)


def test_backend_target_and_options_are_part_of_the_key():
    keys = {key(conv()), key(conv(), "dnnl"), key(conv(), build_options={"opt_level": 2})}
    keys.add(measure.candidate_module(conv(), "tvm", "llvm -mcpu=skylake").key())
    assert len(keys) == 4


def test_the_library_that_runs_nodes_for_tvm_is_part_of_the_key(monkeypatch):
    """Another version of it takes another time."""
    x = relay.var("x", shape=(2, 4))
    proto = model([helper.make_node("Elu", ["input_0"], ["output_0"])], [("input_0", [2, 4])],
                  [("output_0", [2, 4])])  # fmt: skip
    node = relay.Function([x], onnx_node(proto, [x], [relay.TensorType([2, 4])]))
    options = measure.candidate_module(node, "tvm", LLVM).build_options
    assert options == {"calls": library_version()} and "onnxruntime 1." in library_version()
    assert measure.candidate_module(conv(), "tvm", LLVM).build_options == {}
    before = key(node), key(conv())
    module = import_module(measure.candidate_module.__module__)
    monkeypatch.setattr(module, "library_version", lambda: "onnxruntime 9")
    assert key(node) != before[0] and key(conv()) == before[1]


def test_small_constants_keep_their_values():
    x = relay.var("x", shape=(4,))
    two, three = (relay.Function([x], relay.power(x, relay.const(v))) for v in (2.0, 3.0))
    assert key(two) != key(three)


def test_sharing_a_weight_is_not_having_two():
    x = relay.var("x", shape=(2, 8))
    a, b = (relay.const(np.full((8, 8), v, "float32")) for v in (1.0, 2.0))
    shared = relay.Function([x], relay.nn.dense(relay.nn.dense(x, a), a))
    apart = relay.Function([x], relay.nn.dense(relay.nn.dense(x, a), b))
    assert key(shared) != key(apart)


def test_weights_do_not_travel_and_come_back_as_constants():
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((512, 512)).astype("float32")
    x = relay.var("x", shape=(1, 512))
    function = relay.Function([x], relay.nn.dense(x, relay.const(weight)))
    candidate = measure.candidate_module(function, "tvm", LLVM)
    text = json.dumps(candidate.to_json())
    assert len(text) < 20_000
    again = measure.CandidateModule.from_json(json.loads(text))
    assert again == candidate and again.key() == candidate.key()
    assert again.weight_bytes == weight.nbytes
    main = again.instantiate(seed=1)["main"]
    assert [p.name_hint for p in main.params] == ["x"]
    value = main.body.args[1].data.numpy()
    assert value.shape == weight.shape and 0.9 < value.std() * np.sqrt(512) < 1.1
    assert (value == again.instantiate(seed=1)["main"].body.args[1].data.numpy()).all()
    assert (value != again.instantiate(seed=2)["main"].body.args[1].data.numpy()).any()
    with pytest.raises(ValueError, match="not a candidate module"):
        measure.CandidateModule.from_json({"format": 0})


def test_external_functions_reach_the_build_as_inlinable_globals():
    candidate = measure.candidate_module(external(symbol="whatever"), "dnnl", LLVM)
    mod = candidate.instantiate()
    (name,) = (v.name_hint for v in mod.get_global_vars() if v.name_hint != "main")
    function = mod[name]
    assert str(function.attrs["global_symbol"]) == name == "collage_dnnl_0"
    assert function.attrs["Inline"] == function.attrs["Primitive"] == 1
    assert len(function.params) == 1, "its weight is a constant inside it"
    assert tvm.ir.structural_equal(mod["main"].ret_type, relay.TensorType((2, 8)))


def test_a_module_with_global_parts_is_the_same_candidate():
    function = relay.transform.InferType()(tvm.IRModule.from_expr(external()))["main"]
    inner = function.body.args[0].op
    part = tvm.ir.GlobalVar("part_seven")
    x = function.params[0]
    main = relay.Function([x], relay.exp(relay.Call(part, [x])))
    assert key(tvm.IRModule({tvm.ir.GlobalVar("main"): main, part: inner})) == key(function)


def test_instantiated_module_is_the_function_up_to_weights():
    """Binding the real weights' values back gives the function again."""
    function = relay.transform.InferType()(tvm.IRModule.from_expr(conv()))["main"]
    mod = measure.candidate_module(function, "tvm", LLVM).instantiate()
    shapes = [tuple(c.data.shape) for c in nodes_of(mod["main"], relay.Constant)]
    assert shapes == [tuple(c.data.shape) for c in nodes_of(function, relay.Constant)]
    assert key(mod) == key(function)


def test_deep_modules_do_not_exhaust_the_stack():
    x = relay.var("x", shape=(1, 32))
    y = x
    for _ in range(1500):
        y = relay.nn.relu(relay.add(y, relay.const(np.ones((1, 32), "float32"))))
    candidate = measure.candidate_module(relay.Function([x], y), "tvm", LLVM)
    assert sum(map(len, candidate.weights.values())) == 1500
    assert len(nodes_of(candidate.instantiate()["main"], relay.Constant)) == 1500


def test_other_expressions_are_rebuilt_too():
    """Tuples, projections, let and if around weights."""
    x, flag = relay.var("x", shape=(4, 8)), relay.var("flag", shape=(), dtype="bool")
    weight = relay.const(np.ones((4, 8), "float32"))
    pair = relay.Tuple([relay.add(x, weight), relay.multiply(x, weight)])
    v = relay.var("v")
    body = relay.If(flag, relay.TupleGetItem(pair, 0), relay.nn.relu(weight))
    function = relay.Function([x, flag], relay.Let(v, body, relay.add(v, weight)))
    candidate = measure.candidate_module(function, "tvm", LLVM)
    assert candidate.weights == {"main": ["collage_weight_0"]}
    assert key(candidate.instantiate()) == candidate.key()


def test_refused_modules():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    with pytest.raises(ValueError, match="free variables: \\['y'\\]"):
        measure.candidate_module(relay.Function([x], x + y), "tvm", LLVM)
    with pytest.raises(ValueError, match="no function 'main'"):
        measure.candidate_module(tvm.IRModule({}), "tvm", LLVM)
