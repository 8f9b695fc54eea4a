# SPDX-License-Identifier: Apache-2.0
"""The benchmark of builds: two libraries beside each other in stock TVM, and a profile's phases."""

import build_time
import pytest
import tvm
from tvm import relay
from tvm.relay.collage.compile import build_library, host_target


def saved(path, scale):
    data = relay.var("data", shape=(1, 8))
    mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.relu(data) * relay.const(scale)))
    build_library(mod, host_target()).export_library(str(path))


def test_outputs_and_latencies_of_two_libraries(tmp_path, monkeypatch):
    monkeypatch.setitem(build_time.MODELS, "small", ("", {}, (1, 8)))
    saved(tmp_path / "ours.so", 1.5)
    saved(tmp_path / "stock.so", 1.0)
    found = build_time.compare_latency("small", tmp_path, 2)
    assert found["output_difference"] == pytest.approx(0.5)
    assert set(found["latency_ms"]) == {"ours", "stock"} and min(found["latency_ms"].values()) > 0
    low, high = found["latency_ratio_95"]
    assert low <= found["latency_ratio"] <= high


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
