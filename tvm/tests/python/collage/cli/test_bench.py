# SPDX-License-Identifier: Apache-2.0
"""`collage bench`: ours beside the others on a small net; nobody is judged by its speed."""

import json

import numpy as np
import pytest
from cli_nets import QUICK, SHAPE, call, with_made_up_costs, write_library, write_net
from tvm.relay.collage.cli import bench, building
from tvm.relay.collage.costs.compared import ComparedPlan, Ratio


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return write_net(tmp_path_factory.mktemp("bench") / "net.onnx")


def test_all_that_are_installed_run_and_agree(net, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    with_made_up_costs(monkeypatch)
    assert call("bench", net, "--rounds", 6, "--json", *QUICK) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in told["contestants"]}
    assert set(rows) | set(told["left_out"]) == {"collage", "onnxruntime", "openvino"}
    assert rows["collage"]["status"] == "measured" and rows["collage"]["output_error"] < 1e-4
    assert rows["collage"]["ratio_to_best_single"]["value"] > 0


def test_wrong_outputs_end_with_1_and_no_time(net, monkeypatch, capsys, tmp_path):
    pytest.importorskip("onnxruntime")
    with_made_up_costs(monkeypatch)
    other = write_net(tmp_path / "other.onnx", scale=2.0)
    assert call("compile", other, "-o", tmp_path / "other.so", *QUICK) == 0
    assert call("bench", net, "--library", tmp_path / "other.so", "--rounds", 2, *QUICK) == 1
    assert "Collage failed: wrong_result" in capsys.readouterr().out


TOO_FEW = {"low": 0.0, "high": None}


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (TOO_FEW, ", 1.200 x (too few rounds to be sure) as fast as the fastest other, {other}."),
        (
            {"low": 1.1, "high": 1.3},
            ", 1.200 [1.100, 1.300] x as fast as the fastest other, {other}.",
        ),
        (
            {"low": 0.9, "high": 1.3},
            "; {other} is too close to tell which is faster: 1.200 [0.900, 1.300] x as fast.",
        ),
    ],
)
def test_the_verdict_is_a_sentence_also_where_nothing_is_sure(bounds, text):
    rows = [
        ComparedPlan(
            *(name, name != "collage", False, "measured", seconds, None, None, 30),
            ratio_to_best_single=Ratio(times, **bounds),
        )
        for name, seconds, times, bounds in (
            ("collage", 1e-3, 1.2, bounds),
            ("onnxruntime", 1.2e-3, 1.0, {"low": 1.0, "high": 1.0}),
        )
    ]
    expected = "Collage takes 1 ms a run" + text.format(other="onnxruntime with 1.2 ms")
    assert bench._verdict(rows) == expected


def test_a_library_that_was_cut_off_is_told_before_anything_is_measured(
    net, monkeypatch, capsys, tmp_path
):
    whole = write_library(tmp_path / "whole.so")
    cut = tmp_path / "cut.so"
    cut.write_bytes(whole.read_bytes()[:1000])
    monkeypatch.setattr(bench, "measure", None)
    assert call("bench", net, "--library", cut, *QUICK) != 0
    err = capsys.readouterr().err
    assert "cut.so is cut off: its last " in err and err.count("\n") == 1


def test_without_anybody_else_it_says_so_and_the_model_is_imported_once(net, monkeypatch, capsys):
    with_made_up_costs(monkeypatch)
    monkeypatch.setattr(bench, "PEERS", {})
    imports = []
    load = building.onnx_module
    monkeypatch.setattr(building, "onnx_module", lambda *of: imports.append(of) or load(*of))
    assert call("bench", net, "--rounds", 2, *QUICK) == 0
    assert "no time of another to compare it with" in capsys.readouterr().out
    assert len(imports) == 1


def test_waiting_for_another_search_is_told(monkeypatch):
    monkeypatch.setattr(bench, "compared", lambda *asked: asked[-1].on_wait("waiting for another"))
    told = []

    def on_step(*step, **how):
        told.append((*step, how))

    bench.measure("m", "l", "i", rtol=1e-3, race=bench.told_race(9, 0, on_step))
    assert told == [("waiting for another", 0, 9, {"is_waiting": True})]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("net.pt",), "onnxruntime and OpenVINO read ONNX files alone"),
        (("open.onnx",), "open.onnx: inputs have open dimensions (x [?, 4, 8, 8]): fix them by --"),
    ],
)
def test_what_cannot_be_compared_is_one_line(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    write_net(tmp_path / "open.onnx", batch="N")
    assert call("bench", *arguments, *QUICK) == 1
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and SHAPE


def test_with_samples_all_are_beside_each_other_in_each_precision_within_the_budget(
    net, monkeypatch, capsys, tmp_path
):
    pytest.importorskip("nncf", reason="the extra precision is not installed")
    with_made_up_costs(monkeypatch)
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((8, *SHAPE)).astype("float32")
    np.savez("samples.npz", x=x)
    assert call("compile", net, "-o", "ours.so", *QUICK) == 0
    capsys.readouterr()
    given = ("--accuracy-budget", "1e-4", "--calibration", "samples.npz", "--rounds", 2, "--json")
    assert call("bench", net, "--library", "ours.so", *given, *QUICK) == 0
    found = json.loads(capsys.readouterr().out)["contestants"]
    rows = {row["name"]: row for row in found}
    assert rows["collage"]["seconds"] and rows["onnxruntime float32"]["seconds"]
    over = rows["onnxruntime int8"]
    assert over["seconds"] is None and over["status"] == "wrong_result"
