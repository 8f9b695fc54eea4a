# SPDX-License-Identifier: Apache-2.0
"""Nets in 8 bits as files of bench/real_files.py: their rows, and that each is made once."""

import models
import onnx
import pytest
import real_files
from harness.quantised import BY, NETS, NNCF, ONNXRUNTIME, Quantised
from tvm.relay.collage.errors import ModelError
from tvm.relay.collage.precision import quantiser


def row_of(package, **given):
    facts = {"version": "", "topic": "images", "license": "", "path": "ppocr_cls.onnx"}
    return Quantised(package=package, sha256="", **facts, **given)


def test_there_is_a_row_for_each_net_and_quantiser(capsys):
    asked = ["--files", "quantised"]
    names = [row.name for row in real_files.chosen(real_files.parse(asked))]
    assert names == [f"{by}/{net}.onnx" for by in BY for net in NETS]
    [row] = real_files.chosen(real_files.parse([*asked, "--only", "nncf/resnet50.onnx"]))
    assert row.name == "nncf/resnet50.onnx"
    with pytest.raises(SystemExit):
        real_files.parse([*asked, "--only", "hand"])
    assert "no package and no file of the table is called hand" in capsys.readouterr().err


def test_a_file_is_made_once(tmp_path, monkeypatch):
    made = []

    def quantise(model, inputs):
        made.append(set(inputs) == {value.name for value in model.graph.input})
        return model

    monkeypatch.setattr(models.low_precision, "quantise", quantise)
    row = row_of(ONNXRUNTIME)
    file = row.fetch(tmp_path)
    assert row.fetch(tmp_path) == file == tmp_path / "onnxruntime/ppocr_cls.onnx"
    assert made == [True] and onnx.load(file).graph.node


def test_nncf_quantises_by_the_same_inputs(tmp_path):
    made = onnx.load(row_of(NNCF).fetch(tmp_path))
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in made.graph.node}


def test_a_net_that_nncf_cannot_quantise_is_left_out_with_a_reason(tmp_path, monkeypatch):
    def refuse(*_):
        raise ModelError("it cannot be quantised: no")

    monkeypatch.setattr(quantiser, "quantise", refuse)
    with pytest.raises(FileNotFoundError, match=r"ppocr_cls.onnx: it cannot be quantised: no"):
        row_of(NNCF).fetch(tmp_path)
