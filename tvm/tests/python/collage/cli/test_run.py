# SPDX-License-Identifier: Apache-2.0
"""`collage run`: a library on given or made-up inputs."""

import json

import numpy as np
import pytest
import tvm
from cli_nets import call
from relay_text import parse, plain_host
from tvm.relay import collage
from tvm.relay.collage.cli import run as command

TEXT = """def @main(%x: Tensor[(2, 4), float32], %rows: Tensor[(3), int32]) {
  (take(%x, %rows, axis=0), nn.relu(%x))
}"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "net.so"
    tvm.relay.build(parse(TEXT), target=plain_host()).export_library(str(path))
    return path


def test_given_inputs_give_outputs(library, tmp_path, capsys):
    x = np.arange(-4, 4, dtype="float32").reshape(2, 4)
    np.savez(tmp_path / "in.npz", x=x, rows=np.array([1, 0, 1], "int32"))
    files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert call("run", library, *files) == 0
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["output_0"], x[[1, 0, 1]])
        np.testing.assert_array_equal(outputs["output_1"], np.maximum(x, 0))
    assert capsys.readouterr().out.startswith("'output_0': float32[3, 4] = 0, 1, 2, 3, -4, -3, ...")


BRANCHES = """def @main(%x: Tensor[(2, 3), float32], %c: bool) {
  if (%c) { nn.relu(%x) } else { tanh(%x) }
}"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A library that TVM's VM runs."""
    path = tmp_path_factory.mktemp("vm") / "net.so"
    options = collage.CollageOptions(progress="quiet", guard=False, store="none")
    result = collage.optimize(parse(BRANCHES), targets=plain_host(), options=options)
    assert result.executor == "vm"
    result.save_library(path)
    return path


@pytest.mark.parametrize(("choice", "right"), [(True, [0, 0, 1]), (False, np.tanh([-1, 0, 1]))])
def test_a_library_of_the_vm_runs_too(machine, tmp_path, capsys, monkeypatch, choice, right):
    monkeypatch.setattr(command, "MEASURED_SECONDS", 0.0)
    x = np.tile(np.arange(-1, 2, dtype="float32"), (2, 1))
    np.savez(tmp_path / "in.npz", x=x, c=np.bool_(choice))
    files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert call("run", machine, *files, "--time", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["time"]["runs"] == 10
    assert facts["outputs"] == [{"name": "output_0", "shape": [2, 3], "dtype": "float32"}]
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_allclose(outputs["output_0"], np.tile(right, (2, 1)), rtol=1e-5)
    assert call("run", machine) == 0  # on inputs that are made up


def test_what_only_a_run_tells_is_told_of_the_run(tmp_path, capsys):
    path = tmp_path / "net.so"
    options = collage.CollageOptions(progress="quiet", guard=False, store="none")
    mod = parse("def @main(%x: Tensor[(4), bool]) { argwhere(%x) }")
    collage.optimize(mod, targets=plain_host(), options=options).save_library(path)
    np.savez(tmp_path / "in.npz", x=np.array([False, True, True, False]))
    assert call("run", path, "--inputs", tmp_path / "in.npz") == 0
    assert capsys.readouterr().out == "'output_0': int32[2, 1] = 1, 2\n"


def test_a_library_of_the_vm_without_its_report_says_who_runs_it(tmp_path, capsys):
    path = tmp_path / "net.so"
    tvm.relay.vm.compile(parse(BRANCHES), target=plain_host()).mod.export_library(str(path))
    assert call("run", path) == 1
    err = capsys.readouterr().err
    assert "net.so is for TVM's VM: " in err and "VirtualMachine" in err and err.count("\n") == 1


def test_inputs_are_made_up_and_runs_timed(library, capsys, monkeypatch):
    monkeypatch.setattr(command, "MEASURED_SECONDS", 0.0)
    assert call("run", library, "--time", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["time"]["runs"] == 10 and facts["time"]["seconds"] > 0
    assert [row["shape"] for row in facts["outputs"]] == [[3, 4], [2, 4]]
    assert call("run", library, "--time") == 0
    assert "the median of 10 with its 95 % interval" in capsys.readouterr().out


@pytest.mark.parametrize(("load", "says"), [(0.0, False), (0.6, True)])
def test_a_time_that_others_spoil_says_so(library, capsys, monkeypatch, load, says):
    monkeypatch.setattr(command, "MEASURED_SECONDS", 0.0)
    monkeypatch.setattr(command.LoadMeter, "load", lambda meter: load)
    assert call("run", library, "--time") == 0
    told = capsys.readouterr().out
    assert ("(busy) a run" in told) == ("others took 60% of the CPUs" in told) == says
    assert call("run", library, "--time", "--json") == 0
    assert json.loads(capsys.readouterr().out)["time"]["load"] == load


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"y": np.zeros(2)}, "'y' is no input of the library (inputs: x, rows)"),
        ({"x": np.zeros((2, 4))}, "takes 'x': float32[2, 4], got float64"),
    ],
)
def test_an_input_that_does_not_fit_is_one_line(library, tmp_path, capsys, arrays, says):
    np.savez(tmp_path / "in.npz", **arrays)
    assert call("run", library, "--inputs", tmp_path / "in.npz") == 1
    err = capsys.readouterr().err
    assert f"--inputs: '{tmp_path / 'in.npz'}': " in err and says in err


def test_a_file_that_holds_no_arrays_is_told_by_the_flag(library, tmp_path, capsys):
    (tmp_path / "in.npz").write_text("nothing")
    assert call("run", library, "--inputs", tmp_path / "in.npz") == 1
    err = capsys.readouterr().err
    assert err.startswith("collage: --inputs: ") and "is no .npz file of arrays" in err


def test_a_file_that_is_no_library_is_one_line(tmp_path, capsys):
    (tmp_path / "net.so").write_text("nothing")
    for name in ("net.so", "absent.so"):
        assert call("run", tmp_path / name) == 1
        err = capsys.readouterr().err
        assert name in err and err.count("\n") == 1, err
