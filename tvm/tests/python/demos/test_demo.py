# SPDX-License-Identifier: Apache-2.0
"""The demo: its pieces, what it refuses, a small model through all of it, one real model."""

import datetime
import functools
import itertools
import json

import demo
import demo_checks
import demo_content
import demo_models
import demo_ocr
import demo_onnx
import numpy as np
import pytest
from made_reports import made
from tvm import autotvm
from tvm.relay.backend import te_compiler
from tvm.relay.collage.costs.compared import ComparedPlan, Ratio
from tvm.relay.collage.measure.race.rounds import Further, RoundOptions, run_rounds
from tvm.relay.collage.store import CostStore


def record(**changes):
    """A model's record with nothing wrong, but for `changes` to its final plan."""
    good = {"status": "measured", "message": "", "output_error": 1e-7, "same_as": ""}
    good |= {"is_single_backend": True}
    final = {
        **good,
        "name": "final",
        "ratio_to_best_single": {"value": 1.0, "low": 0.98, "high": 1.02},
        **changes,
    }
    return {
        "name": "net",
        "text": "abc",
        "reference": "onnxruntime",
        "reference_text": "abc",
        "plans": [{**good, "name": "tvm", "ratio_to_best_single": None}, final],
        "collage": {"plan": "tvm", "placement": [{"backend": "tvm"}]},
    }


def only_line(model, **options):
    (line,) = demo_checks.broken_expectations(model, **options)
    return line


def test_nothing_wrong_is_no_line():
    assert demo_checks.broken_expectations(record()) == []


def test_another_text_is_named():
    assert only_line(record() | {"text": "abd"}) == (
        "net: output reads 'abd', not 'abc' as of onnxruntime"
    )


def test_outputs_that_differ_or_were_not_compared():
    assert "differ from those of onnxruntime by 0.001" in only_line(record(output_error=1e-3))
    assert "differ" in only_line(record(output_error=float("nan")))
    assert "were not compared" in only_line(record(output_error=None))


def test_a_failed_plan_is_named_with_its_reason():
    model = record()
    model["plans"][0] |= {"status": "crashed", "message": "signal 11"}
    assert only_line(model) == "net: plan tvm failed: crashed: signal 11"


def ratio(value, low, high):
    return record(ratio_to_best_single={"value": value, "low": low, "high": high})


def test_a_final_plan_that_is_surely_slower_is_a_fault():
    slow = ratio(0.95, 0.93, 0.969)
    assert only_line(slow) == (
        "net: the final plan is 0.950 [0.930, 0.969] x as fast as the best backend alone; the "
        "whole interval is below 0.97"
    )
    assert demo_checks.undecided(slow) == ""
    assert demo_checks.broken_expectations(slow, judge_speed=False) == []
    without = record(ratio_to_best_single=None)
    assert "could not be compared" in only_line(without) and demo_checks.undecided(without) == ""


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (ratio(1.043, 0.923, 1.144), "undecided: 1.043 [0.923, 1.144] x."),
        (ratio(0.96, 0.9, 0.97), "undecided: 0.960 [0.900, 0.970] x."),
        (ratio(0.9, 0.0, None), "undecided: 0.900 x (too few rounds to be sure)."),
    ],
    ids=["faster_at_a_guess", "slower_at_a_guess", "too_few_rounds"],
)
def test_an_interval_that_is_merely_wide_is_a_line_and_no_fault(model, what):
    assert demo_checks.broken_expectations(model) == []
    assert what in demo_checks.undecided(model) and "\n" not in demo_checks.undecided(model)


def test_a_final_plan_that_is_fast_enough_is_no_line():
    for good in (ratio(1.0, 0.97, 1.03), ratio(1.0, 1.0, 1.0), ratio(2.0, 0.98, 9.0)):
        assert demo_checks.broken_expectations(good) == []
        assert demo_checks.undecided(good) == ""


HALF = (2.0,)


@pytest.mark.parametrize(
    ("seconds", "rounds", "who"),
    [
        # Told apart at once: what ships is faster, or slower than any doubt.
        ({"mix": (1.0,), "dnnl": (1.2,), "tvm": HALF}, 6, []),
        ({"mix": (1.5,), "dnnl": (1.2,), "tvm": HALF}, 6, []),
        # The best backend alone ships: nothing is in question.
        ({"mix": HALF, "dnnl": (1.0,), "tvm": HALF}, 6, []),
        # As good as each other in the middle, but the interval stays wide: to the end.
        ({"mix": (1.0,), "dnnl": (0.9, 1.1), "tvm": HALF}, 48, ["dnnl", "mix"]),
    ],
    ids=["faster", "slower", "a_single_ships", "undecided"],
)
def test_more_rounds_while_it_is_undecided(seconds, rounds, who):
    ships = "dnnl" if seconds["mix"] is HALF else "mix"
    of = {name: itertools.cycle(each) for name, each in seconds.items()}
    question = functools.partial(demo_checks.in_question, ships=ships, singles=["dnnl", "tvm"])
    samples = run_rounds(
        list(of),
        lambda name: next(of[name]),
        lambda name, reason: None,
        RoundOptions(rounds=6, further=Further(question, 3600.0)),
    )
    counts = {name: len(each) for name, each in samples.items()}
    assert max(counts.values()) == rounds and counts["tvm"] == 6
    assert sorted(demo_checks.in_question(samples, ships, ["dnnl"])) == who
    assert demo_checks.in_question(samples, "gone", ["dnnl", "tvm"]) == []
    assert demo_checks.in_question(samples, ships, []) == []


def test_no_final_plan():
    model = record()
    model["plans"].pop()
    assert only_line(model) == "net: the final plan was not measured"


@pytest.mark.parametrize("size", [(320, 48), (192, 48), (100, 20)])
def test_the_line_is_drawn_inside_the_image(size):
    image = demo_ocr.draw_line("Hello, Collage!", *size)
    dark = np.asarray(image.convert("L")) < 128
    assert image.size == size and dark.any()
    rows, columns = dark.any(axis=1), dark.any(axis=0)
    assert not (rows[0] or rows[-1] or columns[0] or columns[-1])
    assert columns.sum() > size[0] / 4


def test_tensor_is_normalised_and_bgr():
    from PIL import Image

    tensor = demo_ocr.to_tensor(Image.new("RGB", (4, 2), (255, 0, 0)))
    assert tensor.shape == (1, 3, 2, 4) and tensor.dtype == np.float32
    assert tensor[0, :, 0, 0].tolist() == [-1.0, -1.0, 1.0]


def test_ctc_leaves_out_repeats_and_blanks():
    alphabet = demo_ocr.characters("a\nb\nc")
    assert alphabet == ["", "a", "b", "c", " "]
    best = [0, 1, 1, 0, 1, 4, 2, 2, 3, 0]
    scores = np.eye(5, dtype="float32")[best][None]
    assert demo_ocr.decode_line(scores, alphabet) == "aa bc"
    with pytest.raises(ValueError, match="do not fit an alphabet of 4"):
        demo_ocr.decode_line(scores, alphabet[:-1])


def test_a_missing_model_says_what_to_install():
    with pytest.raises(FileNotFoundError, match=r"requirements-models\.txt"):
        demo_ocr.model_file("nothing.onnx")


def test_onnxruntime_reads_the_drawn_text():
    model = demo_models.recognition()
    assert model.read(demo_onnx.run_once(model.onnx, model.inputs[0])) == demo_models.LINE
    model = demo_models.classification()
    angles = [model.read(demo_onnx.run_once(model.onnx, item)) for item in model.inputs]
    assert angles == ["0", "180"]
    model = demo_models.content()
    kinds = [model.read(demo_onnx.run_once(model.onnx, item)) for item in model.inputs]
    assert kinds == ["markdown", "makefile", "python"]


def test_content_is_read_from_both_ends_and_padded():
    settings = {"beg_size": 4, "end_size": 3, "padding_token": 256, "block_size": 6}
    read = demo_content.features(b"  ab", settings)
    assert read.tolist() == [[97, 98, 256, 256, 32, 97, 98]] and read.dtype == np.int32
    long = demo_content.features(b"abcdefghij \n", settings)
    assert bytes(long[0].astype("uint8")) == b"abcdhij"


def test_unknown_models_and_rounds_are_refused(capsys):
    for arguments, message in (
        (
            ["--models", "cls,alexnet"],
            "unknown models alexnet: choose of magika, cls, rec",
        ),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--backends", "dnnl,nil"], "--backends: unknown backend 'nil'; known: cblas"),
    ):
        with pytest.raises(SystemExit) as stopped:
            demo.main(arguments)
        assert stopped.value.code == 2 and message in capsys.readouterr().err


def small_model(folder):
    """An ONNX net of one convolution, its weight a node as in the real ones."""
    from onnx import TensorProto, checker, helper, numpy_helper, save

    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3), "float32")
    tensor = numpy_helper.from_array(weight, "w")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=tensor),
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    checker.check_model(model)
    save(model, folder / "small.onnx")
    shape = (1, 3, 8, 8)
    return demo_models.DemoModel(
        "small",
        "a small net",
        lambda: demo_models.import_onnx(folder / "small.onnx", shape),
        [{"x": np.random.default_rng(1).standard_normal(shape, "float32")}],
        lambda outputs: f"class {outputs[0].argmax()}",
        str(folder / "small.onnx"),
    )


def run(tmp_path, *arguments):
    output = tmp_path / "out" / "result.json"
    code = demo.main([*arguments, "--output", str(output)])
    return code, json.loads(output.read_text())


def test_a_small_model_goes_through_all_of_it(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setattr(te_compiler, "_first_warning", True)
    monkeypatch.setattr(autotvm.task.DispatchContext, "warning_messages", set())
    monkeypatch.setitem(demo_models.MODELS, "small", lambda: small_model(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "costs.sqlite").write_text("of the run before")
    began = datetime.datetime.now(datetime.UTC).isoformat()
    # At less effort the search may end before it builds a mix: a net as small can gain little.
    exhaustive = "--quick", "--details", "--effort", "exhaustive"
    code, report = run(tmp_path, *exhaustive, "--models", "small", "--backends", "dnnl")
    text = capsys.readouterr().out
    assert report["broken"] == [] and code == 0
    assert "have not been tuned" not in caplog.text
    (model,) = report["models"]
    plans = {plan["name"]: plan for plan in model["plans"]}
    assert {"tvm", "dnnl", "collage", "final", demo.ONNXRUNTIME} <= set(plans)
    assert plans[demo.ONNXRUNTIME]["output_error"] == 0.0
    assert all(plan["output_error"] <= 1e-4 for plan in plans.values())
    with CostStore(tmp_path / "out" / "costs.sqlite", create=False) as store:
        measured_at = [row.measured_at for row in store.rows()]
    assert measured_at and min(measured_at) > began, "every run measures"
    shipped = plans[model["collage"]["plan"]]
    assert plans["final"]["seconds"] == shipped["seconds"]  # one library, measured once
    assert model["text"] == model["reference_text"] and model["text"] in text
    assert model["collage"]["functions"][0]["parts"] and "What ships" in text
    assert f"It answers {model['text']!r}, as onnxruntime itself does." in text
    assert f"measurement: {tmp_path / 'out' / 'small.svg'}" in " ".join(text.split())
    assert f"Plan {model['collage']['plan']}" in (tmp_path / "out" / model["picture"]).read_text()
    assert "Alone: " in text and "onnxruntime itself" in text and "mix of backends ship" in text


def test_the_last_line_says_where_a_mix_ships():
    def plan(name, ratio=None, same_as=""):
        single = name in ("tvm", "dnnl")
        row = {"name": name, "same_as": same_as, "is_single_backend": single, "seconds": 1e-3}
        return row | {"ratio_to_best_single": ratio}

    def model(name, ships, *plans, backends=("dnnl", "tvm")):
        placement = [{"backend": each} for each in backends]
        return {"name": name, "plans": plans, "collage": {"plan": ships, "placement": placement}}

    ratio = {"value": 1.4, "low": 1.3, "high": 1.5}
    mixed = model("mixed", "collage", plan("dnnl"), plan("collage"), plan("final", ratio))
    alone = model("alone", "dnnl", plan("dnnl"), plan("final", ratio))
    by_another_name = model(
        "same", "collage", plan("dnnl"), plan("collage", same_as="dnnl"), plan("final", ratio)
    )
    plans = plan("dnnl"), plan("collage"), plan("final", ratio)
    of_one = model("one", "collage", *plans, backends=["dnnl", "dnnl"])
    text = demo.mix_text([mixed, alone, by_another_name, of_one])
    assert text == (
        "A mix of backends ships on mixed (1.400 [1.300, 1.500] x as fast as the best backend "
        "alone)."
    )
    level = {"value": 1.07, "low": 0.73, "high": 1.58}
    text = demo.mix_text([model("mixed", "collage", plan("dnnl"), plan("final", level))])
    assert "(1.070 [0.730, 1.580] x as fast as the best backend alone: level with it)" in text
    assert demo.mix_text([alone, by_another_name]).startswith("On none of these models")
    assert "as fast" not in demo.mix_text([alone, by_another_name], is_quick=True)
    assert demo.alone_text([plan("dnnl"), plan("collage"), plan(demo.ONNXRUNTIME)]) == (
        "Alone: dnnl 1 ms, onnxruntime itself 1 ms"
    )


def test_the_next_plan_is_one_of_ours():
    """onnxruntime itself is measured beside the plans, and is none."""

    def row(name, times, *, single=True, chosen=False):
        measured = (name, single, chosen, "measured", 1e-3 * times, None, None, 30)
        return ComparedPlan(
            *measured,
            ratio_to_best_single=Ratio(1 / times, 0.9 / times, 1.1 / times),
            ratio_to_chosen=Ratio(times, times - 0.1, times + 0.1),
        )

    final = row("final", 1.0, single=False, chosen=True)
    others = row("tvm", 2.0), row(demo.ONNXRUNTIME, 1.5, single=False)
    plans = [row("dnnl", 1.0), final, *others]
    report = made(1, plan="dnnl")
    assert demo.latency_text(report, plans) == (
        "It takes 1 ms a run; the next plan, tvm, takes 2.00 [1.90, 2.10] times that."
    )


def test_a_broken_expectation_is_an_exit_code_and_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "run_model", lambda *_: record() | {"text": "x", "summary": ""})
    code, report = run(tmp_path, "--models", "cls")
    assert code == 1 and len(report["broken"]) == 1
    assert "demo: net: output reads 'x', not 'abc'" in capsys.readouterr().err


def test_what_is_undecided_is_a_line_and_ends_with_0(tmp_path, monkeypatch, capsys):
    model = ratio(1.043, 0.923, 1.144) | {"summary": ""}
    monkeypatch.setattr(demo, "run_model", lambda *_: dict(model))
    code, report = run(tmp_path, "--models", "cls")
    shown = " ".join(capsys.readouterr().out.split())
    assert code == 0 and report["broken"] == []
    assert report["models"][0]["undecided"] in shown and "[0.923, 1.144]" in shown
    code, report = run(tmp_path, "--models", "cls", "--quick")
    assert code == 0 and report["models"][0]["undecided"] == ""
    model |= ratio(0.9, 0.8, 0.96)
    code, _ = run(tmp_path, "--models", "cls")
    assert code == 1 and "whole interval is below 0.97" in capsys.readouterr().err


def test_a_model_that_fails_is_a_line_and_the_others_run(tmp_path, monkeypatch, capsys):
    def run_model(model, *_):
        if model.name == "resnet50":
            raise ValueError("a long story\nno such thing")
        return record() | {"summary": "fine"}

    monkeypatch.setattr(demo, "run_model", run_model)
    monkeypatch.setattr(demo_ocr, "PACKAGE", "no_such_package")
    code, report = run(tmp_path, "--models", "resnet50,cls,rec")
    assert code == 1 and report["models"] == []
    assert report["broken"][0] == "resnet50: ValueError: no such thing"
    assert "requirements-models.txt" in report["broken"][1]
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.slow("a real net searched, built and timed on two backends; a small one is not slow")
@pytest.mark.timeout(600)
def test_angle_classification_quickly(tmp_path):
    # None with threads of its own: beside another measuring test each of its runs would wait for a
    # core, since tests take no locks of CPUs.
    code, report = run(tmp_path, "--quick", "--models", "cls", "--backends", "dnnl,cblas")
    assert report["broken"] == [] and code == 0
    assert report["models"][0]["text"] == "0, 180"
