# SPDX-License-Identifier: Apache-2.0
"""Decisions of earlier compiles: when one ships without a search, what is told of it, what has a
model decided anew, and what is not kept; mock costs, a fake guard."""

import dataclasses
import json

import numpy as np
import onnx
import pytest
import tvm
from cli_nets import write_net
from relay_text import parse
from tvm.relay import collage
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.collage import CollageOptions, optimizer
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.backends.dnnl import DnnlBackend
from tvm.relay.collage.exec.time_limit import TimeIsUpError
from tvm.relay.collage.importer import from_onnx
from tvm.relay.collage.plans import whole_plans
from tvm.relay.collage.report import head_lines
from tvm.relay.collage.store import CostStore, Decisions, StoreForeignError
from tvm.target import Target

TARGETS = ["llvm", "dnnl"]


def net(seed=0):
    mod = parse(
        """def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
          cos(nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3])))
        }"""
    )
    weight = np.random.default_rng(seed).standard_normal((4, 4, 3, 3)).astype("float32")
    mod["main"] = bind_params_by_name(mod["main"], {"w": tvm.nd.array(weight)})
    return mod


@pytest.fixture
def path(tmp_path):
    return tmp_path / "costs.sqlite"


@pytest.fixture
def compiled(fakes, path):
    """Compiles a net with that store; whether it was decided for anew, and the result."""

    def run(mod=None, targets=TARGETS, opt_level=3, arguments=None, **changes):
        fakes.pop("plans", None)
        options = {"store": str(path), "progress": "quiet", "measure_kernels": False, **changes}
        with tvm.transform.PassContext(opt_level=opt_level):
            result = collage.optimize(
                mod or net(), None, targets, CollageOptions(**options), **(arguments or {})
            )
        return "plans" in fakes, result

    return run


def test_the_second_compile_ships_what_the_first_chose_with_its_figures(compiled, caplog):
    caplog.set_level("INFO")
    is_new, first = compiled()
    assert is_new and first.guard is not None and first.record.decision is None
    assert "no decision of an earlier compile is used: it was never compiled" in caplog.text
    is_new, second = compiled()
    assert not is_new and second.guard is None
    assert second.plan == first.plan and tvm.ir.structural_equal(second.mod, first.mod)
    assert second.placement.functions == first.placement.functions
    then = second.record.decision
    assert (then.plan, then.plans) == (first.plan, first.record.plans)
    assert then.decided_at and second.record.functions == first.record.functions
    latency = head_lines(second.record)[1]
    assert latency.startswith(head_lines(first.record)[1].removesuffix("."))
    assert "an earlier compile" in latency and "reuse_decision" in latency
    assert json.loads(json.dumps(second.to_json()))["decision"]["decided_at"] == then.decided_at
    assert second.Summary() and "partition" not in second.seconds


def test_any_plan_of_then_can_still_be_replayed_and_drawn(compiled, tmp_path, capsys):
    first, second = compiled()[1], compiled()[1]
    assert set(second.makers) == set(first.placements.names()) > {"tvm", "dnnl"}
    second.save_placement(tmp_path / "tvm.json", plan="tvm")
    assert collage.load_placement(tmp_path / "tvm.json").plan == "tvm"
    second.show(details=True)
    out = capsys.readouterr().out
    assert "as they were measured when it was decided" in out and "dnnl" in out


def other_weights():
    return {"mod": net(seed=1)}


def other_options():
    return {"guard_rounds": 31}


def another_level():
    return {"opt_level": 2}


def another_host():
    return {"targets": ["llvm -mcpu=x86-64", "dnnl"]}


def other_samples():
    return {"arguments": {"sample_inputs": {"x": np.ones((1, 4, 8, 8), "float32")}}}


def another_executor():
    return {"arguments": {"build_options": {"executor": "vm"}}}


@pytest.mark.parametrize(
    "change, differs",
    [
        (other_weights, "other weights"),
        (other_options, "other options"),
        (another_level, "other options"),
        (another_host, "other target"),
        (other_samples, "other options"),
        (another_executor, "other options"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_decides_has_it_decided_anew_and_the_log_says_what_differs(
    compiled, change, differs, caplog
):
    compiled()
    caplog.set_level("INFO")
    assert compiled(**change())[0]
    assert f"no decision of an earlier compile is used: {differs}" in caplog.text
    assert not compiled()[0] and not compiled(**change())[0], "each has its own"


def test_another_version_of_a_backend_or_patterns_that_it_got_decide_anew(compiled, monkeypatch):
    compiled()
    with monkeypatch.context() as patch:
        patch.setattr(DnnlBackend, "version", lambda self: "99")
        assert compiled()[0] and not compiled()[0]
    assert not compiled()[0]
    monkeypatch.setattr(get_backend("dnnl"), "added_rules", {})
    collage.backends.add_pattern_rule("dnnl", lambda call: False, name="of_the_test")
    assert compiled()[0] and compiled()[0]


@pytest.mark.parametrize("change", [{"reuse_decision": False}, {"retry_failed": True}], ids=str)
def test_options_have_it_decided_anew_and_that_is_kept(compiled, path, change):
    compiled()
    with CostStore(path) as store:
        [before] = Decisions(store).rows()
    assert compiled(**change)[0]
    with CostStore(path) as store:
        [row] = Decisions(store).rows()
    assert row.key == before.key and row.decided_at > before.decided_at
    assert not compiled()[0]


def test_how_things_are_shown_or_kept_does_not_decide(compiled, tmp_path):
    compiled()
    report = str(tmp_path / "report.json")
    assert not compiled(progress="lines", workers=1, time_limit=600.0, report=report)[0]


def test_a_store_that_is_none_keeps_nothing(compiled):
    assert all(compiled(store="none")[0] for _ in range(2))


def busy(fakes, monkeypatch):
    real = whole_plans.guard

    def guard(*given, **more):
        found = real(*given, **more)
        rows = [
            dataclasses.replace(row, cost=dataclasses.replace(row.cost, load=0.5))
            for row in found.comparisons
        ]
        return dataclasses.replace(found, comparisons=rows)

    monkeypatch.setattr(whole_plans, "guard", guard)


def unverified(fakes, monkeypatch):
    real = whole_plans.guard

    def guard(*given, **more):
        return dataclasses.replace(real(*given, **more), unverified="TVM gave no outputs")

    monkeypatch.setattr(whole_plans, "guard", guard)


def without_figures(fakes, monkeypatch):
    monkeypatch.setitem(fakes, "unavailable", "of the test")


def cut(fakes, monkeypatch):
    def place_operators(*_):
        raise TimeIsUpError("of the test")

    monkeypatch.setattr(optimizer, "partition", place_operators)


@pytest.mark.parametrize(
    "make, why",
    [
        (busy, "Doubtful: "),
        (unverified, "TVM gave no outputs"),
        (without_figures, "of the test"),
        (cut, "a limit of time ended it early"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_a_later_compile_may_do_better_is_not_kept(
    compiled, fakes, make, why, monkeypatch, caplog
):
    caplog.set_level("INFO")
    with monkeypatch.context() as patch:
        make(fakes, patch)
        assert compiled()[0] or make is without_figures
    assert f"the decision is not kept for later compiles: {why}" in caplog.text
    assert compiled()[0], "nothing was kept"


@pytest.mark.parametrize("change", [{"guard": False}, {"targets": ["llvm"]}], ids=str)
def test_without_plans_that_compete_there_is_no_key(compiled, path, change):
    compiled(**change)
    with CostStore(path) as store:
        assert Decisions(store).rows() == []


@pytest.mark.parametrize("report", ["{}", '{"plans": []}', "no JSON"])
def test_a_row_that_cannot_be_replayed_is_passed_over(compiled, path, report):
    compiled()
    with CostStore(path) as store:
        [row] = Decisions(store).rows()
        Decisions(store).put(dataclasses.replace(row, report=report))
    assert compiled()[0] and not compiled()[0], "and replaced"


def test_a_named_store_that_will_not_do_is_an_error_before_anything_is_measured(compiled, path):
    path.write_text("a letter to a friend, and no database\n" * 50)
    with pytest.raises(StoreForeignError, match="this is no SQLite file"):
        compiled()


def test_outputs_that_agreed_with_the_file_are_not_compared_again(compiled, tmp_path, monkeypatch):
    file = write_net(tmp_path / "net.onnx")
    mod = from_onnx(onnx.load(file))[0]
    is_new, first = compiled(mod, arguments={"original": str(file)})
    assert is_new and first.original.by.startswith("onnxruntime ")
    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "check_original", None)
        is_new, second = compiled(mod, arguments={"original": str(file)})
    assert not is_new and second.original == first.original
    assert compiled(mod)[0], "without the file it is another decision"
    model = onnx.load(file)
    model.doc_string = "another file"
    assert compiled(mod, arguments={"original": model})[0]


def test_relay_build_ships_it_too(compiled, path):
    first = compiled()[1]
    config = CollageOptions(
        store=str(path), progress="quiet", measure_kernels=False, enable_collage=True
    ).to_config()
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = tvm.relay.build(net(), target=[Target(name) for name in TARGETS])
    assert library.collage.guard is None and library.collage.plan == first.plan
    assert library.collage.record.decision.plans == first.record.plans
