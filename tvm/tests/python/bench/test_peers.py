# SPDX-License-Identifier: Apache-2.0
"""The peer benchmark: what it says of measurements, its contestants, what it refuses, a small net
through all of it."""

import json
import os
import subprocess
import sys

import demo_ocr
import models
import numpy as np
import onnx
import peers
import peers_report as report
import pytest
from harness import build as side_build
from harness import contestants, records
from harness.served import stock_library
from models.graph import Graph
from onnx import TensorProto, helper
from tvm.relay.collage.exec.resolve import resolve
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.peers import onnxruntime_session


def comparison(name, seconds, error=0.0):
    samples = tuple(seconds * (1 + 0.001 * k) for k in range(20))
    return Comparison(name, Cost.measured(samples), None, error, samples, "onnxruntime")


def record_of(ours, **others):
    found = [comparison("collage", ours), *(comparison(*item) for item in others.items())]
    key = {"net": "net", "batch": 1, "threads": 2}
    names = ["onnxruntime", "openvino", "stock"]
    parts = [{"backend": "dnnl", "ops": "nn.conv2d", "count": 3, "total_seconds": 2e-3}]
    facts = {"parts": parts, "ships": "dnnl"}
    return report.make_record(key, found, names, {"stock": "out of memory"}, facts)


def test_the_fastest_peer_is_what_counts():
    made = record_of(2e-3, onnxruntime=3e-3, openvino=1e-3, **{"tvm alone": 1e-4})
    assert made["fastest_peer"] == "openvino"  # "tvm alone" is ours, "stock" failed
    assert made["ratio"] == pytest.approx([0.5, 0.5, 0.5], rel=0.05)
    assert report.verdict(made) == "slower"
    text = report.net_text(made)
    assert "ours is SLOWER" in text and "100 % more time" in text
    assert "dnnl nn.conv2d x3 2.00 ms" in text and "compile_failed: out of memory" in text
    assert "SLOWER than the fastest peer on: net" in report.summary_text([made])
    json.dumps(made, allow_nan=False)


def test_faster_level_and_no_result():
    assert report.verdict(record_of(1e-3, openvino=2e-3)) == "faster"
    assert report.verdict(record_of(1e-3, openvino=1e-3)) == "level"
    alone = record_of(1e-3)
    assert report.verdict(alone) == "no result"
    assert "SLOWER than the fastest peer on: none" in report.summary_text([alone])
    failed = Comparison("collage", Cost.failed("crashed", "signal 11"))
    made = report.make_record(
        {"net": "n", "batch": 1, "threads": 1}, [failed, comparison("openvino", 1e-3)],
        ["openvino"], {}, {},
    )  # fmt: skip
    assert report.verdict(made) == "failed" and "crashed: signal 11" in report.net_text(made)
    assert "\nFAILED on: n" in report.summary_text([made])
    assert report.ours_failed(made) and not report.ours_failed(alone)


def test_less_than_a_percent_is_not_faster_but_any_is_slower():
    assert report.verdict(record_of(1e-3, openvino=1.005e-3)) == "level"
    assert report.verdict(record_of(1.005e-3, openvino=1e-3)) == "slower"


def test_a_noisy_result_is_undecided():
    made = record_of(1e-3, openvino=1e-3)
    for ratio, expected in (([1.0, 0.91, 1.3], "level"), ([0.95, 0.8, 1.2], "undecided")):
        noisy = {**made, "ratio": ratio}
        assert report.verdict(noisy) == expected
        listed = "net" if expected == "undecided" else "none"
        assert f"undecided (run again on a quiet machine) on: {listed}" in report.summary_text(
            [noisy]
        )


def test_backends_alone_that_failed_are_rows_with_the_reason():
    plans = [
        {"name": "dnnl", "is_single_backend": True, "seconds": None, "message": "no such op"},
        {"name": "tvm", "is_single_backend": True, "seconds": 1e-3, "message": ""},
        {"name": "collage", "is_single_backend": False, "seconds": None, "message": "other"},
    ]
    failures = report.failed_alone({"plans": plans})
    assert failures == {"dnnl alone": "no such op"} and report.failed_alone(None) == {}
    made = report.make_record({"net": "n"}, [comparison("collage", 1e-3)], [], failures, {})
    assert [row["status"] for row in made["rows"]] == ["measured", "compile_failed"]


def test_geometric_means_are_of_the_nets_that_both_ran():
    records = [record_of(1e-3, openvino=2e-3, onnxruntime=4e-3), record_of(1e-3, openvino=8e-3)]
    means = report.geometric_means(records)
    assert means["openvino"] == (pytest.approx(4.0, rel=0.01), 2)
    assert means["onnxruntime"] == (pytest.approx(4.0, rel=0.01), 1)
    assert means["fastest peer"] == (pytest.approx(4.0, rel=0.01), 2)


def test_the_best_single_framework_is_over_the_nets_that_all_ran():
    records = [
        record_of(1e-3, openvino=2e-3, onnxruntime=3e-3),
        record_of(1e-3, openvino=8e-3, onnxruntime=3e-3),
        record_of(1e-3, openvino=1e-3),
    ]
    name, mean, count = report.best_framework(records)
    assert (name, count) == ("onnxruntime", 2) and mean == pytest.approx(3.0, rel=0.01)
    assert "best single framework: onnxruntime, 3.0" in report.summary_text(records)
    assert report.best_framework([record_of(1e-3)]) is None


def test_variables_that_only_ours_needs_are_not_the_peers(tmp_path):
    """What the user had set before this process stays; ours are undone."""
    started = tmp_path / "environ"
    started.write_text("PATH=/bin\0TVM_BIND_THREADS=0\0")
    found = contestants.untouched_variables(str(started))
    assert found == {"GOMP_SPINCOUNT": "300000", "TVM_BIND_THREADS": "0"}
    peer = contestants.PEERS["inductor"].contestant("m", "i", {"TVM_NUM_THREADS": "2"})
    assert {"GOMP_SPINCOUNT", "TVM_BIND_THREADS", "TVM_NUM_THREADS"} == set(peer.environment)
    echo = "import tvm_collage, os, tvm; print(os.environ['GOMP_SPINCOUNT'])"
    said = subprocess.run(
        [sys.executable, "-c", echo],
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "300000\n"


def small_model(batch=1):
    g = Graph("small")
    x = g.relu(g.norm(g.conv(g.input("x", (batch, 3, 8, 8)), 4, 3)))
    return g.model(g.classify(g.pool("Max", x, 2, 2), 5))


SMALL = models.Net("small", "a small net", small_model, "this test")


@pytest.fixture
def small_files(tmp_path):
    return models.save(SMALL, small_model(), tmp_path)


@pytest.mark.parametrize("name", ["openvino", "inductor"])
def test_contestants_answer_what_onnxruntime_does(name, small_files):
    peer = contestants.PEERS[name]
    pytest.importorskip(peer.package)
    (expected,) = onnxruntime_session(*small_files, threads=1).outputs()
    (found,) = resolve(peer.factory)(*small_files, threads=1).outputs()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_output_of_another_rank_than_the_file_says_is_given(tmp_path):
    """As in ddddocr's nets of PyPI: onnxruntime warns of it, and cannot bind it."""
    pytest.importorskip("onnxruntime")
    given = {"x": np.arange(6, dtype="float32"), "shape": np.array([1, 2, 3])}
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, ["rank"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "length"]),
    ]
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph = helper.make_graph([node], "net", infos[:2], infos[2:])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", **given)
    session = onnxruntime_session(str(tmp_path / "net.onnx"), str(tmp_path / "in.npz"), 1)
    session.run()
    assert session.outputs()[0].tolist() == given["x"].reshape(1, 2, 3).tolist()


@pytest.mark.parametrize("name", ["nasrnn", "dcgan", "mobilenetv2", "small"])
def test_the_torch_form_answers_what_onnxruntime_does(name, tmp_path):
    torch = pytest.importorskip("torch")
    from harness.torch_import import to_torch

    net = models.NETS.get(name, SMALL)
    model = net.build(1)
    inputs = models.random_inputs(net, model)
    files = models.save(net, model, tmp_path)
    expected = onnxruntime_session(*files, threads=1).outputs()
    found = to_torch(model)(*map(torch.from_numpy, inputs.values()))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def test_an_operator_without_a_torch_form_is_named():
    pytest.importorskip("torch")
    from harness.torch_import import to_torch

    g = Graph("other")
    model = g.model(g.op("Selu", g.input("x", (1, 3))))
    with pytest.raises(ValueError, match="the ONNX operator Selu is known"):
        to_torch(model)


def test_a_build_that_fails_or_hangs_is_data(tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    built = side_build.build("stock", str(bad), tmp_path, 1, timeout=100)
    assert built.libraries == {} and "build: DecodeError: " in built.failure
    built = side_build.build("stock", "x", tmp_path, 1, timeout=0.01)
    assert built.failure.startswith("build: took longer than 0.01 s")


def test_stock_tvm_that_ends_is_an_error(small_files):
    with pytest.raises(RuntimeError, match="python.* ended with 1"):
        stock_library("/no/such/library.so", small_files[1])


def run(tmp_path, *arguments):
    output = tmp_path / "out" / "peers.jsonl"
    code = peers.main([*arguments, "--output", str(output)])
    return code, list(records.load(output, peers.KEY).values())


QUICK = ["--collage", "tvm_max_depth=1", "--collage", "byoc_max_depth=1", "--rounds", "6"]
QUICK += ["--collage", "store=none", "--collage", "guard_rounds=2", "--measure-seconds", "0.01"]
QUICK += ["--backends", "dnnl"]


@pytest.mark.slow("a net searched and built by five contestants")
def test_a_small_net_through_all_of_it_and_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(models.NETS, "small", SMALL)
    chosen = ["--nets", "small", "--contestants", "collage,alone,onnxruntime,stock", *QUICK]
    code, (made,) = run(tmp_path, *chosen)
    rows = {row["name"]: row for row in made["rows"]}
    assert code == 0 and {"collage", "onnxruntime", "stock"} <= set(rows)
    assert all(rows[name]["output_error"] <= 1e-4 for name in ("collage", "stock"))
    assert made["fastest_peer"] in ("onnxruntime", "stock") and len(made["ratio"]) == 3
    # Whichever plan ships is "collage"; backends alone stand beside it, or why they failed.
    assert {"tvm alone", "dnnl alone"} - {f"{made['ships']} alone"} <= set(rows)
    assert made["parts"] and made["conditions"]["machine"]["cores"] >= 1
    assert "small: ours is" in capsys.readouterr().out
    code, (again,) = run(tmp_path, *chosen)
    assert again == made and "small: is in peers.jsonl" in capsys.readouterr().out


@pytest.fixture(params=[1e-3], ids=["measured"])
def measured_before(tmp_path, request):
    """Says whether a second run with these arguments would use the record of a first one."""

    seconds = request.param

    def options(*arguments):
        output = ["--output", str(tmp_path / "peers.jsonl"), "--contestants", "collage,onnxruntime"]
        return peers.parse(["--nets", "nasrnn", *output, *arguments])

    first = options()
    row = {"name": "collage", "seconds": seconds}
    (job,) = peers.jobs_of(first)
    conditions = peers.conditions_of(first)
    records.save(first.output, peers.KEY, {**job.key, "rows": [row], "conditions": conditions})

    def is_used(*arguments):
        again = options(*arguments)
        (job,) = peers.jobs_of(again)
        return peers.book_of(again).standing(job) is not None

    return is_used


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "31"],
        ["--rtol", "0.01"],
        ["--batch", "2"],
        ["--threads", "77"],
        ["--measure-seconds", "0.01"],
        ["--collage", "tvm_max_depth=2"],
        ["--contestants", "collage"],
        ["--give-up-ratio", "3"],
        ["--build-timeout", "9"],
    ],
)
def test_a_record_of_other_settings_is_not_used_again(measured_before, arguments):
    assert measured_before() and not measured_before(*arguments)


@pytest.mark.parametrize("measured_before", [None], ids=["failed"], indirect=True)
def test_what_failed_is_tried_again(measured_before):
    assert not measured_before()


def test_a_record_of_other_code_or_of_another_machine_is_not_used_again(
    measured_before, monkeypatch
):
    assert measured_before()
    with monkeypatch.context() as patch:
        patch.setattr(records, "code_hash", lambda: "other")
        assert not measured_before()
    with monkeypatch.context() as patch:
        patch.setattr(records, "describe_machine", lambda: {"cpu": "other"})
        assert not measured_before()
    with monkeypatch.context() as patch:
        patch.setenv("OMP_PROC_BIND", "close")
        assert not measured_before()
    assert measured_before()


def test_the_default_is_a_few_nets():
    assert [net.name for net in peers.parse([]).nets] == ["mobilenetv2", "dcgan", "resnet50"]


def test_the_budget_ends_the_run(tmp_path, capsys):
    code, found = run(tmp_path, "--nets", "dcgan", "--budget", "-1")
    assert code == 1 and found == []
    out, err = capsys.readouterr()
    assert "left out, the budget of -1 s is used up: dcgan" in out
    assert "nothing was measured" in err


def test_a_missing_model_file_is_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_ocr, "_PACKAGE", "no_such_package")
    code, found = run(tmp_path, "--nets", "ppocr_cls")
    assert code == 1 and found == []
    assert "ppocr_cls: left out: ch_ppocr" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nets", "alexnet"], "unknown net alexnet: choose of resnet50, "),
        (["--contestants", "caffe"], "unknown contestant caffe: choose of collage, alone, "),
        (["--backends", "caffe"], "unknown backend 'caffe'; known: "),
        (["--contestants", "alone,onnxruntime"], "contestant alone needs collage, whose guard"),
        (["--contestants", "collage,collage"], "a contestant is named twice: collage, collage"),
        (["--rounds", "0"], "--rounds: must be at least 1"),
        (["--batch", "0"], "--batch: must be at least 1"),
        (["--collage", "guard=False"], "option relay.collage.guard takes a bool, got 'False'"),
        (["--measure-seconds", "-1"], "option relay.collage.measure_seconds takes a number > 0"),
        (["--collage", "fast"], "--collage takes NAME=VALUE with one of tvm_max_depth, "),
    ],
)
def test_what_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        peers.main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_a_contestant_that_is_not_installed(monkeypatch, capsys):
    missing = contestants.Peer("openvino", "no_such_package", "openvino_model")
    monkeypatch.setitem(contestants.PEERS, "openvino", missing)
    names, left_out = peers._chosen(None)
    # Others may be missing here too.
    assert "openvino" not in names
    assert left_out["openvino"] == "not installed: pip install no_such_package"
    with pytest.raises(SystemExit):
        peers.main(["--contestants", "collage,openvino"])
    assert "contestant openvino is not installed: pip install" in capsys.readouterr().err


def test_the_plot_is_optional(tmp_path, monkeypatch):
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    assert not report.plot([record_of(1e-3, openvino=2e-3)], tmp_path / "plot.png")


def test_the_plot_shows_every_peer(tmp_path):
    pytest.importorskip("matplotlib")
    assert report.plot([record_of(1e-3, openvino=2e-3)], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
