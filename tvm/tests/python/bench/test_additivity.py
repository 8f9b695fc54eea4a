# SPDX-License-Identifier: Apache-2.0
"""bench/additivity.py: every second of the gap is in one row, and plans are measured whole."""

import argparse
import json
import types

import additivity
import models
import numpy as np
import pytest
import tvm
from additivity_account import ROWS, Chain, Launch, Part, account
from harness import records
from tvm import relay
from tvm.relay.collage import host_target
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.measure.profiler.compiled_kernels import Kernel
from tvm.relay.collage.report.kernels import match_kernels

A, BLOCKED = "float32[1,8,4]", "float32[1,1,4,8]"
_seconds = {}


def kernel(ops, seconds, *types):
    """One that takes these seconds; those of equal operators and types are equal."""
    made = Kernel(len(_seconds), "k", "tvm", tuple(ops.split()), f"{ops}{types}", types, (), "")
    _seconds[made.node] = seconds
    return made


def account_of(network_seconds, network, parts, transitions=0.0, launch=None):
    """`parts`: (count, seconds, border seconds, kernels)."""
    alone = [k for count, _, _, kernels in parts for k in kernels for _ in range(count)]
    return account(
        network_seconds,
        [Part(count, seconds, border, len(k)) for count, seconds, border, k in parts],
        transitions,
        match_kernels(network, alone),
        lambda k: _seconds[k.node],
        lambda k: _seconds[k.node],
        launch or Launch(0.0, 0.0),
    )


def test_a_kernel_that_is_slower_in_its_place_is_cache():
    network = [kernel("exp", 5.0, A, "->", A), kernel("exp", 4.0, A, "->", A)]
    part = (2, 3.0, 0.0, [kernel("exp", 3.0, A, "->", A)])
    found = account_of(9.0, network, [part])
    assert (found.total, found.gap) == (6.0, 3.0)
    assert found.rows == dict.fromkeys(ROWS, 0.0) | {"cache": 3.0}


def test_borders_that_were_taken_off_and_are_in_the_network_are_layout():
    conv = kernel("conv", 10.0, BLOCKED, "->", BLOCKED)
    moves = [kernel("layout_transform", 2.0, A, "->", BLOCKED) for _ in range(2)]
    part = (1, 12.0, 2.0, [kernel("conv", 10.0, BLOCKED, "->", BLOCKED), moves[1]])
    found = account_of(12.0, [moves[0], conv], [part])
    assert found.total == 10.0
    assert found.rows == dict.fromkeys(ROWS, 0.0) | {"layout": 2.0}
    # Charged as a transition, nothing is left to explain.
    found = account_of(12.0, [moves[0], conv], [part], transitions=2.0)
    assert found.gap == 0.0 and not any(found.rows.values())


def test_operators_joined_across_parts_are_fusion():
    joined = kernel("exp tanh", 3.0, A, "->", A)
    parts = [
        (1, 2.0, 0.0, [kernel("exp", 2.0, A, "->", A)]),
        (1, 2.5, 0.0, [kernel("tanh", 2.5, A, "->", A)]),
    ]
    found = account_of(3.0, [joined], parts)
    assert found.rows == dict.fromkeys(ROWS, 0.0) | {"fusion": -1.5}


def test_each_part_pays_for_a_run_and_the_network_once():
    launch = Launch.of_chains(Chain(3.5, [0.5]), Chain(13.5, [0.5] * 11))
    assert (launch.run, launch.kernel) == (2.5, 0.5)
    network = [kernel("exp", 4.0, A, "->", A) for _ in range(3)]
    part = (3, 7.0, 0.0, [kernel("exp", 4.0, A, "->", A)])
    found = account_of(16.0, network, [part], launch=launch)
    assert found.rows == dict.fromkeys(ROWS, 0.0) | {"launch": -5.0}


def test_what_nothing_explains_is_unknown():
    extra = kernel("cos", 1.0, A, "->", A)
    found = account_of(9.0, [extra, kernel("exp", 4.0, A, "->", A)], [(1, 5.0, 0.0, [])])
    assert found.rows == dict.fromkeys(ROWS, 0.0) | {"unknown": 4.0}
    assert sum(found.rows.values()) == found.gap


def tiny_net():
    """Convolution, ReLU, convolution, mean: both backends can take all of it."""
    generator = np.random.default_rng(0)
    out = relay.var("data", shape=(1, 16, 8, 8))
    for _ in range(2):
        weight = relay.const(generator.standard_normal((16, 16, 3, 3)).astype("float32"))
        out = relay.nn.conv2d(out, weight, channels=16, kernel_size=(3, 3), padding=1)
        out = relay.nn.relu(out)
    out = relay.nn.global_avg_pool2d(out)
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(out), out))


@pytest.mark.slow("a net searched, and each of its parts timed")
def test_plans_of_a_net_are_accounted_for():
    options = argparse.Namespace(
        store="none", seed=0, plans="tvm,dnnl", rounds=2, clock="wall", made_up=None
    )
    targets = parse_targets([host_target(), "dnnl"])
    results = list(additivity.run_net(tiny_net(), None, targets, options))
    assert [item["plan"] for item in results] == ["tvm", "dnnl"]
    for item in results:
        assert item["unexplained"] == []
        assert item["gap"] == pytest.approx(item["network"] - item["parts"] - item["transitions"])
        assert sum(item["rows"].values()) == pytest.approx(item["gap"])
        assert item["repeated"][0] > 0
    tvm_alone, dnnl = results
    # Plain at the function's border, blocked inside; oneDNN's one part has neither.
    assert tvm_alone["transitions"] > 0 and dnnl["transitions"] == 0
    assert dnnl["num_parts"] == 1 and dnnl["kernels"] == {"same": 1}
    assert dnnl["by_backend"] == {"dnnl": 1} and list(tvm_alone["by_backend"]) == ["tvm"]
    text = additivity.summary({"net": "tiny", "plans": results})
    assert all(word in text for word in ("tiny", "tvm", "dnnl", *ROWS))
    json.dumps(results, allow_nan=False)  # as a record has them


def plan_of(name, ratio, **by_backend):
    rows = dict.fromkeys(ROWS, 0.0) | {"cache": 1e-3 * (ratio - 1)}
    interval = [ratio, ratio - 0.01, ratio + 0.01]
    times = {"sum": 1e-3, "network": 1e-3 * ratio, "ratio": interval, "repeated": interval}
    parts = {"num_parts": sum(by_backend.values()), "by_backend": by_backend}
    return {"plan": name, **parts, "rows": rows, **times}


def test_a_run_goes_on_and_its_page_says_what_is_near(monkeypatch, tmp_path, capsys):
    measured = []

    def run_net(mod, params, targets, options):
        measured.append(options.rounds)
        yield plan_of("collage", 1.045, tvm=1, dnnl=2)
        yield plan_of("tvm", 0.9, tvm=3)
        yield plan_of("dnnl", 1.0, dnnl=1)

    net = types.SimpleNamespace(name="tiny", build=lambda batch: None)
    monkeypatch.setattr(additivity, "run_net", run_net)
    monkeypatch.setattr(models, "find", lambda text: [net])
    monkeypatch.setattr(models, "to_relay", lambda model: (None, None))
    record, page = tmp_path / "additivity.jsonl", tmp_path / "page.md"
    given = ["--nets", "tiny", "--record", str(record), "--docs", str(page)]
    assert [additivity.main([*given, "--rounds", str(n)]) for n in (3, 3, 4)] == [0, 0, 0]
    assert measured == [3, 4]  # what stands is not measured again
    assert "is in additivity.jsonl" in capsys.readouterr().out
    page.write_text("<!-- additivity.jsonl: begin -->\nold\n<!-- additivity.jsonl: end -->\nrest\n")
    assert additivity.main([*given, "--write-docs"]) == 0
    text = page.read_text()
    row = "| tiny | dnnl | measured | 4 | collage | 3: dnnl 2, tvm 1 | 1.000 | 1.045 |"
    assert f"{row} 1.045 [1.035, 1.055] |" in text
    assert "2 of 3 plans (for 1 with all of the interval) and 1 of 1 plans of several" in text
    assert text.endswith("rest\n") and "old" not in text


def test_a_net_that_fails_is_told_and_keeps_no_other_from_being_measured(
    monkeypatch, tmp_path, capsys
):
    def run_net(mod, params, targets, options):
        if mod == "poor":
            raise RuntimeError("time_libraries: crashed: signal 11")
        yield plan_of("collage", 1.0)

    nets = [
        types.SimpleNamespace(name=name, build=lambda batch, name=name: name)
        for name in ("poor", "good")
    ]
    monkeypatch.setattr(additivity, "run_net", run_net)
    monkeypatch.setattr(models, "find", lambda text: nets)
    monkeypatch.setattr(models, "to_relay", lambda model: (model, None))
    record = tmp_path / "additivity.jsonl"
    given = ["--record", str(record), "--made-up", "3"]
    assert additivity.main(given) == 1
    assert "poor with dnnl: left out: time_libraries: crashed: signal 11" in capsys.readouterr().err
    [kept] = records.load(record, additivity.KEY).values()
    assert kept["net"] == "good" and kept["costs"] == "made up by seed 3"


def test_plans_by_made_up_costs_measure_nothing(monkeypatch):
    monkeypatch.setattr("tvm.relay.collage.estimators.measure_batch", None)
    targets = parse_targets([host_target(), "dnnl"])
    prepared = relay.transform.InferType()(tiny_net())
    plans = list(additivity.find_plans(prepared, targets, made_up=1))
    assert [plan.name for plan in plans] == ["collage", "tvm", "dnnl"]
    assert [c.backend for c in plans[2].parts] == ["dnnl"]
    assert {c.backend for c in plans[1].parts} == {"tvm"} and plans[1].transitions


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--rounds", "1"], "--rounds: must be at least 2"),
        (["--clock", "cpu"], "TVM_NUM_THREADS=1"),
        (["--nets", "nothing"], "unknown net nothing"),
    ],
)
def test_wrong_arguments_are_named(arguments, says, capsys, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    with pytest.raises(SystemExit):
        additivity.main(arguments)
    assert says in capsys.readouterr().err
