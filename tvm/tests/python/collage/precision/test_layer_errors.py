# SPDX-License-Identifier: Apache-2.0
"""Errors of choices beside the models that they stand for, run by onnxruntime itself."""

import numpy as np
import onnxruntime
import pytest
from quantised_nets import both_forms
from tvm.relay import collage
from tvm.relay.collage.precision import layer_errors
from tvm.relay.collage.precision.layer_errors import Switchboard, run_switched
from tvm.relay.collage.precision.layers import INT8, Quantised


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(2)
    return [{"x": rng.standard_normal((1, 3, 16, 16)).astype("float32")} for _ in range(3)]


@pytest.fixture(scope="module")
def board(samples, tmp_path_factory):
    quantised = Quantised(*both_forms())
    return Switchboard(quantised, samples, str(tmp_path_factory.mktemp("board")), "bfloat16")


def outputs_of(model, samples):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return [session.run(None, row) for row in samples]


CHOICES = [{}, {"c1": INT8}, {"y": "bfloat16"}, {"c1": INT8, "c2": INT8, "c3": INT8, "y": INT8}]


def test_errors_are_those_of_the_models(board, samples):
    none, one, short, all_of_them = board.square_errors(CHOICES)
    assert none == 0.0 and 0 < short < 1e-4 < min(one, all_of_them)
    plain, quantised = (outputs_of(model, samples) for model in both_forms())
    pairs = [(a[0], b[0]) for a, b in zip(quantised, plain, strict=True)]
    wanted = np.mean([np.sum((a - b) ** 2) / np.sum(b**2) for a, b in pairs])
    assert all_of_them == pytest.approx(wanted, rel=1e-3)


def test_outputs_are_those_of_the_models_sample_by_sample(board, samples):
    found = list(board.outputs([{}, CHOICES[-1]]))
    assert [[len(row) for row in choice] for choice in found] == [[1] * 3] * 2
    for choice, model in zip(found, both_forms(), strict=True):
        for own, right in zip(choice, outputs_of(model, samples), strict=True):
            np.testing.assert_allclose(own[0], right[0], 1e-3, 1e-4)


def test_samples_are_left_out_where_all_would_take_too_long(board, monkeypatch, samples):
    """One is always run."""
    monkeypatch.setattr(layer_errors, "_BUDGET_SECONDS", 0.0)
    names = board._switches
    on = [[True] * len(names)]
    arguments = {"model": board._model, "samples": board._samples, "switches": names}
    (one,) = run_switched(**arguments, count=3, states=on, outputs="")
    (alone,) = run_switched(**arguments, count=1, states=on, outputs="")
    assert one == alone > 0


def test_a_model_that_does_not_run_is_an_error_of_the_model(tmp_path):
    quantised = Quantised(*both_forms())
    wrong = [{"x": np.zeros((1, 5, 16, 16), "float32")}]
    with pytest.raises(collage.ModelError, match="its layers cannot be judged"):
        Switchboard(quantised, wrong, str(tmp_path)).square_errors([{}])
