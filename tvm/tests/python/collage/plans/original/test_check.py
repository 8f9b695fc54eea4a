# SPDX-License-Identifier: Apache-2.0
"""A module beside its original file: it agrees, or the compile ends with the node that does not."""

import logging
from importlib import import_module

import numpy as np
import onnx
import pytest
import tvm
from cli_nets import with_made_up_costs, write_net
from identity_backends import WRONG
from onnx import helper
from onnx_nets import branch, model
from tvm import relay
from tvm.relay.collage import CollageOptions, optimize, optimizer
from tvm.relay.collage.compile import build_vm, prepare
from tvm.relay.collage.compile.executors import VM
from tvm.relay.collage.errors import FileError, OriginalError
from tvm.relay.collage.exec.reply import Unsupported
from tvm.relay.collage.importer import onnx as importer
from tvm.relay.collage.measure.race.comparison import ORIGINAL
from tvm.relay.collage.plans.graph_search import EndToEnd
from tvm.relay.collage.plans.original import NONE, check
from tvm.relay.frontend import onnx as frontend
from tvm.target import Target

from_onnx = importer.from_onnx
UNGUARDED = CollageOptions(guard=False, progress="quiet", store="none", measure_kernels=False)
RUNTIME = "onnxruntime"


def prepared(proto):
    with tvm.transform.PassContext(opt_level=3):
        return prepare(from_onnx(proto)[0], target="llvm")


def no_build(module):
    raise AssertionError("what can be computed operator by operator is not built")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return write_net(tmp_path_factory.mktemp("original") / "net.onnx")


def test_what_was_imported_rightly_agrees(net):
    found = check(net, prepared(onnx.load(net)), EndToEnd(no_build))
    agreement = found.agreement
    assert agreement.by.startswith(f"{RUNTIME} ") and agreement.why == ""
    assert 0 <= agreement.error < 1e-5
    assert agreement.Summary().startswith(f"outputs agree with {RUNTIME} to ")
    [output] = found.truth.outputs
    assert output.shape == (1, 4, 8, 8) and set(found.truth.inputs.arrays) == {"x"}


def wrong_cosine(monkeypatch):
    """Have the importer take Cos for the sine."""
    stock = frontend._get_convert_map

    def convert_map(opset):
        return {**stock(opset), "Cos": lambda inputs, *_: relay.sin(inputs[0])}

    monkeypatch.setattr(frontend, "_get_convert_map", convert_map)


@pytest.mark.parametrize("given", [str, onnx.load], ids=["file", "model"])
def test_a_wrong_import_ends_before_anything_is_measured(monkeypatch, net, given):
    def measures(*_):
        raise AssertionError("something is measured")

    wrong_cosine(monkeypatch)
    monkeypatch.setattr(optimizer, "CostEstimator", measures)
    with pytest.raises(OriginalError) as caught:
        mod = from_onnx(onnx.load(net))[0]
        optimize(mod, None, ["llvm", "dnnl"], UNGUARDED, original=given(net))
    text = str(caught.value)
    assert "output conv2 is off from onnxruntime" in text and "\n" not in text
    assert 'the first node that differs is Cos "cos1" (output "cos1"), by ' in text
    assert text.endswith(f"option relay.collage.original='{NONE}' compiles it as it is")


def test_it_is_compiled_all_the_same_if_asked(monkeypatch, net):
    wrong_cosine(monkeypatch)
    with_made_up_costs(monkeypatch)
    mod = from_onnx(onnx.load(net))[0]
    assert optimize(mod, None, ["llvm", "dnnl"], UNGUARDED, original=NONE).original is None


def test_the_option_names_a_file_and_the_report_has_what_was_found(monkeypatch, net):
    with_made_up_costs(monkeypatch)
    options = CollageOptions(**{**vars(UNGUARDED), "original": str(net)})
    result = optimize(from_onnx(onnx.load(net))[0], None, ["llvm", "dnnl"], options)
    row = result.to_json()["original"]
    assert row["by"].startswith(RUNTIME) and row["error"] == result.original.error < 1e-5
    assert row["summary"] == result.original.Summary() and "original" in result.seconds


def test_a_module_that_was_changed_behind_the_import_is_told_so(net):
    mod = prepared(onnx.load(net))
    main = mod["main"]
    mod["main"] = relay.Function(main.params, relay.abs(main.body))
    with pytest.raises(OriginalError, match="the file's own import agrees with it, so the mod"):
        check(net, relay.transform.InferType()(mod), EndToEnd(no_build))


def rounding_alone(terms=4096):
    """Two orders of one long sum, of which the difference is all that is left."""
    rng = np.random.default_rng(0)
    weight, order = rng.standard_normal((terms, 8)).astype("float32"), rng.permutation(terms)
    node = helper.make_node
    nodes = [
        node("Gather", ["x", "order"], ["g"], axis=1),
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["g", "v"], ["b"]),
        node("Sub", ["a", "b"], ["y"]),
    ]
    weights = {"order": order, "w": weight, "v": weight[order]}
    return model(nodes, [("x", [4, terms])], [("y", [4, 8])], weights)


def test_rounding_that_a_model_makes_much_of_is_no_fault(caplog, monkeypatch):
    """Each node agrees on the same inputs, so the original judges who is as far off it; but not
    where rounding decides most of the outputs."""
    proto = rounding_alone()
    with caplog.at_level(logging.WARNING, "tvm.relay.collage"):
        found = check(proto, prepared(proto), EndToEnd(no_build))
    assert 1e-4 < found.agreement.error < found.truth.tolerance
    assert found.agreement.why.startswith("each node agrees") and "differ" in caplog.text
    monkeypatch.setattr(import_module(check.__module__), "MOST_ROUNDING", 1e-4)
    assert check(proto, prepared(proto), EndToEnd(no_build)).truth is None


def test_what_is_not_computed_operator_by_operator_is_built():
    proto = branch()
    mod, built = prepared(proto), []

    def build(module):
        built.append(module)
        return build_vm(module, "llvm")

    found = check(proto, mod, EndToEnd(build, executor=VM))
    assert len(built) == 1 and found.agreement.error < 1e-5
    assert found.truth.inputs.sets > 1 and len(found.truth.outputs) == found.truth.inputs.sets


def test_what_tvm_cannot_compute_at_all_is_left_to_the_guard(monkeypatch, net):
    def cannot(*_, **__):
        raise Unsupported("no reference for a thing")

    monkeypatch.setattr(import_module(check.__module__), "evaluate", cannot)

    def build(module):
        raise tvm.TVMError("no schedule")

    found = check(net, prepared(onnx.load(net)), EndToEnd(build))
    assert not found.truth.is_of_import and found.agreement.error is None
    assert "no schedule" in found.agreement.Summary()


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("m.onnx", b"text", "its runtime cannot run it: "),
        ("m.h5", b"", "nothing here runs a file *.h5"),
    ],
)
def test_what_nobody_runs_is_said_and_compiled(tmp_path, net, caplog, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "tvm.relay.collage"):
        found = check(path, prepared(onnx.load(net)), EndToEnd(no_build))
    assert found.truth is None and found.agreement.by == ""
    assert said in found.agreement.why and said in caplog.text
    assert found.agreement.Summary().startswith("outputs were not compared with the original's: ")


def test_a_name_of_no_file_is_an_error(tmp_path, net):
    """A slip in it would leave the comparison out."""
    with pytest.raises(FileError, match="original.*m.onnx.*there is no such file"):
        check(tmp_path / "m.onnx", prepared(onnx.load(net)), EndToEnd(no_build))


def test_what_is_no_model_is_an_error(net):
    with pytest.raises(TypeError, match="original takes .* or an ONNX ModelProto, got int"):
        check(3, prepared(onnx.load(net)), EndToEnd(no_build))


def test_a_flag_without_dimensions_reaches_the_original():
    """Of the usual If; sets of inputs are stacked, and what a stack of flags holds is no array."""
    out = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [2, 4])
    bodies = [
        helper.make_graph([helper.make_node(operator, ["x"], ["o"])], operator, [], [out])
        for operator in ("Relu", "Neg")
    ]
    made = helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    proto = model([made], [("x", [2, 4])], [("y", [2, 4])], is_checked=False)
    flag = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    proto.graph.input.append(flag)
    how = EndToEnd(lambda module: build_vm(module, "llvm"), executor=VM)
    found = check(proto, prepared(proto), how)
    assert found.truth.inputs.sets > 1 and found.agreement.error < 1e-5


def test_the_result_says_that_a_model_makes_much_of_rounding():
    proto = rounding_alone()
    options = CollageOptions(
        guard_rounds=6, guard_seconds=0.1, measure_seconds=0.01, store="none", progress="quiet"
    )
    with tvm.transform.PassContext(opt_level=3):
        mod = from_onnx(proto)[0]
        found = optimize(mod, None, ["llvm", "onnxruntime"], options, original=proto)
    assert found.guard.reference == ORIGINAL
    assert found.original.why.startswith("each node agrees")


def test_inputs_that_cannot_be_made_up_are_asked_for(net):
    x = relay.var("x", shape=(relay.Any(), 4))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))))
    found = check(net, mod, EndToEnd(no_build))
    assert "sample_inputs" in found.agreement.why


def test_the_guard_compares_plans_with_the_original():
    """Nothing else does here: candidates are not verified."""
    nodes = [helper.make_node("Atan", ["x"], ["a"]), helper.make_node("Tan", ["a"], ["y"])]
    proto = model(nodes, [("x", [64, 512])], [("y", [64, 512])])
    options = CollageOptions(
        verify="none", measure_seconds=0.01, workers=1, guard_rounds=4, store="none",
        progress="quiet",
    )  # fmt: skip
    mod, targets = from_onnx(proto)[0], [Target("llvm"), Target(WRONG)]
    result = optimize(mod, None, targets, options, original=proto)
    assert result.plan.startswith("tvm") and result.guard.unverified == ""
    rows = {item.name: item for item in result.guard.comparisons}
    assert {item.reference for item in rows.values()} == {ORIGINAL}
    assert rows[WRONG].cost.status == "wrong_result"
    assert result.original.error == rows[result.plan].output_error < 1e-5
    assert result.to_json()["original"]["summary"].startswith("outputs agree with onnxruntime to ")


def softplus():
    """Of numbers so large that exp of them is infinite in 32 bits."""
    nodes = [helper.make_node("Softplus", ["x"], ["y"])]
    return model(nodes, [("x", [4])], [("y", [4])])


def test_64_bits_are_no_excuse_for_what_32_bits_get_wrong():
    """The formula is right, and what would ship gives inf."""
    x = relay.var("x", shape=(4,))
    naive = relay.log(relay.const(1.0) + relay.exp(x))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], naive)))
    how = EndToEnd(no_build, samples={"x": np.array([1, 2, 100, 200], "float32")})
    with pytest.raises(OriginalError, match="is off from onnxruntime"):
        check(softplus(), mod, how)


def test_64_bits_judge_what_is_off_by_rounding(monkeypatch, net):
    module = import_module("tvm.relay.collage.plans.original.check")
    stock = module.outputs_of
    monkeypatch.setattr(
        module,
        "outputs_of",
        lambda *given, folder: [each * (1 + 5e-4) for each in stock(*given, folder)],
    )
    found = check(net, prepared(onnx.load(net)), EndToEnd(no_build))
    assert found.agreement.why.startswith("64 bits agree with it to ") and found.truth
    assert 4e-4 < found.agreement.error < 6e-4
