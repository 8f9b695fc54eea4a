# SPDX-License-Identifier: Apache-2.0
"""Metrics: by name, by a user's function and by "module:function"; what is none is said."""

import math

import numpy as np
import pytest
from tvm.relay import collage
from tvm.relay.collage.precision.metrics import find_metric

RIGHT = [np.array([[1.0, -4.0, 2.0], [0.0, 0.5, 0.25]], "float32")]
OFF = [np.array([[1.5, -4.0, 2.0], [0.5, 0.5, 0.75]], "float32")]


def error(metric, outputs=OFF, right=RIGHT):
    return find_metric(metric, ["y"]).error([outputs, right], [right, right])


def test_named_metrics_are_means_over_samples():
    assert error("max") == pytest.approx(0.5 / 4 / 2)
    assert error("rms") == pytest.approx(np.sqrt(0.75 / np.square(RIGHT[0]).sum()) / 2)
    assert error("argmax") == pytest.approx(0.5 / 2)


@pytest.mark.parametrize("metric", ["max", "rms", "argmax"])
def test_equal_outputs_have_no_error(metric):
    zeros = [np.zeros((2, 3), "float32")]
    assert error(metric, RIGHT) == 0.0 and error(metric, zeros, zeros) == 0.0


@pytest.mark.parametrize("metric", ["max", "rms", "argmax"])
def test_another_shape_is_as_wrong_as_can_be(metric):
    assert error(metric, [np.zeros((3, 2), "float32")]) == math.inf


@pytest.mark.parametrize("metric", ["max", "rms"])
def test_no_number_is_as_wrong_as_can_be(metric):
    assert error(metric, [np.full((2, 3), np.nan, "float32")]) == math.inf


def test_a_users_function_gets_arrays_by_name():
    seen = []

    def mine(outputs, right):
        seen.append((sorted(outputs), sorted(right)))
        return np.float32(0.25)

    metric = find_metric(mine, ["y"])
    assert metric.name == "mine" and metric.error([OFF], [RIGHT]) == 0.25
    assert seen == [(["y"], ["y"])]


def test_a_function_is_found_in_the_folder_at_hand(tmp_path, monkeypatch):
    tmp_path.joinpath("scores_of_mine.py").write_text("def score(a, b):\n    return 0.125\n")
    monkeypatch.chdir(tmp_path)
    metric = find_metric("scores_of_mine:score", ["y"])
    assert (metric.name, metric.error([OFF], [RIGHT])) == ("scores_of_mine:score", 0.125)


@pytest.mark.parametrize(
    "given, said",
    [
        ("median", "metric: 'median' is none of max, rms, argmax, and no module:function"),
        ("no_such_module_here:f", "metric: 'no_such_module_here:f' cannot be imported"),
        ("math:pi", "metric: 'math:pi' is no function"),
        ("math:no_such", "metric: 'math:no_such' cannot be imported: AttributeError"),
        (":score", "metric: ':score' cannot be imported: ValueError"),
    ],
)
def test_what_is_no_metric_is_said(given, said):
    with pytest.raises(collage.OptionError) as caught:
        find_metric(given, ["y"])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_score_is_no_error():
    metric = find_metric(lambda outputs, right: 1.0, ["y"])
    with pytest.raises(collage.OptionError, match="gives 1 for outputs that are right: return an"):
        metric.check([RIGHT])
    find_metric("rms", ["y"]).check([RIGHT])


def test_an_error_below_none_is_refused():
    with pytest.raises(collage.OptionError, match="gives -1: an error is 0 or more"):
        find_metric(lambda outputs, right: -1.0, ["y"]).error([OFF], [RIGHT])


def test_equal_infinities_are_no_difference():
    endless = [np.array([[-np.inf, 1.0, 2.0]], "float32")]
    assert [error(name, endless, endless) for name in ("max", "rms", "argmax")] == [0, 0, 0]
    other = [np.array([[np.inf, 1.0, 2.0]], "float32")]
    assert error("rms", other, endless) == math.inf


def test_another_kind_is_a_type_error():
    with pytest.raises(TypeError, match="metric takes a name or a function, got 3"):
        find_metric(3, ["y"])


def test_what_a_users_function_raises_is_told():
    metric = find_metric(lambda outputs, right: outputs["z"], ["y"])
    with pytest.raises(collage.OptionError, match="<lambda> fails: KeyError: 'z'"):
        metric.error([OFF], [RIGHT])
