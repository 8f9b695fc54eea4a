# SPDX-License-Identifier: Apache-2.0
"""`collage tt export`: by another interpreter, which may lack what it needs."""

import stat
import sys

import pytest
from tt_runs import answer
from tvm_collage.cli.export_torch import NETS


@pytest.fixture
def python(tmp_path):
    """An interpreter that notes what it is asked and writes an empty file, or fails."""

    def make(ending):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\necho "$3 $4" >> {tmp_path}/asked\n{ending}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_each_net_is_written_once_by_the_interpreter_that_is_named(tmp_path, python, capsys):
    export = ["export", "--models", "resnet18, bert", "--batch", 2, "-o", tmp_path / "nets"]
    export += ["--python", python('touch "$5"')]
    found = answer(capsys, *export)
    assert found["written"] == ["resnet18", "bert"] and found["kept"] == []
    assert (tmp_path / "asked").read_text() == "resnet18 2\nbert 2\n"
    assert answer(capsys, *export)["kept"] == ["resnet18", "bert"]
    assert (tmp_path / "asked").read_text() == "resnet18 2\nbert 2\n"


def test_a_net_of_another_batch_is_another_file(tmp_path, python, capsys):
    export = ["export", "--models", "bert", "-o", tmp_path, "--python", python('touch "$5"')]
    for batch in (1, 2, 8):
        found = answer(capsys, *export, "--batch", batch)
        assert (found["written"], found["kept"]) == (["bert"], [])
    files = {path.name for path in tmp_path.glob("*.onnx")}
    assert files == {"bert.onnx", "bert-batch2.onnx", "bert-batch8.onnx"}


def test_what_the_interpreter_lacks_is_named_with_what_to_do(tmp_path, python, capsys):
    export = ["export", "--models", "vgg16", "-o", tmp_path, "--python"]
    lacking = python("echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1")
    error = answer(capsys, *export, lacking, code=1)["error"]
    assert "No module named 'torch'" in error and "--python an interpreter that has torch" in error
    failing = python("echo 'RuntimeError: too large' >&2; exit 1")
    assert "RuntimeError: too large" in answer(capsys, *export, failing, code=1)["error"]
    assert "No such file" in answer(capsys, *export, str(tmp_path / "absent"), code=1)["error"]


def test_the_nets_are_those_of_the_paper():
    assert len(NETS) == 11 and {"resnet50", "efficientnet_b4", "mobilebert"} <= set(NETS)


def test_torch_writes_a_net_that_tvm_reads(tmp_path, capsys):
    pytest.importorskip("torchvision", reason="make test-torch has it")
    found = answer(
        capsys, "export", "--models", "mnasnet", "-o", tmp_path, "--python", sys.executable
    )
    assert found["written"] == ["mnasnet"]
    assert answer(capsys, "info", tmp_path / "mnasnet.onnx")["kernels"]
