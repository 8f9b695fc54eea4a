# SPDX-License-Identifier: Apache-2.0
"""A saved placement put onto its module again, and every reason to refuse it."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnx_nets
import pytest
import tvm
from onnx import helper
from placement_nets import (
    NET,
    TARGETS,
    edited,
    net,
    optimized,
    optimized_once,
    run_pass,
    weights,
)
from relay_text import assert_same_outputs, make_backend, parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import (
    CollageOptions,
    MockCostEstimator,
    PlacementError,
    optimizer,
    rules,
)
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.plans.placement import MachineTraits, made_with
from tvm.relay.dataflow_pattern import is_op, wildcard


@pytest.fixture(scope="module")
def result():
    return optimized_once()


@pytest.fixture
def path(result, tmp_path):
    result.save_placement(tmp_path / "net.json")
    return tmp_path / "net.json"


@pytest.fixture
def nothing_is_measured(monkeypatch):
    """Whatever would measure or guard fails."""

    def fail(*_, **__):
        raise AssertionError("a replay measures nothing")

    for name in ("CostEstimator", "decide", "open_session", "partition"):
        monkeypatch.setattr(optimizer, name, fail)


def replay(placement, text=NET, params=None, **options):
    mod = net(text)[0]
    return collage.optimize(
        mod, params or net()[1], TARGETS, CollageOptions(**options), placement=placement
    )


def refused(kind, function, *args, **keywords):
    """The one line that a placement is refused with, of this kind."""
    with pytest.raises(PlacementError) as caught:
        function(*args, **keywords)
    assert caught.value.kind == kind and "\n" not in str(caught.value)
    return str(caught.value)


# What a replay gives.


def test_a_placement_gives_the_same_module_again(result, path, nothing_is_measured):
    for placement in (path, str(path), collage.load_placement(path), result.placement):
        again = replay(placement)
        assert tvm.ir.structural_equal(again.mod, result.mod)
        assert [str(v) for v in again.mod.get_global_vars()] == [
            str(v) for v in result.mod.get_global_vars()
        ]
        assert (again.plan, again.guard, again.library) == ("collage", None, None)
        assert again.placement == result.placement
        assert set(again.seconds) == {"prepare", "replay"}


def test_the_option_names_a_file(result, path, nothing_is_measured):
    mod, params = net()
    again = collage.optimize(mod, params, TARGETS, CollageOptions(placement=str(path)))
    assert tvm.ir.structural_equal(again.mod, result.mod)
    with tvm.transform.PassContext(config={"relay.collage.placement": str(path)}):
        again = collage.optimize(mod, params, TARGETS)
    assert tvm.ir.structural_equal(again.mod, result.mod)
    assert again.guard_skipped.endswith(f"made before, {path}"), "whom to ask for the reasons"


def test_the_pass_alone_replays_a_file(result, path):
    mod, params = net()
    prepared = prepare(mod, params, tvm.target.Target("llvm"))
    assert tvm.ir.structural_equal(run_pass(prepared, path), result.mod)


def test_other_names_of_variables_are_the_same_module(path):
    mod, params = net(NET.replace("%x", "%image").replace("%w", "%kernel"))
    again = collage.optimize(mod, {"kernel": params["w"]}, TARGETS, placement=path)
    assert [param.name_hint for param in again.mod["main"].params] == ["image"]


def test_what_is_replayed_gives_the_outputs_of_before_and_a_report(path, capsys):
    again = replay(path)
    assert again.to_json()["plan"] == "collage" and again.to_json()["placement"]
    again.show()
    assert "dnnl" in capsys.readouterr().out
    mod, params = net()
    assert_same_outputs(prepare(mod, params, tvm.target.Target("llvm")), again.mod)


def test_branches_closures_and_several_functions(monkeypatch, tmp_path):
    kind = "Tensor[(1, 4), float32]"
    text = f"""
    def @block(%x: {kind}) -> {kind} {{ nn.relu(tan(nn.relu(%x))) }}
    def @main(%c: bool, %x: {kind}) -> {kind} {{
      let %a = nn.relu(%x);
      let %f = fn(%z: {kind}) -> {kind} {{ tanh(nn.relu(%z)) }};
      if (%c) {{ @block(%f(%a)) }} else {{ tan(nn.relu(%f(%a))) }}
    }}"""
    mod, path = parse(text), tmp_path / "net.json"
    result = optimized(monkeypatch, mod, None)
    result.save_placement(path)
    assert [function.name for function in result.placement.functions] == ["block", "main"]
    assert len([var for var in result.mod.get_global_vars() if "dnnl" in var.name_hint]) >= 4
    again = collage.optimize(parse(text), None, TARGETS, placement=path)
    assert tvm.ir.structural_equal(again.mod, result.mod)
    assert_same_outputs(mod, again.mod)


UNARY = "def @main(%x: $T) -> $T { exp(tanh(nn.relu(%x))) }"


def optimized_for(kind, monkeypatch):
    """Of UNARY, with mock costs by which a backend of that kind is cheap."""
    costs = MockCostEstimator({"llvm": 10, kind: 1})
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: costs)
    return collage.optimize(parse(UNARY), None, ["llvm", kind], CollageOptions(guard=False))


def test_whatever_the_attributes_of_composites(monkeypatch, tmp_path):
    attrs = {"reals": [1.5, 2.5], "mixed": [1, 2.5, "x"], "nested": [[1, 2], [], ["y"]], "f": 0.1}
    relu = is_op("nn.relu")(wildcard())
    make_backend("attrs_test", [("attrs_test.relu", relu, None, lambda expr: attrs)])
    result = optimized_for("attrs_test", monkeypatch)
    result.save_placement(tmp_path / "net.json")
    part = result.placement.function("main").parts[0]
    assert part.composites[0].attrs["nested"] == attrs["nested"]
    again = collage.optimize(
        parse(UNARY), None, ["llvm", "attrs_test"], placement=tmp_path / "net.json"
    )
    assert tvm.ir.structural_equal(again.mod, result.mod)


SCRIPT = """
import sys
import onnx, tvm
from tvm import relay
from tvm.relay import collage

model, path = sys.argv[1:]
mod, params = relay.frontend.from_onnx(onnx.load(model), freeze_params=True)
result = collage.optimize(mod, params, ["llvm", "dnnl"], placement=path)
print("\\n".join(sorted(var.name_hint for var in result.mod.get_global_vars())))
"""


def onnx_model():
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 4, 3, 3)).astype("float32")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Cos", ["r"], ["s"]),
        helper.make_node("Conv", ["s", "w"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["d", "r"], ["y"]),
    ]
    return onnx_nets.model(nodes, [("x", [1, 4, 8, 8])], [("y", [1, 4, 8, 8])], weights)


def test_the_same_onnx_file_imported_again_in_another_process(tmp_path, monkeypatch):
    onnx.save(onnx_model(), tmp_path / "net.onnx")
    mod, params = relay.frontend.from_onnx(onnx_model(), freeze_params=True)
    result = optimized(monkeypatch, mod, params)
    result.save_placement(tmp_path / "net.json")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "net.onnx", tmp_path / "net.json"],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    names = sorted(var.name_hint for var in result.mod.get_global_vars())
    assert any("collage_dnnl_" in name for name in names) and done.stdout.split() == names


# A module that is another one.


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("cos(%1)", "sin(%1)", "operator 2 (node 8), which is sin float32[1, 4, 8, 8], not cos fl"),
        (
            "cos(%1)",
            "cos(cos(%1))",
            "has 13 nodes, not 12; it differs first in operator 3 (node 9), which",
        ),
        (
            "(1, 4, 8, 8)",
            "(1, 4, 9, 9)",
            "is float32[1, 4, 9, 9], and the placement is for float32[1, 4, 8, 8]: import",
        ),
        ("padding=[1, 1, 1, 1]", "padding=[1, 1, 1, 1], dilation=[1, 1]", None),
        (
            "padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);\n  add",
            "padding=[2, 2, 2, 2], dilation=[2, 2], channels=4, kernel_size=[3, 3]);\n  add",
            "in attributes, type or device of node 9, nn.conv2d(%8, %5) float32[1, 4, 8, 8]",
        ),
        ("add(nn.relu(%3), %1)", "add(%1, nn.relu(%3))", "first in node "),
    ],
)
def test_another_module_is_refused_with_the_first_difference(old, new, why, path):
    text = NET.replace(old, new)
    assert text != NET
    if why is None:  # what is spelled out is the default
        assert replay(path, text).plan == "collage"
        return
    text = refused("module", replay, path, text)
    assert text.startswith(("function @main ", "input 'x' of function @main is ")) and why in text


def test_a_module_with_other_demands_on_devices_is_another_one(path):
    mod, params = net()
    main = mod["main"]
    there = tvm.target.VirtualDevice(tvm.cuda(0))
    x = relay.expr.VarWithFields(main.params[0], None, None, there, None)
    body = relay.bind(main.body, {main.params[0]: x})
    mod = tvm.IRModule.from_expr(relay.Function([x, main.params[1]], body))
    text = refused("module", collage.optimize, mod, params, TARGETS, placement=path)
    assert "differs first in attributes, type or device of node 6, nn.conv2d" in text


def test_a_function_more_or_less(path, result):
    helper = "def @more(%x: $T) -> $T { nn.relu(%x) }\n"
    mod, params = net(helper + NET)
    prepared = prepare(mod, params, tvm.target.Target("llvm"))
    extra = net(helper + NET)[0]
    prepared.update_func(extra.get_global_var("more"), extra["more"])
    text = refused("module", run_pass, relay.transform.InferType()(prepared), path)
    assert text == "the placement was made without function @more"
    edited(path, lambda value: value["functions"][0].update(name="gone"))
    text = refused("module", replay, path)
    assert text == (
        "the module has no function @gone, for which the placement was made (it has @main)"
    )


def test_other_weights_are_refused_unless_allowed(path, caplog):
    other = {"w": weights((4, 4, 3, 3), seed=1)}
    text = refused("weights", replay, path, params=other)
    assert "the weights of function @main are others" in text
    assert "relay.collage.placement_allow=['weights']" in text
    again = replay(path, params=other, placement_allow=["weights"])
    assert "a placement is used although the weights of function @main are others" in caplog.text
    prepared = prepare(net()[0], other, tvm.target.Target("llvm"))
    assert_same_outputs(prepared, again.mod)


def test_a_single_number_is_no_weight(monkeypatch, tmp_path):
    text = NET.replace("cos(%1)", "cos(multiply(%1, 2f))")
    mod, params = net(text)
    optimized(monkeypatch, mod, params).save_placement(tmp_path / "net.json")
    text = text.replace("2f", "3f")
    assert "in attributes, type or device of node" in refused(
        "module", replay, tmp_path / "net.json", text
    )


# Another machine, other versions, other targets.


def change(*keys, to):
    def apply(value):
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return apply


DIFFERENCES = {
    "tool": ("version", ("collage",), "0.0.9", "tvm-collage is of version "),
    "tvm": ("version", ("tvm",), "0.18.0", "TVM is of version 0.19.0 "),
    "backend": ("version", ("backends", "dnnl"), "1.0", "backend dnnl is of version "),
    "target": ("target", ("target",), "llvm -mcpu=core2", "not 'llvm -mcpu=core2'"),
    "cpu": ("machine", ("machine", "cpu"), "Other CPU", "not 'Other CPU'"),
    "features": ("machine", ("machine", "features"), ["other"], "lacks other"),
    "threads": ("machine", ("machine", "threads"), 77, "threads, not 77"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_it_was_made_with_must_be_here_unless_allowed(name, path, result, caplog):
    kind, keys, new, why = DIFFERENCES[name]
    edited(path, change("made_with", *keys, to=new))
    text = refused(kind, replay, path)
    assert text.startswith("the placement was made for something else: ") and why in text
    assert text.endswith(f"relay.collage.placement_allow=['{kind}']")
    prepared = prepare(*net(), tvm.target.Target("llvm"))
    with pytest.raises(PlacementError):
        run_pass(prepared, path)
    if name == "tvm":
        allowed = run_pass(prepared, path, placement_allow=["version"])
        assert tvm.ir.structural_equal(allowed, result.mod)
    others = [item for item in ("weights", "version", "machine", "target") if item != kind]
    assert refused(kind, replay, path, placement_allow=others) == text
    again = replay(path, placement_allow=[kind])
    assert tvm.ir.structural_equal(again.mod, result.mod)
    assert "a placement is used although " in caplog.text and why in caplog.text


def test_an_unknown_kind_to_allow_with_a_placement_or_without(path):
    text = (
        r"placement_allow takes a list of weights, version, machine, target, tuning, got \['all'\]"
    )
    with pytest.raises(ValueError, match=text):
        replay(path, placement_allow=["all"])
    with pytest.raises(ValueError, match=text):
        replay(None, placement_allow=["all"])
    with pytest.raises(ValueError, match=text):
        run_pass(net()[0], path, placement_allow=["all"])


@pytest.mark.parametrize("placement", [5, 0, [], {"plan": "collage"}])
def test_what_is_no_placement(placement):
    with pytest.raises(TypeError) as caught:
        replay(placement)
    assert str(caught.value) == (
        f"placement takes a Placement or the path of its file, got {placement!r}: "
        "collage.load_placement(path) and result.placement give one"
    )


def test_a_backend_that_is_no_target(path):
    mod, params = net()
    text = refused("backend", collage.optimize, mod, params, "llvm", placement=path)
    assert "is for backend 'dnnl', which is not among the targets (external ones are none)" in text


def test_a_composite_alone_is_for_its_backend_too(monkeypatch, tmp_path):
    path = tmp_path / "net.json"
    make_backend("alone_test", [])
    relu = rules.DFPattern("relu", is_op("nn.relu")(wildcard()))
    rules.set_partition_rule("alone_test", rules.Composite("alone_test.relu", relu))
    result = optimized_for("alone_test", monkeypatch)
    part = result.placement.function("main").parts[0]
    assert not part.is_primitive and 'Composite="alone_test.relu"' in result.mod.astext(False)
    assert result.placement.Summary().startswith("placement of plan collage: 1 on alone_test ")
    assert result.placement.made_with.backends == {"alone_test": ""}
    result.save_placement(path)
    again = collage.optimize(parse(UNARY), None, ["llvm", "alone_test"], placement=path)
    assert tvm.ir.structural_equal(again.mod, result.mod)
    text = refused("backend", collage.optimize, parse(UNARY), None, "llvm", placement=path)
    assert "is for backend 'alone_test', which is not among the targets" in text
    edited(path, change("made_with", "backends", to={}))
    targets = ["llvm", "alone_test"]
    text = refused("parts", collage.optimize, parse(UNARY), None, targets, placement=path)
    assert text.endswith("is for backend 'alone_test', which made_with has no version of")


def test_a_composite_of_the_host_needs_no_other_target(monkeypatch, tmp_path):
    relu = rules.DFPattern("relu", is_op("nn.relu")(wildcard()))
    make_backend("other_test", [])
    rest = rules.DFPattern("rest", is_op("tanh")(wildcard()) | is_op("exp")(wildcard()))
    rules.set_partition_rule("llvm", rules.Union(rules.Composite("llvm.relu", relu), rest))
    try:
        result = optimized_for("other_test", monkeypatch)
    finally:
        rules.set_partition_rule("llvm", None)
    assert 'Composite="llvm.relu"' in result.mod.astext(False)
    assert result.placement.made_with.backends == {}
    again = collage.optimize(parse(UNARY), None, ["llvm"], placement=result.placement)
    assert tvm.ir.structural_equal(again.mod, result.mod)


def test_a_machine_is_its_cpu_its_vector_instructions_and_threads(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t: fpu avx2 fma ht\n")
    threads = int(tvm.runtime.num_threads())
    assert made_with.this_machine(str(cpuinfo)) == MachineTraits(
        "Some CPU @ 2GHz", ("avx2", "fma"), threads
    )
    here = made_with.this_machine(str(tmp_path / "none"))
    assert here.cpu and here.features == ()


def test_a_file_that_is_none_is_refused_by_the_pass_too(tmp_path):
    (tmp_path / "net.json").write_text("{")
    assert "is cut off or no JSON" in refused("file", run_pass, net()[0], tmp_path / "net.json")
