# SPDX-License-Identifier: Apache-2.0
"""Libraries and executables of the VM as contestants; measure/race/test_race.py has all
others.
"""

import time

import numpy as np
import pytest
from relay_text import parse
from tvm.relay.collage.compile import build_library, build_vm
from tvm.relay.collage.exec import contestant
from tvm.relay.collage.exec.contestant import Stage
from tvm.relay.collage.exec.resolve import resolve
from tvm.relay.collage.measure.race.library_contestant import library_contestant
from tvm.relay.collage.measure.race.race import Contestant


@pytest.fixture(scope="module")
def executable(tmp_path_factory):
    """The file of an executable of the VM that gives a nested tuple."""
    body = "if (%c) { (%x, (nn.relu(%x), %c)) } else { (%x, (%x, %c)) }"
    mod = parse(f"def @main(%c: bool, %x: $T) {{ {body} }}")
    file = str(tmp_path_factory.mktemp("vm") / "net.so")
    build_vm(mod, "llvm").mod.export_library(file)
    return file


@pytest.mark.parametrize("sets", [0, 2])
def test_an_executable_of_the_vm_runs_on_each_set_of_inputs(executable, tmp_path, sets):
    x, c = np.array([[-1, 2, -3, 4], [5, -6, 7, -8]], "float32"), np.array(True)
    given = {"x": np.stack([x, 2 * x]), "c": np.array([True, False])} if sets else {"x": x, "c": c}
    np.savez(tmp_path / "inputs.npz", **given)
    inputs = str(tmp_path / "inputs.npz")
    made = Contestant.of_library("net", executable, inputs, sets=sets)
    model = resolve(made.factory)(**made.arguments)
    model.run()
    found = model.outputs()
    expected = [x, np.maximum(x, 0), np.array(True)]
    expected += [2 * x, 2 * x, np.array(False)] if sets else []
    for ours, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("sets", [0, 3])
def test_a_library_of_the_graph_executor_runs_on_each_set_of_inputs(sets, tmp_path):
    mod = parse("def @main(%x: $T, %unread: Tensor[(3), float32]) { add(%x, 1f) }")
    file, inputs = str(tmp_path / "net.so"), str(tmp_path / "inputs.npz")
    build_library(mod, "llvm").export_library(file)
    x = np.arange(8 * (sets or 1), dtype="float32").reshape(*([sets] if sets else []), 2, 4)
    np.savez(inputs, x=x, unread=np.zeros((*x.shape[:-2], 3), "float32"))
    model = library_contestant(file, inputs, sets=sets)
    model.run()
    for ours, right in zip(model.outputs(), x if sets else [x], strict=True):
        np.testing.assert_array_equal(ours, right + 1)


def test_the_seconds_of_the_vm_are_those_of_one_set(monkeypatch, executable, tmp_path):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    given = {"x": np.zeros((4, 2, 4), "float32"), "c": np.zeros(4, "bool")}
    np.savez(tmp_path / "inputs.npz", **given)
    model = library_contestant(executable, str(tmp_path / "inputs.npz"), sets=4)

    def run():
        now[0] += 4e-3

    monkeypatch.setattr(model, "run", run)
    assert model.seconds(5) == pytest.approx(5e-3)
    # By the wall clock it takes all of them, which is what a limit of time has to allow.
    monkeypatch.setattr(contestant, "resolve", lambda factory: lambda: model)
    stage = Stage()
    stage.open("the model", {})
    tried = stage.probe()
    assert tried["seconds"] == pytest.approx(1e-3)
    assert tried["wall_seconds"] == pytest.approx(4e-3)


def test_what_holds_no_tensors_is_no_result_of_the_vm(tmp_path):
    closure = parse("def @main(%x: $T) { fn (%y: $T) { add(%x, %y) } }")
    file, inputs = str(tmp_path / "net.so"), str(tmp_path / "inputs.npz")
    build_vm(closure, "llvm").mod.export_library(file)
    np.savez(inputs, x=np.zeros((2, 4), "float32"))
    with pytest.raises(TypeError, match="which holds no tensors"):
        library_contestant(file, inputs).outputs()


def test_only_the_first_sets_are_timed_and_outputs_are_those_of_all(tmp_path):
    mod = parse("def @main(%x: $T) { add(%x, 1f) }")
    file, inputs = str(tmp_path / "net.so"), str(tmp_path / "inputs.npz")
    build_library(mod, "llvm").export_library(file)
    x = np.arange(24, dtype="float32").reshape(3, 2, 4)
    np.savez(inputs, x=x)
    model = library_contestant(file, inputs, sets=3, timed=1)
    slot, output = (model._executor[name] for name in ("get_input", "get_output"))
    for _ in range(2):  # also once outputs were asked for
        model.run()
        np.testing.assert_array_equal(slot("x").numpy(), x[0])
        np.testing.assert_array_equal(output(0).numpy(), x[0] + 1)
        for ours, right in zip(model.outputs(), x, strict=True):
            np.testing.assert_array_equal(ours, right + 1)
