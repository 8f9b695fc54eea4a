# SPDX-License-Identifier: Apache-2.0
"""Real candidates, built by TVM and measured in workers end to end; no figure is asserted."""

import json
import time
from importlib import import_module

import numpy as np
import pytest
import tvm
from candidate_nets import conv, external
from measure_fakes import measure, stock_build, timing_of
from tvm import relay

borders = import_module("tvm.relay.collage.measure.profiler.borders")
timing = import_module("tvm.relay.collage.measure.profiler.profile")
describe_inputs = import_module("tvm.relay.collage.candidate.inputs").describe_inputs
TARGET = "llvm -mcpu=" + tvm.target.codegen.llvm_get_system_cpu()


@pytest.fixture(scope="module")
def estimator():
    options = measure.MeasureOptions(
        workers=1, builder="measure_fakes:stock_build", imports=(), budget_seconds=0.05
    )
    with measure.MeasuredCostEstimator(options) as estimator:
        yield estimator


def dense(seed):
    weight = np.random.default_rng(seed).standard_normal((64, 128)).astype("float32")
    x = relay.var("x", shape=(8, 128))
    return relay.Function([x], relay.nn.dense(x, relay.const(weight)))


def test_candidates_of_tvm_end_to_end(estimator):
    x = relay.var("x", shape=(relay.Any(), 4))
    functions = {
        "conv": conv(0, channels=24),
        "the same conv, other weights": conv(1, channels=24),
        "dense": dense(0),
        "dynamic": relay.Function([x], relay.exp(x)),
        "no such backend": external(compiler="nobody"),
    }
    candidates = [measure.candidate_module(f, "tvm", TARGET) for f in functions.values()]
    hits, misses = estimator.hits, estimator.misses
    costs = dict(zip(functions, estimator.estimate(candidates), strict=True))
    assert (estimator.hits - hits, estimator.misses - misses) == (1, 4)
    assert costs["conv"] is costs["the same conv, other weights"]
    for name in ("conv", "dense"):
        cost = costs[name]
        assert cost.status == "measured" and cost.rounds >= timing.MIN_SAMPLES, cost.Summary()
        # On a noisy machine seconds is the upper quartile, which may lie beyond the interval.
        assert 0 < cost.low <= (cost.median or cost.seconds) <= cost.high
        assert cost.seconds >= cost.low
    assert costs["conv"].border_seconds > 0 and costs["dense"].border_seconds == 0
    assert costs["dynamic"].status == "unsupported"
    assert "input x is no tensor of a fixed shape" in costs["dynamic"].message
    assert costs["no such backend"].status == "compile_failed"
    assert "nobody" in costs["no such backend"].message


def test_deployed_build_of_an_external_backend():
    """By the default builder and imports: what a user's search measures."""
    backends = pytest.importorskip("tvm.relay.collage.backends")
    function = conv(channels=24)
    mod = backends.greedy_partition(tvm.IRModule.from_expr(function), "dnnl")
    parts = {"dnnl": mod, "tvm": function}
    candidates = [measure.candidate_module(part, b, TARGET) for b, part in parts.items()]
    assert candidates[0].instantiate()["collage_dnnl_0"].attrs["Compiler"] == "dnnl"
    with measure.MeasuredCostEstimator(workers=1, budget_seconds=0.05) as estimator:
        for cost in estimator.estimate(candidates):
            assert cost.status == "measured", cost.Summary()


def test_contestants_that_are_libraries(tmp_path):
    paths = {}
    function = dense(0)
    for name, mod in {"a": function, "b": relay.Function(function.params, function.body)}.items():
        factory = stock_build(tvm.IRModule.from_expr(mod), TARGET)
        paths[name] = str(tmp_path / f"{name}.so")
        factory.export_library(paths[name])
    inputs = str(tmp_path / "inputs.npz")
    value = np.random.default_rng(0).standard_normal((8, 128)).astype("float32")
    np.savez(inputs, x=value)
    contestants = [measure.Contestant.of_library(n, p, inputs) for n, p in paths.items()]
    truth = str(tmp_path / "truth.npz")
    np.savez(truth, output_0=value @ function.body.args[1].data.numpy().T)
    results = measure.compare(contestants, truth=truth, rounds=6)
    assert all(r.cost.is_usable and r.output_error < 1e-5 for r in results)


def graph(*kernels, heads, inputs=("x",), weights=("w",)):
    """A graph of the executor: kernels are (func_name, names or indices of inputs)."""
    nodes = [{"op": "null", "name": n, "inputs": []} for n in (*inputs, *weights)]
    index = {node["name"]: i for i, node in enumerate(nodes)}
    for name, sources in kernels:
        index[name] = len(nodes)
        entries = [[index[s], 0, 0] for s in sources]
        nodes.append(
            {"op": "tvm_op", "name": name, "attrs": {"func_name": name}, "inputs": entries}
        )
    return {"nodes": nodes, "heads": [[index[h], 0, 0] for h in heads]}


def names_of_borders(graph):
    return [graph["nodes"][i]["name"] for i in borders.border_nodes(graph, {"x", "y"})]


IN, INNER, OUT = (f"tvmgen_default_fused_layout_transform{s}" for s in ("", "_1", "_2"))


def test_transforms_at_the_borders_are_found():
    g = graph(
        (IN, ["x"]),
        ("tvmgen_default_fused_nn_contrib_conv2d_NCHWc", [IN, "w"]),
        (INNER, ["tvmgen_default_fused_nn_contrib_conv2d_NCHWc"]),
        ("tvmgen_default_fused_nn_contrib_conv2d_NCHWc_1", [INNER, "w"]),
        (OUT, ["tvmgen_default_fused_nn_contrib_conv2d_NCHWc_1"]),
        heads=[OUT],
    )
    assert names_of_borders(g) == [IN, OUT]


def test_what_is_no_border_stays_in_the_cost():
    fused = "tvmgen_default_fused_nn_relu_layout_transform"
    assert names_of_borders(graph((fused, ["x"]), heads=[fused])) == []
    alone = graph((IN, ["x"]), heads=[IN])
    assert names_of_borders(alone) == [], "a transform is the candidate's own work"
    packed = graph((IN, ["w"]), ("tvmgen_default_fused_nn_dense", ["x", IN]), heads=[])
    assert names_of_borders(packed) == [], "a weight's transform runs in each run when deployed too"


class FakeClock:
    def __init__(self, times):
        self.times, self.calls = times, []

    def __call__(self, number, repeat):
        self.calls.append((number, repeat))
        return [next(self.times) for _ in range(repeat)]


def forever(*values):
    while True:
        yield from values


def test_a_sample_has_no_more_runs_than_it_may():
    """What runs between runs takes time as well, however short a run itself is."""
    clock = FakeClock(forever(1e-7))
    timing.sample_until_narrow(clock, 0.3, 0.03, 2e-3, most_runs=20)
    assert max(number for number, _ in clock.calls) == 20


@pytest.mark.parametrize("seconds", [0.0, float("nan"), -1.0])
def test_a_clock_that_tells_nothing_has_the_most_runs(seconds):
    assert timing.runs_in(2e-3, seconds) == 100_000


def test_steady_candidates_end_early_and_noisy_ones_at_the_budget():
    steady, noisy = FakeClock(forever(1e-3)), FakeClock(forever(1e-3, 2e-3, 3e-3))
    assert len(timing.sample_until_narrow(steady, 0.3, 0.03, 2e-3)) == 10  # at the first look
    samples = timing.sample_until_narrow(noisy, 0.3, 0.03, 4e-3)
    assert 0.3 <= sum(samples) * noisy.calls[-1][0] <= 0.6


def test_long_runs_get_the_fewest_samples_and_odd_clocks_end():
    for times in (forever(10.0), forever(0.0), forever(float("nan"))):
        assert len(timing.sample_until_narrow(FakeClock(times), 0.3, 0.03, 2e-3)) >= 6


def test_what_runs_beside_is_of_the_budget():
    """As TVM's pool does between runs of a part that has threads of its own."""
    noise = np.random.default_rng(0)

    def run(number, repeat):
        time.sleep(2e-4 * number * repeat)
        return noise.uniform(1e-5, 3e-5, repeat).tolist()

    assert 6 <= len(timing.sample_until_narrow(run, 0.3, 0.03, 2e-3)) < 40


def test_short_runs_are_timed_many_at_once():
    clock = FakeClock(forever(1e-6))
    timing.sample_until_narrow(clock, 0.3, 0.03, 2e-3)
    assert clock.calls[-1][0] == 2000


@pytest.mark.parametrize(("has_own_threads", "width"), [(False, 0.03), (True, 0.09)])
def test_what_wakes_its_own_threads_need_not_be_known_as_well(
    has_own_threads, width, tmp_path, monkeypatch
):
    x = relay.var("x", shape=(8,))
    library = str(tmp_path / "relu.so")
    mod = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(x)))
    stock_build(mod, tvm.target.Target("llvm"), opt_level=0).export_library(library)
    asked = []
    monkeypatch.setattr(
        timing, "sample_until_narrow", lambda *args, **more: asked.append(args[2]) or [1e-6] * 6
    )
    inputs = describe_inputs(mod)
    build = {
        "device": "llvm",
        "backend": "tvm",
        "inputs": inputs,
        "weight_bytes": 0,
        "inner_bytes": 0,
    }
    answer = timing.measure_library(
        library, build, None, None, timing_of(0.3, 0.03, 2e-3, has_own_threads=has_own_threads)
    )
    assert asked == [pytest.approx(width)] and len(answer["samples"]) == 6


def test_messages_of_tvm_tell_what_was_wrong():
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(Exception) as error:
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, relay.const(1.0))))
    text = measure.describe(error.value)
    assert "Traceback" not in text and len(text) <= 500 and json.dumps(text)
