# SPDX-License-Identifier: Apache-2.0
"""`collage check`, and what commands that build say of the original."""

import json
import warnings

import numpy as np
import onnx
import pytest
from cli_nets import COMPARED, call, with_made_up_costs, write_net
from tvm import relay
from tvm.relay.collage.errors import ModelError
from tvm.relay.collage.importer.onnx import from_onnx
from tvm.relay.frontend import onnx as frontend


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return write_net(tmp_path_factory.mktemp("check") / "net.onnx")


@pytest.fixture
def wrong_cosine(monkeypatch):
    stock = frontend._get_convert_map
    cos = {"Cos": lambda inputs, *_: relay.sin(inputs[0])}
    monkeypatch.setattr(frontend, "_get_convert_map", lambda opset: {**stock(opset), **cos})


def test_a_model_that_agrees(net, capsys):
    assert call("check", net, "--progress", "quiet") == 0
    assert capsys.readouterr().out.startswith(f"{net}: outputs agree with onnxruntime to ")
    assert call("check", net, "--progress", "quiet", "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert row["error"] < 1e-5 and row["by"].startswith("onnxruntime ") and row["why"] == ""


def test_one_that_does_not_is_one_line_and_code_1(net, capsys, wrong_cosine):
    assert call("check", net, "--progress", "quiet") == 1
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1
    assert f"{net}: output conv2 is off from onnxruntime" in error and 'Cos "cos1"' in error


def test_what_tvms_importer_warns_of_is_left_to_our_one_line(net, tmp_path, capsys):
    proto = onnx.load(net)
    proto.graph.node[0].input[0] = "ghost"
    onnx.save(proto, tmp_path / "ghost.onnx")
    with pytest.warns(UserWarning, match="ghost"), pytest.raises(ModelError):
        from_onnx(proto)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert call("check", tmp_path / "ghost.onnx", "--progress", "quiet") == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not [each for each in seen if "frontend" in each.filename]


def test_real_inputs_are_taken_and_wrong_ones_refused(net, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=np.ones((1, 4, 8, 8), "float32"))
    np.savez(tmp_path / "z.npz", z=np.ones(3))
    given = ("check", net, "--progress", "quiet", "--sample-inputs")
    assert call(*given, tmp_path / "x.npz") == 0
    assert call(*given, tmp_path / "z.npz") == 1
    assert "--sample-inputs" in capsys.readouterr().err


def test_nothing_to_compare_with_is_code_1(net, tmp_path, capsys):
    path = write_net(tmp_path / "open.onnx", batch="n")
    assert call("check", path, "--progress", "quiet") == 1
    assert "were not compared with the original's: inputs with open" in capsys.readouterr().err


def test_compile_writes_nothing_for_a_wrong_import(
    monkeypatch, net, tmp_path, capsys, wrong_cosine
):
    with_made_up_costs(monkeypatch)
    library = tmp_path / "net.so"
    assert call("compile", net, "-o", library, *COMPARED) == 1
    assert not library.exists()
    assert capsys.readouterr().err.endswith("--original none compiles it as it is\n")
    assert call("compile", net, "-o", library, "--original", "none", *COMPARED) == 0
    assert library.exists() and "agree" not in capsys.readouterr().out
