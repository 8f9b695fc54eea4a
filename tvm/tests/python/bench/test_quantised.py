# SPDX-License-Identifier: Apache-2.0
"""Nets in 8 bits as files of bench/real_files.py: their rows, and that each is made once."""

import subprocess

import models
import onnx
import pytest
import real_files
from harness import quantised
from harness.quantised import BY, NETS, NNCF, ONNXRUNTIME, Quantised


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


def test_nncf_has_a_python_of_its_own(tmp_path, monkeypatch):
    """It is given a model of version 13, whose values have shapes, and inputs."""
    given = []

    def run(command, **_):
        given.append((onnx.load(command[3]), command[0]))
        quantised.Path(command[5]).write_bytes(b"made")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(quantised.subprocess, "run", run)
    row = row_of(NNCF, python="python-with-nncf")
    assert row.fetch(tmp_path).read_bytes() == b"made"
    [(model, python)] = given
    assert python == "python-with-nncf" and model.opset_import[0].version == 13
    assert len(model.graph.value_info) > 100


def test_without_nncf_the_reason_is_a_line(tmp_path):
    row = row_of(NNCF)
    with pytest.raises(FileNotFoundError, match=r"ppocr_cls.onnx: .*nncf.*\(--nncf-python\)"):
        row.fetch(tmp_path)
