# SPDX-License-Identifier: Apache-2.0
"""The benchmark of builds: two libraries beside each other in stock TVM, and a profile's phases."""

import json

import bench_nets
import build_time
import numpy as np
import onnx
import pytest
import tvm
from tvm import relay
from tvm.relay.collage.compile import build_library, host_target


def saved(path, scale):
    data = relay.var("data", shape=(1, 8))
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(data) * relay.const(scale)))
    build_library(mod, host_target()).export_library(path)


def test_outputs_and_latencies_of_two_libraries(tmp_path):
    files = {side: str(tmp_path / f"{side}.so") for side in build_time.SIDES}
    saved(files["ours"], 1.5)
    saved(files["stock"], 1.0)
    inputs = str(tmp_path / "inputs.npz")
    np.savez(inputs, data=np.random.default_rng(0).standard_normal((1, 8), "float32"))
    found = build_time.compare_latency(files, inputs, threads=1, rounds=2)
    assert found["output_difference"] == pytest.approx(0.5)
    assert set(found["latency_ms"]) == {"ours", "stock"} and min(found["latency_ms"].values()) > 0
    ratio, low, high = found["latency_ratio"]
    assert low <= ratio and high is None, "two rounds give no upper end"


@pytest.mark.slow("a net built by both sides, each in a process of its own")
def test_a_small_net_is_built_by_both_sides(tmp_path, monkeypatch, capfd):
    bench_nets.know_nets(monkeypatch, channels=4)
    output = tmp_path / "build_time.json"
    arguments = ["--nets", "small,bad", "--rounds", "1", "--latency-rounds", "2", "--threads", "1"]
    assert build_time.main([*arguments, "--output", str(output)]) == 1
    (result,) = json.loads(output.read_text())
    for side in build_time.SIDES:
        phases = result[side]["phases"]
        assert sum(phases.values()) == pytest.approx(result[side]["seconds"], rel=0.2)
    assert result["output_difference"] < 1e-5
    said = capfd.readouterr()
    assert "small, 1 threads" in said.out and "modules: equal" in said.out
    for what in ("import time", "build time", "latency"):
        assert f"{what}, ours / stock: " in said.out
    assert "bad: left out" in said.err


def test_imports_alone_of_a_file(tmp_path, capfd):
    file = tmp_path / "other.onnx"
    onnx.save(bench_nets.two_convolutions(1, 3), file)
    output = ["--output", str(tmp_path / "build_time.json")]
    arguments = ["--import-only", "--files", str(file), "--rounds", "1", *output]
    assert build_time.main(arguments) == 0
    title, head, ours, stock, ratio, equal = capfd.readouterr().out.splitlines()
    assert title.startswith("other.onnx, ") and head.split() == ["import", "s"]
    assert [line.split()[0] for line in (ours, stock)] == list(build_time.SIDES)
    assert ratio.startswith("import time, ours / stock: ") and equal == "modules: equal"


def test_other_modules_are_no_figure(monkeypatch, capsys, tmp_path):
    bench_nets.know_nets(monkeypatch, channels=4)

    def made_up(function, given, **settings):
        return {"import": 1.0, "module": given["side"]}

    monkeypatch.setattr(build_time.child, "call", made_up)
    output = ["--output", str(tmp_path / "build_time.json")]
    arguments = ["--import-only", "--nets", "small", "--rounds", "1", *output]
    assert build_time.main(arguments) == 1
    assert "small: left out: the modules differ" in capsys.readouterr().err
    assert build_time.main([*arguments, "--stock-rounds", "0"]) == 0
    assert "stock" not in capsys.readouterr().out


def test_each_pass_counts_in_one_phase():
    profile = """FoldConstant: 5000us [3000us] (30.00%; 30.00%)
    InferType: 2000us [2000us] (20.00%; 40.00%)
LowerTE: 4000us [1000us] (10.00%; 10.00%)
    tir.Simplify: 3000us [3000us] (30.00%; 75.00%)
Unheard: 500us [500us]
"""
    found = build_time.phases_of(profile, 0.0195)
    wanted = {"fold": 3, "types": 2, "simplify": 0, "layout": 0, "lower": 4, "other": 0.5}
    assert found == pytest.approx({**{k: 1e-3 * v for k, v in wanted.items()}, "codegen": 10e-3})
