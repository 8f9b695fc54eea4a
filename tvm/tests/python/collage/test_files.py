# SPDX-License-Identifier: Apache-2.0
"""The option report: the file holds the result's JSON; paths that cannot be written."""

import json
import os

import pytest
import tvm
from relay_text import parse
from tvm.relay.collage import CollageError, CollageOptions, OptionError, optimize


def module():
    return parse("def @main(%x: $T) { nn.relu(%x) }")


def test_the_file_is_the_results_json(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("an older one")
    result = optimize(module(), None, "llvm", CollageOptions(report=str(path)))
    assert json.loads(path.read_text()) == result.to_json()
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_build_writes_it_too(tmp_path):
    path = tmp_path / "report.json"
    config = {"relay.collage.enable_collage": True, "relay.collage.report": str(path)}
    with tvm.transform.PassContext(config=config):
        tvm.relay.build(module(), "llvm")
    assert json.loads(path.read_text())["plan"] == "tvm"


@pytest.mark.parametrize(
    "name, reason", [("no/such.json", "there is no folder"), ("", "it is a folder")]
)
def test_a_path_that_cannot_be_written_is_an_error_at_once(tmp_path, monkeypatch, name, reason):
    monkeypatch.setattr("tvm.relay.collage.optimizer.prepare", lambda *_, **__: pytest.fail("ran"))
    options = CollageOptions(report=os.path.join(tmp_path, name))
    with pytest.raises(OptionError, match="option relay.collage.report: .* cannot be written"):
        optimize(module(), None, "llvm", options)
    with pytest.raises(CollageError, match=reason):
        optimize(module(), None, "llvm", options)


def test_a_file_that_fails_at_the_end_keeps_the_result(tmp_path, monkeypatch, caplog):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tvm.relay.collage.files.write_whole", full)
    result = optimize(module(), None, "llvm", CollageOptions(report=str(tmp_path / "r.json")))
    assert result.plan == "tvm"
    assert "r.json' was not written: [Errno 28] No space left on device" in caplog.text
