# SPDX-License-Identifier: Apache-2.0
"""The benchmark of imports, on a net of two convolutions and a file."""

import re

import bench_nets
import import_time
import onnx
import pytest
from tvm.relay import collage


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=4)


def test_nets_and_files_have_their_lines(nets, tmp_path, capsys):
    file = tmp_path / "other.onnx"
    onnx.save(bench_nets.two_convolutions(1, 3), file)
    assert import_time.main(["--nets", "small", "--files", str(file), "--rounds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = r"3 nodes, ours [\d.]+ s, TVM's [\d.]+ s: [\d.]+ \[[\d.]+, [\d.]+\] times as fast"
    assert [line.partition(":")[0] for line in lines] == ["small", "other.onnx"]
    for line in lines:
        assert re.fullmatch(rf"\S+: {figures}, the same module", line), line
    assert import_time.main(["--nets", "small", "--rounds", "1", "--skip-stock"]) == 0
    assert re.fullmatch(r"small: 3 nodes, ours [\d.]+ s\n", capsys.readouterr().out)


def test_what_cannot_be_imported_is_left_out(nets, tmp_path, capsys):
    assert import_time.main(["--nets", "bad", "--files", str(tmp_path / "none.onnx")]) == 1
    said = capsys.readouterr().err
    assert "bad: left out" in said and "none.onnx: left out" in said


def test_another_module_is_no_figure(nets, monkeypatch, capsys):
    other = collage.from_onnx(bench_nets.two_convolutions(1, 3))
    monkeypatch.setattr(collage, "from_onnx", lambda model: other)
    assert import_time.main(["--nets", "small", "--rounds", "1"]) == 1
    assert "small: left out: the modules differ" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name nets or files"),
        (["--nets", "smal"], "unknown net smal: choose of small, bad"),
        (["--nets", "small", "--rounds", "0"], "--rounds must be at least 1"),
    ],
)
def test_what_is_refused(nets, arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        import_time.main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err
