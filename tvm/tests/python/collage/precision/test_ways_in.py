# SPDX-License-Identifier: Apache-2.0
"""Precisions by the command `collage` and by relay.build; what a user may get wrong there."""

import json

import numpy as np
import onnx
import pytest
import tvm
from cli_nets import call
from onnx_nets import conv_net
from tvm import relay
from tvm.relay import collage

FLAGS = ("--backends", "dnnl", "--progress", "quiet", "--effort", "quick", "--guard-rounds", "6")
WITHIN = ("--accuracy-budget", "0.5", "--metric", "rms", "--guard-seconds", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ways_in")
    onnx.save(conv_net(), path / "net.onnx")
    of_any_batch = conv_net()
    for value in (*of_any_batch.graph.input, *of_any_batch.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(of_any_batch, path / "open.onnx")
    rng = np.random.default_rng(0)
    np.savez(path / "samples.npz", x=rng.standard_normal((8, 3, 16, 16)).astype("float32"))
    return path


def stored(folder):
    return ("--store", folder / "costs.db")


def test_the_command_tells_what_ships_and_writes_the_model(folder, capsys):
    """Sizes that the model leaves open are those of the samples."""
    library, model = folder / "net.so", folder / "chosen.onnx"
    given = ("--calibration", folder / "samples.npz", "--save-model", model, *WITHIN, *FLAGS)
    assert call("compile", folder / "open.onnx", "-o", library, *given, *stored(folder)) == 0
    told = capsys.readouterr().out
    chosen = collage.load(library).report["precision"]
    (ships,) = (row["name"] for row in chosen["plans"] if row["is_chosen"])
    assert f"Precision {ships} ships (layers: " in told
    assert "the budget is 50.00% by the metric rms, on 2 samples." in told
    assert f"Wrote the model: {model}" in told
    onnx.checker.check_model(onnx.load(model))
    assert call("explain", library) == 0
    assert f"Precision {ships} ships" in capsys.readouterr().out
    assert call("report", library) == 0
    assert f"Precision {ships} ships" in capsys.readouterr().out


def test_relay_build_takes_them_by_the_models_file(folder):
    options = collage.CollageOptions(
        enable_collage=True,
        calibration=str(folder / "samples.npz"),
        original=str(folder / "net.onnx"),
        accuracy_budget=0.5,
        effort="quick",
        guard_rounds=6,
        guard_seconds=1.0,
        progress="quiet",
        store=str(folder / "costs.db"),
    )
    mod, params = collage.from_onnx(conv_net())
    with tvm.transform.PassContext(opt_level=3, config=options.to_config()):
        library = relay.build(mod, target=["llvm", "dnnl"], params=params)
    told = library.collage.precision
    assert told.chosen.name in {"float32", "int8", "mixed"} and len(told.layers) == 3
    assert library.collage.runner()({"x": np.zeros((1, 3, 16, 16), "float32")})[0].shape == (1, 10)


def test_relay_build_needs_the_models_file(folder):
    options = collage.CollageOptions(
        enable_collage=True, calibration=str(folder / "samples.npz"), accuracy_budget=0.5
    )
    mod, params = collage.from_onnx(conv_net())
    with (
        tvm.transform.PassContext(opt_level=3, config=options.to_config()),
        pytest.raises(collage.OptionError, match="name that by option relay.collage.original"),
    ):
        relay.build(mod, target=["llvm", "dnnl"], params=params)


@pytest.mark.parametrize(
    "code, flags, said",
    [
        (2, ("--save-model", "m.onnx"), "give --calibration"),
        (2, ("--calibration", "samples.npz"), "set --accuracy-budget"),
        (2, ("--metric", "rms"), "--metric judges precisions by samples, of which there are none"),
        (
            1,
            ("--calibration", "none.npz", "--accuracy-budget", "0.1"),
            "--calibration: 'none.npz' cannot be read: there is no such file",
        ),
        (
            2,
            ("--calibration", "samples.npz", "--accuracy-budget", "0.1", "--metric", "no"),
            "--metric: 'no' is none of max, rms, argmax",
        ),
        (
            2,
            ("--calibration", "samples.npz", "--accuracy-budget", "0.1", "--shape", "x=2,3,16,16"),
            "samples of input 'x' have shape (1, 3, 16, 16), and (2, 3, 16, 16) is asked for",
        ),
    ],
)
def test_what_is_wrong_is_told_by_the_names_of_flags(
    folder, monkeypatch, capsys, code, flags, said
):
    monkeypatch.chdir(folder)
    assert call("search", "net.onnx", *flags, *FLAGS) == code
    told = capsys.readouterr()
    assert said in told.out + told.err and "Traceback" not in told.err


def test_samples_of_another_input_are_refused_before_anything_is_built(folder, capsys, tmp_path):
    file = tmp_path / "others.npz"
    np.savez(file, image=np.zeros((4, 3, 16, 16), "float32"))
    given = ("--calibration", file, "--accuracy-budget", "0.1", *FLAGS)
    assert call("search", folder / "net.onnx", *given) == 1
    assert "'image' is no input of the model (inputs: x)" in capsys.readouterr().err


def test_a_replay_takes_the_models_file_that_was_written(folder, capsys):
    model, placement, again = (folder / name for name in ("chosen.onnx", "p.json", "again.so"))
    given = ("--calibration", folder / "samples.npz", "--save-placement", placement)
    given += ("--save-model", model, *WITHIN, *FLAGS, *stored(folder))
    assert call("search", folder / "net.onnx", *given) == 0
    assert call("replay", model, placement, "-o", again, "--backends", "dnnl", "--quiet") == 0
    report = collage.load(again).report
    assert json.dumps(report["precision"]["layers"]) and report["plan"]
    capsys.readouterr()
