# SPDX-License-Identifier: Apache-2.0
"""A model's file as one node: it computes what the file does, each library that reads it takes it,
and a plan of it is saved and replayed."""

import dataclasses
import json
import logging

import numpy as np
import onnx
import pytest
import tvm
from first_answers import answer_first
from onnx import TensorProto, helper
from onnx_nets import branch, conv_net, loop, lstm, model, several_outputs
from onnx_one_node import assert_alike, by_onnxruntime, by_tvm, by_vm
from relay_text import HOST
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, optimizer
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.compile.executors import why_vm
from tvm.relay.collage.errors import ModelError, OriginalError, PlacementError
from tvm.relay.collage.importer.onnx import from_onnx
from tvm.relay.collage.importer.whole import MOST_BYTES, digest_of, load_onnx
from tvm.relay.collage.importer.whole import whole as one_node
from tvm.relay.collage.loaded import read_placements
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.measure.outputs.tolerance import OUTPUT, model_tolerance, output_tolerance
from tvm.relay.collage.plans import run_pass, whole_plans
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.graph_search import GuardUnavailable
from tvm.relay.collage.plans.whole_file import whole_of as whole
from tvm.runtime.vm import Executable, VirtualMachine

RUNTIMES = ["onnxruntime", "openvino"]
node = helper.make_node


def prepared(proto, shapes=None):
    with tvm.transform.PassContext(opt_level=3):
        return prepare(from_onnx(proto, shapes)[0], target=HOST)


def inputs_of(mod):
    rng = np.random.default_rng(0)
    return {
        param.name_hint: rng.uniform(
            0,
            1,
            [int(n) if isinstance(n, tvm.tir.IntImm) else 3 for n in param.type_annotation.shape],
        ).astype(param.type_annotation.dtype)
        for param in mod["main"].params
    }


def relu():
    return model([node("Relu", ["x"], ["y"])], [("x", [2, 6])], [("y", [2, 6])])


def choice():
    """An If over a number that only the input tells, for which TVM needs its VM."""
    branches = {}
    for name, op in (("then", "Relu"), ("else", "Neg")):
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 6])
        body = helper.make_graph([node(op, ["x"], [name])], name, [], [out])
        branches[f"{name}_branch"] = body
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], **branches),
    ]
    return model(nodes, [("x", [2, 6])], [("y", [2, 6])], {"zero": np.float32(0)})


def nonzero():
    """Its outputs' sizes depend on data, and one output is an input."""
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["y"])]
    made = model(nodes, [("x", [2, 6])], [("x", [2, 6])], is_checked=False)
    made.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, [2, None]))
    return made


def nonzero_beside_a_scalar():
    """A run tells its outputs' sizes, of which one has none."""
    made = nonzero()
    made.graph.node.append(node("ReduceSum", ["r"], ["s"], keepdims=0))
    made.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, []))
    return made


NETS = [conv_net, lstm, branch, loop, several_outputs, nonzero, nonzero_beside_a_scalar]


@pytest.mark.parametrize("make", NETS)
def test_it_computes_what_the_file_does(make):
    mod = prepared(make())
    made = whole(make(), mod)
    tvm.ir.assert_structural_equal(made["main"].checked_type, mod["main"].checked_type)
    inputs = inputs_of(mod)
    (found,) = by_vm(made, inputs) if why_vm(made) else [by_tvm(made, inputs)]
    assert_alike(found, by_onnxruntime(make(), inputs))


def test_a_file_has_the_sizes_that_the_module_has(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], [("x", ["n", 4])], [("y", ["n", 4])])
    onnx.save(proto, tmp_path / "net.onnx")
    made = whole(tmp_path / "net.onnx", prepared(proto, {"x": [3, 4]}))
    assert made["main"].ret_type == relay.TensorType([3, 4])


@pytest.mark.parametrize("opset", [11, 18])
def test_libraries_that_read_onnx_take_it_whatever_its_version(opset):
    """Softmax of version 11 is another operator than that of our own models."""
    proto = model(
        [node("Softmax", ["x"], ["s"], axis=1), node("Relu", ["s"], ["y"])],
        [("x", [2, 3, 4])], [("y", [2, 3, 4])], opset=opset,
    )  # fmt: skip
    mod = prepared(proto)
    plans = Plans(mod, parse_targets([HOST, *RUNTIMES, "dnnl"]))
    plans.add_originals(whole(proto, mod), "digest")
    assert set(plans.modules) == {"tvm", *(f"{name}-original" for name in RUNTIMES)}
    assert plans.failed == {} and len(plans.parts) == 1
    # OpenVINO itself reads Softmax of version 11 as that of 13, which the guard finds.
    inputs, own = inputs_of(mod), plans.modules["onnxruntime-original"]
    assert_alike(by_tvm(own, inputs), by_onnxruntime(proto, inputs))


def test_where_a_run_alone_tells_sizes_the_library_that_tvm_calls_has_it():
    mod = prepared(nonzero())
    plans = Plans(mod, parse_targets([HOST, *RUNTIMES]))
    plans.add_originals(whole(nonzero(), mod), "digest")
    assert set(plans.modules) == {"tvm", "onnxruntime-original"}
    assert plans.known_right() == "onnxruntime-original"
    assert Plans(mod, parse_targets([HOST, *RUNTIMES])).known_right() == "tvm"


def quantising(operator):
    """One whose branches round to bytes, which no type outside of them says."""
    if operator == "QuantizeLinear":
        inner = [node(operator, ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["z"])]
    else:
        inner = [node(operator, ["x"], ["z"])]
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])
    body = helper.make_graph(inner, "body", [], [out])
    made = node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    weights = {"s": np.array(0.1, "float32")}
    return model([made], [("x", [2, 3])], [("y", [2, 3])], weights, is_checked=False)


@pytest.mark.parametrize("operator, limit", [("QuantizeLinear", "8 bit"), ("Relu", "float32")])
def test_its_outputs_are_compared_by_the_types_inside_it(operator, limit):
    proto = quantising(operator)
    flag = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    proto.graph.input.append(flag)
    x = relay.TensorType([2, 3])
    made = one_node(proto, {"x": x, "c": relay.TensorType([], "bool")}, [x])
    assert output_tolerance(made) == model_tolerance(proto) == OUTPUT[limit]
    proto.graph.initializer.add(name="h", data_type=TensorProto.FLOAT16)
    assert model_tolerance(proto) == max(OUTPUT[limit], OUTPUT["float16"])


def sparse(proto):
    proto.graph.sparse_initializer.add()


def of_two_outputs(proto):
    proto.graph.output.append(proto.graph.output[0])


def of_more_inputs(proto):
    proto.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def of_another_input(proto):
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "own"


def too_large(proto):
    proto.doc_string = "x" * (1 << 20)


@pytest.mark.parametrize(
    "change, why",
    [
        (too_large, "it has more than 1 MiB"),
        (sparse, "it has sparse weights"),
        (of_two_outputs, "it has outputs that are several tensors"),
        (of_more_inputs, "it has more inputs: more"),
        (of_another_input, "it has no input x"),
    ],
)
def test_why_there_is_none(change, why):
    proto = relu()
    mod = prepared(proto)
    change(proto)
    with pytest.raises(ModelError, match=why):
        whole(proto, mod, most_bytes=1 << 20)
    assert MOST_BYTES == 1 << 29


def test_a_model_of_nodes_of_other_domains_alone():
    made = node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    proto = model([made], [("x", [2, 3])], [("y", [2, 3])], is_checked=False)
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    x = {"x": np.random.default_rng(0).uniform(0, 1, (2, 3)).astype("float32")}
    assert_alike(by_tvm(whole(proto, prepared(proto)), x), by_onnxruntime(proto, x))


@pytest.mark.parametrize("of_nodes", ["", "ai.onnx"])
def test_the_other_name_of_the_own_domain(of_nodes):
    """By that the version is known; Softmax of version 11 is another than that of 13."""
    made = node("Softmax", ["x"], ["y"], axis=1, domain=of_nodes)
    proto = model([made], [("x", [2, 3, 4])], [("y", [2, 3, 4])], is_checked=False)
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 11))
    x = {"x": np.random.default_rng(0).uniform(0, 1, (2, 3, 4)).astype("float32")}
    for mod in (prepared(proto), whole(proto, prepared(proto))):
        assert_alike(by_tvm(mod, x), by_onnxruntime(proto, x))


def test_a_file_of_another_kind_is_none(tmp_path):
    (tmp_path / "net.tflite").write_bytes(b"TFL3")
    with pytest.raises(ModelError, match=r"net.tflite is no ONNX file"):
        load_onnx(tmp_path / "net.tflite")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A build by the file alone: nothing else may ship."""
    file = tmp_path_factory.mktemp("whole") / "net.onnx"
    onnx.save(choice(), file)
    options = CollageOptions(
        guard_rounds=6, guard_seconds=0.1, measure_seconds=0.01, workers=1, store="none",
        progress="quiet", measure_kernels=False,
    )  # fmt: skip
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(
            from_onnx(choice())[0], None, [HOST, "onnxruntime"], options, original=file
        )
    return result, file


def test_it_competes_and_is_compared_like_any_plan(built):
    result, _ = built
    found = result.guard.of("onnxruntime-original")
    assert found.cost.is_usable and found.output_error < 1e-4


def test_a_report_does_not_hold_the_model():
    """It is data; of a node that cannot be imported all of it stands in an attribute."""
    proto = of_texts()
    proto.graph.doc_string = "x" * 100_000
    options = CollageOptions(guard=False, store="none", measure_kernels=False, progress="quiet")
    with pytest.MonkeyPatch.context() as monkeypatch, tvm.transform.PassContext(opt_level=3):
        monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: collage.MockCostEstimator({}))
        mod, _ = from_onnx(proto, {"x": (2, 3)})
        text = json.dumps(collage.optimize(mod, None, [HOST, "dnnl"], options).to_json())
    assert "collage.onnx_node_1" in text and len(text) < 50_000


def test_its_placement_is_replayed_with_the_file_and_without_a_virtual_machine(built, tmp_path):
    """Unless that is asked for; and from its own file as from a report."""
    result, file = built
    libraries = result.guard.libraries
    assert isinstance(libraries["tvm"], Executable)
    assert not isinstance(libraries["onnxruntime-original"], Executable)
    seen = read_placements(json.loads(json.dumps(result.to_json()))["placements"])
    result.save_placement(tmp_path / "net.json", "onnxruntime-original")
    inputs = inputs_of(prepared(choice()))

    def replay(placement, options=None, original=None):
        mod, targets = from_onnx(choice())[0], [HOST, "onnxruntime"]
        with tvm.transform.PassContext(opt_level=3):
            return collage.optimize(
                mod, None, targets, placement=placement, build_options=options or {},
                original=original,
            )  # fmt: skip

    for placement, options, executor in (
        (tmp_path / "net.json", {}, "graph"),
        (seen.placement("onnxruntime-original"), {"executor": "vm"}, "vm"),
    ):
        again = replay(placement, options, file)
        assert again.plan == "onnxruntime-original"
        assert again.executor == executor == again.to_json()["executor"]
        assert digest_of(whole(file, prepared(choice()))) == again.placement.original
        assert_alike(again.runner()(inputs), by_onnxruntime(choice(), inputs))
    with pytest.raises(PlacementError, match="runs the model's file: name that by"):
        replay(tmp_path / "net.json")
    changed = choice()
    changed.graph.node[0].doc_string = "changed"
    with pytest.raises(PlacementError, match="made for another file of the model"):
        replay(tmp_path / "net.json", original=changed)


def test_a_replay_of_what_is_no_plan_of_the_file_says_so(built, tmp_path):
    result, file = built
    result.save_placement(tmp_path / "net.json", "onnxruntime-original")
    mod, targets = from_onnx(choice())[0], [HOST, "onnxruntime"]
    given = {"placement": tmp_path / "net.json"}
    changed = choice()
    sparse(changed)
    with pytest.raises(PlacementError, match="cannot run the model's file: it has sparse weights"):
        collage.optimize(mod, None, targets, original=changed, **given)
    main = mod["main"]
    mod["main"] = relay.Function(main.params, relay.abs(main.body) + relay.const(1.0))
    with pytest.raises(OriginalError, match="of the largest value"):
        collage.optimize(mod, None, targets, original=file, **given)


def optimized_without_a_guard(monkeypatch, estimator, why, failed=()):
    """What ships of a net and its file."""

    def guard(*_, **__):
        raise GuardUnavailable(why, list(failed))

    monkeypatch.setattr(optimizer, "CostEstimator", estimator)
    monkeypatch.setattr(whole_plans, "guard", guard)
    answer_first(monkeypatch)
    options = CollageOptions(store="none", progress="quiet", measure_kernels=False)
    mod = from_onnx(relu())[0]
    return collage.optimize(mod, None, [HOST, "onnxruntime"], options, original=relu())


class Unmeasured(collage.CostEstimator):
    has_transitions = False

    def estimate_batch(self, mods, targets, labels):
        return [Cost.failed("unsupported", "of open sizes") for _ in mods]


@pytest.mark.parametrize(
    "failed, ships",
    [([], "onnxruntime-original"), (["onnxruntime-original"], "tvm")],
)
def test_the_file_ships_where_nothing_is_measured_unless_it_is_known_to_fail(
    monkeypatch, failed, ships
):
    result = optimized_without_a_guard(monkeypatch, Unmeasured, "no plan runs", failed)
    assert (result.plan, result.guard_skipped) == (ships, "no plan runs")


@pytest.mark.parametrize(
    "is_of_import, ships", [(True, "collage"), (False, "onnxruntime-original")]
)
def test_an_import_that_was_not_compared_does_not_ship_unmeasured(monkeypatch, is_of_import, ships):
    def check(job, model):
        found = whole_plans.check_original(job, model)
        truth = found.truth._replace(is_of_import=is_of_import)
        return dataclasses.replace(found, truth=truth)

    costs = collage.MockCostEstimator({"llvm": 10, "onnxruntime": 1})
    monkeypatch.setattr(optimizer, "check_original", check)
    assert optimized_without_a_guard(monkeypatch, lambda *_: costs, "no time").plan == ships


def test_relay_build_replays_it_where_it_is_told_the_file_and_the_pass_alone_cannot(
    built, tmp_path
):
    result, file = built
    result.save_placement(tmp_path / "net.json", "onnxruntime-original")
    config = {
        "relay.collage.enable_collage": True,
        "relay.collage.placement": str(tmp_path / "net.json"),
    }
    targets = parse_targets([HOST, "onnxruntime"])
    context = tvm.transform.PassContext(opt_level=3, config=config)
    with context, pytest.raises(PlacementError, match="the pass alone does not have"):
        run_pass.partition(prepared(choice()), targets, collage.MockCostEstimator({}))
    config["relay.collage.original"] = str(file)
    with tvm.transform.PassContext(opt_level=3, config=config):
        executable = relay.vm.compile(from_onnx(choice())[0], targets.all)
    inputs = inputs_of(prepared(choice()))
    found = VirtualMachine(executable, tvm.cpu()).run(**inputs)
    assert_alike([found.numpy()], by_onnxruntime(choice(), inputs))


def test_without_outputs_to_compare_there_is_no_such_plan(caplog):
    proto = model([node("RandomNormalLike", ["x"], ["y"])], [("x", [4])], [("y", [4])])
    options = CollageOptions(progress="quiet", store="none", guard_rounds=6, guard_seconds=0.1)
    with caplog.at_level(logging.INFO), tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(
            from_onnx(proto)[0], None, [HOST, "onnxruntime"], options, original=proto
        )
    assert "onnxruntime-original" not in {row["name"] for row in result.to_json()["plans"]}


def of_texts():
    """Numbers that are texts for a while; the sizes of what it gives are not declared."""
    nodes = [
        node("Cast", ["x"], ["t"], to=TensorProto.STRING),
        node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
    ]
    return model(nodes, [("x", ["n", 3])], [("y", None)], is_checked=False)


def test_what_tvm_cannot_import_is_one_node(caplog):
    mod, params = from_onnx(of_texts(), {"x": (2, 3)})
    assert params == {} and "so onnxruntime runs the model as a whole" in caplog.text
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype("float32")
    assert_alike(by_tvm(mod, {"x": x}), by_onnxruntime(of_texts(), {"x": x}))
