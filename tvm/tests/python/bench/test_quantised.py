# SPDX-License-Identifier: Apache-2.0
"""bench/quantised.py: its rows, the files that it makes once, and what is no quantiser."""

import subprocess

import onnx
import pytest
import quantised
import real_files
from harness import records
from harness.tables import with_part
from quantised import BY, NNCF, ONNXRUNTIME
from tree import ROOT

NETS = quantised.NETS.split(",")


def test_there_is_a_row_for_each_net_and_quantiser():
    names = [row.name for row in quantised.rows(["vit", "bert"], BY)]
    assert names == [f"{by}/{net}.onnx" for by in BY for net in ("vit", "bert")]
    assert quantised.parse([]).nets == quantised.NETS.split(",")


def test_a_file_is_made_once(tmp_path, monkeypatch):
    made = []

    def quantise(model, inputs):
        made.append(set(inputs) == {value.name for value in model.graph.input})
        return model

    monkeypatch.setattr(quantised.models.low_precision, "quantise", quantise)
    [row] = quantised.rows(["ppocr_cls"], [ONNXRUNTIME])
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
    [row] = quantised.rows(["ppocr_cls"], [NNCF], "python-with-nncf")
    assert row.fetch(tmp_path).read_bytes() == b"made"
    [(model, python)] = given
    assert python == "python-with-nncf" and model.opset_import[0].version == 13
    assert len(model.graph.value_info) > 100


def test_without_nncf_the_reason_is_a_line(tmp_path):
    [row] = quantised.rows(["ppocr_cls"], [NNCF], quantised.sys.executable)
    with pytest.raises(FileNotFoundError, match=r"ppocr_cls.onnx: .*nncf.*\(--nncf-python\)"):
        row.fetch(tmp_path)


def test_the_page_has_the_table_of_the_records():
    found = list(records.load(ROOT / "docs/quantised.jsonl", real_files.KEY).values())
    marks = [f"<!-- quantised.jsonl: {end} -->\n" for end in ("begin", "end")]
    text, table = (ROOT / "docs/real_files.md").read_text(), quantised.rows(NETS, BY)
    part = real_files.page_of(table, found)
    assert text == with_part(text, *marks, part), "quantised.py --write-docs"


def test_another_quantiser_is_refused(capsys):
    with pytest.raises(SystemExit):
        quantised.parse(["--by", "hand"])
    assert "hand is none of onnxruntime, nncf" in capsys.readouterr().err
