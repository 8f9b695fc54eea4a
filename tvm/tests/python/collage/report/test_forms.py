# SPDX-License-Identifier: Apache-2.0
"""Files of a report: by their form, of a searched net, and the errors of who asks for them."""

import onnx
import pytest
import tvm
from made_reports import made, made_report, record
from placement_nets import optimized
from random_relay import RandomFunction
from tvm.relay.collage.errors import CollageError, OptionError
from tvm.relay.collage.report import write_form
from tvm.relay.collage.report.boxes import box_graph, functions_of, plan_names
from tvm.relay.collage.report.net import Net
from tvm_collage.words import FORMS

BEGINS = {"html": b"<!DOCTYPE html>", "svg": b"<svg", "pdf": b"%PDF-", "trace": b'{"traceEvents"'}


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield optimized(monkeypatch)


@pytest.mark.parametrize("seed", [9, 28])
def test_branches_lets_and_closures_are_drawn(seed, monkeypatch, tmp_path):
    """All forms of all plans; each operator is in one box. These seeds' results are tuples."""
    mod = tvm.IRModule.from_expr(RandomFunction(seed).build(25))
    report = optimized(monkeypatch, mod, {}).record
    [function] = functions_of(report)
    net = Net(function.graph)
    for plan in plan_names(report):
        boxes = box_graph(report, function, plan).boxes
        held = sorted(index for box in boxes if box.kind != "input" for index in box.nodes)
        assert held == sorted(filter(net.is_shown, net.nodes))
        # A page has all plans.
        for form in FORMS if plan == report.plan else set(FORMS) - {"html"}:
            write_form(record(report.to_json()), form, tmp_path / form, plan)
            assert (tmp_path / form).read_bytes().startswith(BEGINS.get(form, b""))
        onnx.checker.check_model(onnx.load(tmp_path / "netron"))
    assert len(list(tmp_path.iterdir())) == len(FORMS), "a temporary file is left"


def test_a_result_saves_a_page_and_pictures_of_any_plan(result, tmp_path):
    result.save_html(tmp_path / "report.html")
    assert f"Plan {result.plan} ships" in (tmp_path / "report.html").read_text()
    result.save_picture(tmp_path / "net.SVG", plan="tvm")
    assert "Plan tvm" in (tmp_path / "net.SVG").read_text()
    with pytest.raises(OptionError, match=r"ends in .svg or .pdf, not .*net.png"):
        result.save_picture(tmp_path / "net.png")
    with pytest.raises(CollageError, match="no plan 'nobody'"):
        result.save_picture(tmp_path / "net.svg", plan="nobody")
    assert not (tmp_path / "net.svg").exists()


def test_pictures_alone_take_a_number_of_boxes(result, tmp_path):
    for boxes, remark in ((1, "in 1 box: "), (0, "")):
        result.save_picture(tmp_path / "net.svg", plan="collage", boxes=boxes)
        text = (tmp_path / "net.svg").read_text()
        assert ("neighbours" in text) == bool(remark) and remark in text
    with pytest.raises(OptionError, match="boxes must be 0 or more, not -1"):
        result.save_picture(tmp_path / "net.svg", boxes=-1)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OptionError, match="the svg file: .*there is no folder '.*absent'"):
        write_form(made(1), "svg", tmp_path / "absent" / "net.svg")


def test_a_report_of_before_graphs_is_refused():
    made(1).check_is_full()
    old = made_report(1)
    del old["functions"][0]["graph"]
    with pytest.raises(CollageError, match="older version .* build again with the option report"):
        record(old).check_is_full()
    del old["placements"], old["functions"][:]
    with pytest.raises(CollageError, match="older version"):
        record(old).check_is_full()
