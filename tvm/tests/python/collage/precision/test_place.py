# SPDX-License-Identifier: Apache-2.0
"""Precisions of a small net, placed, built and compared: within the budget something ships whose
error is that of what was built; and what a user may get wrong."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_nets import conv_net, model
from tvm.relay import collage
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.backends import get_backend
from tvm.relay.collage.precision import forms, mixes, place
from tvm.relay.collage.precision.choice import Choice
from tvm.relay.collage.precision.mixes import Way
from tvm.relay.collage.report import read_report

FAST = {"measure_seconds": 0.01, "guard_rounds": 6, "guard_seconds": 1.0, "effort": "quick"}
TARGETS = ["llvm", "dnnl"]
RNG = np.random.default_rng(4)
SAMPLES = [RNG.standard_normal((1, 3, 16, 16)).astype("float32") for _ in range(8)]


def options(**values):
    return CollageOptions(progress="quiet", **{**FAST, "accuracy_budget": 0.5, **values})


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """Whatever is the fastest of some microseconds ships."""
    store = str(tmp_path_factory.mktemp("store") / "costs.db")
    net = conv_net()
    named = {"mod_name": "mine"}
    found = collage.optimize_precision(
        net, TARGETS, options(store=store), calibration=SAMPLES, build_options=named
    )
    return net, found, store


def test_float_and_8_bits_are_compared_on_samples_of_their_own(placed):
    told = placed[1].precision
    rows = {row.name: row for row in told.plans}
    assert {"float32", "int8"} <= rows.keys()
    assert rows["float32"].output_error < 1e-4 < rows["int8"].output_error < told.budget
    assert told.samples == {"ranges": 4, "errors": 2, "check": 2}
    assert all(row.seconds for row in told.plans)


def test_each_layer_is_told_with_its_error_alone(placed):
    told = placed[1].precision
    assert [layer.op for layer in told.layers] == ["Conv", "Conv", "Gemm"]
    for layer in told.layers:
        (other,) = layer.others
        assert other.precision == "int8" and 0 < other.error < 0.5
        assert layer.precision in ("int8", "float32")
    assert all(point.error is not None for point in told.front)


def test_what_ships_computes_what_its_model_does(placed):
    found = placed[1]
    session = onnxruntime.InferenceSession(found.model.SerializeToString())
    (right,) = session.run(None, {"x": SAMPLES[0]})
    (own,) = found.runner()({"x": SAMPLES[0]})
    assert np.abs(own - right).max() < 0.1 * np.abs(right).max()


def test_the_report_and_the_models_file_keep_the_choice(placed, tmp_path):
    found = placed[1]
    again = read_report(json.loads(json.dumps(found.to_json())), "report.json")
    assert again.precision == found.precision
    file = tmp_path / "model.onnx"
    found.save_model(file)
    onnx.checker.check_model(onnx.load(file))


def test_over_the_budget_float_ships(placed):
    net, _, store = placed
    tight = options(accuracy_budget=1e-7, store=store)
    found = collage.optimize_precision(net, TARGETS, tight, calibration=SAMPLES, metric="rms")
    told = found.precision
    assert told.chosen.name == "float32" and [row.name for row in told.plans] == ["float32"]
    assert told.left_out["int8"].endswith("over the budget") and told.metric == "rms"
    assert {layer.precision for layer in told.layers} == {"float32"}


def test_a_model_that_cannot_be_quantised_stays_in_float(monkeypatch, placed, caplog):
    def refuse(*_):
        raise collage.ModelError("it cannot be quantised: no")

    monkeypatch.setattr(place, "quantise", refuse)
    given = options(store=placed[2])
    found = collage.optimize_precision(placed[0], TARGETS, given, calibration=SAMPLES)
    assert found.precision.left_out == {"int8": "it cannot be quantised: no"}
    assert found.precision.chosen.name == "float32" and found.precision.layers == ()
    assert "precision int8 is left out: it cannot be quantised: no" in caplog.text


def test_the_users_metric_decides(placed):
    seen = []

    def half(outputs, right):
        seen.append(sorted(outputs))
        return 0.0 if np.allclose(outputs["y"], right["y"], atol=1e-5) else 0.9

    found = collage.optimize_precision(
        placed[0], TARGETS, options(store=placed[2]), calibration=SAMPLES, metric=half
    )
    assert found.precision.chosen.name == "float32" and found.precision.metric == "half"
    assert seen and all(names == ["y"] for names in seen)


def test_a_choice_between_one_layer_and_all_is_built(placed, monkeypatch):
    """Seconds are made up: each layer saves as much."""
    errors = sorted((layer.others[0].error, layer.name) for layer in placed[1].precision.layers)
    smallest = errors[0]
    monkeypatch.setattr(mixes, "saved_by_layer", lambda names, *_: dict.fromkeys(names, 1e-5))
    within = options(store=placed[2], accuracy_budget=1.1 * smallest[0] / 0.9)
    found = collage.optimize_precision(
        placed[0], TARGETS, within, calibration=SAMPLES, metric="rms"
    )
    told = found.precision
    built = {row.name for row in told.plans} | told.left_out.keys()
    assert {"float32", "mixed", "int8"} <= built
    assert "no choice" not in told.left_out.get("mixed", "")
    assert told.front[0].layers == {"int8": 1}
    if told.chosen.name == "mixed":
        names = {layer.name for layer in told.layers if layer.precision == "int8"}
        assert names == {smallest[1]}
    assert told.chosen.output_error <= within.accuracy_budget


@pytest.mark.parametrize(
    "effort, float_seconds, names",
    [
        ("quick", 1e-3, []),
        ("normal", 1e-3, ["float32"]),
        ("normal", 2e-3, []),  # one in fewer bits is faster: a search hardly gains there
        ("exhaustive", 1e-3, ["float32", "int8"]),
        ("exhaustive", 2e-3, ["int8"]),
    ],
)
def test_the_fastest_is_searched_once_all_forms_are_known(
    placed, monkeypatch, effort, float_seconds, names
):
    """A search gives what profiles gave, but takes twice as long for the one in 8 bits."""
    built, searched, place_form = {}, [], place.Forms.place
    took = {"float32": float_seconds, "int8": 1.1e-3}
    monkeypatch.setattr(forms.Form, "seconds", property(lambda form: took.get(form.name, 9e-3)))

    def known(self, wanted, sample, *, is_searched=False):
        if not is_searched:
            built[wanted.name] = place_form(self, wanted, sample)
            return built[wanted.name]
        searched.append(wanted.name)
        took["int8"] = 2e-3 if wanted.name == "int8" else took["int8"]
        return built[wanted.name]._replace(wanted=wanted)

    monkeypatch.setattr(place.Forms, "place", known)
    given = options(store=placed[2], effort=effort)
    found = collage.optimize_precision(placed[0], TARGETS, given, calibration=SAMPLES)
    assert searched == names
    assert {row.name for row in found.precision.plans} >= {"float32", "int8"}


def priced(seconds, by, error):
    """A choice of one layer, which is named by the seconds that it saves."""
    way = Way(frozenset([by]), frozenset(), {}, is_timed=True, is_exact=by == "x")
    return place._Priced(Choice({str(seconds): "bfloat16"}, seconds, error**2), way, error)


@pytest.mark.parametrize(
    "built, names",
    [
        # One of each way that may save more, and one that is surely within the budget of 1 %.
        (
            {3.0: (8e-3, 1.5), 2.5: (8e-3, 2.5), 1.0: (2e-3, 1.0)},
            ["mixed by x", "mixed by y", "mixed by x, with a margin"],
        ),
        # What ends up over it is followed by the next one, of another way or its own.
        ({3.0: (2e-2, 3.0), 2.5: (8e-3, 1.0), 2.0: (4e-3, 2.0)}, ["mixed by y", "mixed by x (2)"]),
        # So is what ends up near it, which competes all the same.
        ({3.0: (9.5e-3, 3.0), 2.5: (4e-3, 2.5)}, ["mixed by x", "mixed by y"]),
        # A first one with a small error leaves nothing to build.
        ({3.0: (1e-3, 3.0)}, ["mixed by x"]),
        # What is near the budget each time competes, by names of its own; nothing is built twice.
        (
            {3.0: (9.5e-3, 3.0), 2.5: (9.5e-3, 2.5), 2.2: (9.5e-3, 2.2), 1.0: (6e-3, 1.0)},
            ["mixed by x", "mixed by y", "mixed by y (2)", "mixed by x, with a margin"],
        ),
    ],
)
def test_mixes_of_all_ways_are_built_and_one_that_is_surely_within_the_budget(
    monkeypatch, built, names
):
    """What each errs by and saves as it is built is made up, by what was foreseen."""
    foreseen = [
        *((3.0, "x", 8e-3), (2.5, "y", 8e-3), (2.2, "y", 4e-3)),
        *((2.0, "x", 8e-3), (1.0, "x", 4e-3)),
    ]
    search = place._Search(None, None, CollageOptions(accuracy_budget=1e-2), None, None)
    search._judged.append(place._Judged(SimpleNamespace(name="float32", seconds=5.0), 0.0))

    def place_form(wanted):
        (seconds,) = map(float, wanted.precisions)
        error, saved = built[seconds]
        return SimpleNamespace(name=wanted.name, seconds=5.0 - saved, error=error)

    monkeypatch.setattr(search, "_has_time", lambda name: True)
    monkeypatch.setattr(search, "_place", place_form)
    monkeypatch.setattr(search, "_error_of", lambda form: form.error)
    quantised = SimpleNamespace(model_with=lambda chosen: None)
    search._mix(quantised, [priced(*row) for row in foreseen])
    assert [each.form.name for each in search._judged[1:]] == names
    assert "mixed" not in search._left_out


def test_what_other_samples_show_to_be_over_the_budget_is_left_out_before_a_search():
    errors = {"int8": 2e-2, "mixed": 5e-3, "bfloat16": float("inf")}
    checking = SimpleNamespace(error_of=lambda form, samples, right: errors[form.name])
    search = place._Search(None, checking, CollageOptions(accuracy_budget=1e-2), None, None)
    for name in ("float32", *errors):
        search._judged.append(place._Judged(SimpleNamespace(name=name), 0.0))
    search._check()
    assert [each.form.name for each in search._judged] == ["float32", "mixed"]
    assert search._left_out == {
        "int8": "its error is 2.00% on the samples of the check, over the budget",
        "bfloat16": "it does not run",
    }


def test_a_backend_that_trades_accuracy_takes_part_as_a_form_of_its_own(placed):
    reason = get_backend("openvino_w8").available()
    if reason:
        pytest.skip(reason)
    rng = np.random.default_rng(5)
    weights = {
        name: (rng.standard_normal((512, 512)) / 16).astype("float32") for name in ("a", "b")
    }
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "a"], ["p"]),
        onnx.helper.make_node("Relu", ["p"], ["r"]),
        onnx.helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    net = model(nodes, [("x", (1, 512))], [("y", (1, 512))], weights)
    samples = [rng.standard_normal((1, 512)).astype("float32") for _ in range(8)]
    found = collage.optimize_precision(
        net, [*TARGETS, "openvino_w8"], options(store=placed[2]), calibration=samples
    )
    told = found.precision
    rows = {row.name: row for row in told.plans}
    if "int8 weights" in told.left_out:
        assert told.left_out["int8 weights"] == "float32 is faster everywhere"
    else:
        assert 1e-5 < rows["int8 weights"].output_error < 0.1
    if told.chosen.name == "int8 weights":
        assert {layer.precision for layer in told.layers} <= {"int8 weights", "float32"}
    (right,) = onnxruntime.InferenceSession(net.SerializeToString()).run(None, {"x": samples[0]})
    (own,) = found.runner()({"x": samples[0]})
    assert np.abs(own - right).max() < 0.1 * np.abs(right).max()


def test_a_net_of_convolutions_is_not_tried_with_weights_of_products_in_8_bits(placed):
    given = options(store=placed[2])
    found = collage.optimize_precision(
        placed[0], [*TARGETS, "openvino_w8"], given, calibration=SAMPLES
    )
    told = found.precision
    assert "int8 weights" not in {row.name for row in told.plans}
    assert told.left_out["int8 weights"] == "33% of the layers can be in it"


def test_what_fails_later_loses_nothing_that_was_built(placed, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, "quantise", interrupt)
    given = options(store=placed[2])
    found = collage.optimize_precision(placed[0], TARGETS, given, calibration=SAMPLES)
    assert [row.name for row in found.precision.plans] == ["float32"]


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"rpc_tracker": "here:9190", "rpc_key": "x"},
            "option relay.collage.rpc_tracker has plans",
        ),
        ({"placement": "p.json"}, "option relay.collage.placement replays one: leave one of them"),
    ],
)
def test_options_that_do_not_go_with_samples_are_refused(changes, said):
    with pytest.raises(collage.OptionError, match=said):
        collage.optimize_precision(conv_net(), TARGETS, options(**changes), calibration=SAMPLES)


def test_another_shape_than_the_samples_have_is_refused():
    with pytest.raises(collage.OptionError, match=r"'x' have shape \(1, 3, 16, 16\), and \(2, 3"):
        collage.optimize_precision(
            *(conv_net(), TARGETS, options()), calibration=SAMPLES, shapes={"x": (2, 3, 16, 16)}
        )


def test_a_metric_that_is_a_score_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(place.Forms, "place", None)
    with pytest.raises(collage.OptionError, match="return an error, which is 0 for equal outputs"):
        collage.optimize_precision(
            conv_net(), TARGETS, options(), calibration=SAMPLES, metric=lambda a, b: 1.0
        )


def test_without_a_budget_it_says_what_to_set():
    with pytest.raises(collage.OptionError, match="set option relay.collage.accuracy_budget"):
        collage.optimize_precision(
            conv_net(), TARGETS, options(accuracy_budget=0.0), calibration=SAMPLES
        )


def test_optimize_takes_no_samples():
    mod = collage.from_onnx(conv_net())[0]
    with pytest.raises(collage.OptionError, match="call collage.optimize_precision"):
        collage.optimize(mod, None, TARGETS, options(calibration="samples.npz"))


def test_a_result_without_precisions_has_no_model_to_save(placed, tmp_path):
    mod = collage.from_onnx(conv_net())[0]
    found = collage.optimize(mod, None, ["llvm"], options(accuracy_budget=0.0))
    with pytest.raises(collage.OptionError, match="no precisions were chosen"):
        found.save_model(tmp_path / "model.onnx")


ON_AN_OLD_CPU = """
import json, sys
import numpy as np
from onnx_nets import conv_net
from tvm.relay import collage
from tvm.relay.collage.backends import get_backend

rng = np.random.default_rng(4)
samples = [rng.standard_normal((1, 3, 16, 16)).astype("float32") for _ in range(8)]
options = collage.CollageOptions(
    progress="quiet", accuracy_budget=0.5, effort="quick", store="none", measure_seconds=0.01,
    guard_rounds=6, guard_seconds=1.0,
)
found = collage.optimize_precision(conv_net(), ["llvm", "dnnl"], options, calibration=samples)
rows = {row.name: [row.seconds, row.output_error] for row in found.precision.plans}
isa = get_backend("dnnl").version()
print(json.dumps({"rows": rows, "isa": isa, "chosen": found.precision.chosen.name}))
"""


@pytest.mark.slow("a compile in a process of its own, whose libraries see an older CPU")
def test_without_vnni_and_bfloat16_it_chooses_by_measuring_as_well():
    variables = {"ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ON_AN_OLD_CPU],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert "AVX2" in told["isa"] and {"float32", "int8"} <= told["rows"].keys()
    seconds = {name: row[0] for name, row in told["rows"].items() if row[0]}
    assert told["chosen"] in seconds and told["rows"]["int8"][1] < 0.5
