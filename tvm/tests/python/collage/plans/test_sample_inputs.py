# SPDX-License-Identifier: Apache-2.0
"""Inputs given by the user: what is wrong with them is said, and whole plans run on them."""

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, MockCostEstimator, optimizer

WEIGHT = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")


def net():
    """Divides by zero where x is small, which ends a process; nobody can walk back through tanh."""
    mod = parse("""
      def @main(%x: Tensor[(4, 8), float32], %i: Tensor[(4, 8), int32],
                %w: Tensor[(8, 8), float32]) {
        %0 = cast(multiply(tanh(%x), 1.5f), dtype="int32");
        (nn.relu(nn.dense(%x, %w, units=None)), divide(%i, %0))
      }""")
    return mod, {"w": tvm.nd.array(WEIGHT)}


def samples():
    rng = np.random.default_rng(1)
    return {
        "x": -np.abs(rng.standard_normal((4, 8))).astype("float32") - np.float32(1),
        "i": rng.integers(0, 99, (4, 8)).astype("int32"),
    }


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"z": np.zeros(1)}, "'z' is no input of the model (inputs: x, i)"),
        ({"w": WEIGHT}, "'w' is no input of the model (inputs: x, i); parameters that are bound"),
        (
            {"x": np.zeros((4, 9), "float32")},
            "input 'x' takes float32 of shape (4, 8), got float32 of shape (4, 9)",
        ),
        (
            {"x": np.zeros((4, 8))},
            "input 'x' takes float32 of shape (4, 8), got float64 of shape (4, 8)",
        ),
        ({"i": 3}, "input 'i' takes int32 of shape (4, 8), got int64 of shape ()"),
    ],
)
def test_what_is_no_input_is_refused(wrong, said):
    with pytest.raises(collage.OptionError) as caught:
        collage.optimize(*net(), ["llvm"], sample_inputs=wrong)
    text = str(caught.value)
    assert text.startswith(f"option relay.collage.sample_inputs: {said}") and "\n" not in text


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "cannot be read: there is no such file; name"),
        (b"", "is no .npz file of arrays (it seems to be an empty file); name"),
        (b"text", "is no .npz file of arrays (it seems to be a text); name"),
        (b"PK\x03\x04 cut", "is no .npz file of arrays (File is not a zip file); name"),
        (b"PK\x05\x06 cut", "is no .npz file of arrays (File is not a zip file); name"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, content, said):
    path = tmp_path / "inputs.npz"
    if content is not None:
        path.write_bytes(content)
    config = {"relay.collage.enable_collage": True, "relay.collage.sample_inputs": str(path)}
    mod, params = net()
    context = tvm.transform.PassContext(opt_level=3, config=config)
    with context, pytest.raises(collage.OptionError) as caught:
        relay.build(mod, target="llvm", params=params)
    text = str(caught.value)
    assert text.startswith(f"option relay.collage.sample_inputs: {str(path)!r} {said}")
    assert "numpy.savez" in text and "\n" not in text
    assert caught.value.__cause__ is None, "a foreign traceback before ours hides it"


@pytest.mark.parametrize(
    "given, error, said",
    [
        ("inputs.npy", collage.OptionError, "is no .npz file of arrays .* numpy.savez"),
        ({"x": [[1.0], [1.0, 2.0]]}, TypeError, "sample_inputs: input 'x' is no array: "),
        ([np.zeros(1)], TypeError, "sample_inputs takes arrays by input name"),
    ],
)
def test_what_are_no_arrays_by_name_is_refused(tmp_path, monkeypatch, given, error, said):
    monkeypatch.chdir(tmp_path)
    np.save("inputs.npy", np.zeros(3))
    with pytest.raises(error, match=said):
        collage.optimize(*net(), ["llvm"], sample_inputs=given)


def test_inputs_without_a_fixed_size_take_any():
    x = relay.var("x", shape=(relay.Any(), 4))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    given = {"x": tvm.nd.array(np.zeros((7, 4), ">f4").astype("float32"))}
    assert collage.optimize(mod, None, ["llvm"], sample_inputs=given).plan == "tvm"


@pytest.fixture
def mock_costs(monkeypatch):
    monkeypatch.setattr(
        optimizer, "CostEstimator", lambda *_: MockCostEstimator({"llvm": 10, "dnnl": 1})
    )


def test_a_model_that_runs_on_no_made_up_inputs_ships_with_a_warning(mock_costs, caplog):
    """Its processes die by a signal; the build goes on, and says what helps."""
    result = collage.optimize(*net(), ["llvm", "dnnl"], CollageOptions(guard_rounds=1))
    assert result.guard is None and result.plan in ("collage", "tvm")
    assert "crashed" in result.guard_skipped and "sample_inputs" in result.guard_skipped
    assert "ships without end-to-end measurements" in caplog.text
    assert "sample_inputs" in caplog.text


def test_whole_plans_run_on_given_inputs(mock_costs, tmp_path):
    path = tmp_path / "inputs.npz"
    np.savez(path, **samples())
    options = CollageOptions(guard_rounds=1, guard_seconds=0.1, sample_inputs=str(path))
    result = collage.optimize(*net(), ["llvm", "dnnl"], options)
    assert result.guard is not None and result.guard.unverified == ""
    assert all(item.cost.is_usable for item in result.guard.comparisons)
