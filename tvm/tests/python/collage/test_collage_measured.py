# SPDX-License-Identifier: Apache-2.0
"""The pass with costs measured in worker processes: one tiny convolution, TVM and oneDNN."""

import math

import numpy as np
import pytest
import tvm
from relay_text import assert_same_outputs, is_external, parse
from tvm import relay
from tvm.relay.collage import CollageOptions, CostEstimator
from tvm.relay.collage.collage import estimate_seconds
from tvm.relay.collage.measured import measure_batch, measuring_session
from tvm.relay.transform import CollagePartition
from tvm.target import Target, make_compilation_config

LLVM, DNNL = Target("llvm"), Target("dnnl")


@pytest.fixture(scope="module", autouse=True)
def session():
    options = CollageOptions(measure_seconds=0.01, workers=1, progress="quiet")
    with measuring_session(options) as estimator:
        yield estimator


@pytest.fixture(scope="module")
def conv():
    """conv2d, relu and a tanh that oneDNN's patterns leave to TVM."""
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")
    x = relay.var("x", shape=(1, 8, 16, 16))
    y = relay.nn.conv2d(x, relay.const(weight), kernel_size=3, channels=8, padding=1)
    y = relay.nn.relu(y)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(y))))


def partition(mod, estimator):
    with tvm.transform.PassContext(opt_level=3) as context:
        config = make_compilation_config(context, [LLVM, DNNL])
        return CollagePartition(config, estimator)(mod)


def test_each_part_has_a_measured_cost_and_the_plan_is_their_sum(conv):
    estimator = CostEstimator()
    result = partition(conv, estimator)
    [report] = estimator.reports
    kernels = [row for row in report["parts"] if row[6]]
    assert kernels and all(row[3] == "measured" and row[4] > 0 for row in kernels)
    assert report["seconds"] == pytest.approx(sum(row[4] for row in report["parts"]))
    assert report["failed"] == []
    used = {row[0] for row in kernels}
    assert ("dnnl" in used) == any(is_external(f) for f in result.functions.values())
    assert_same_outputs(conv, result)


def test_a_second_pass_of_the_session_measures_nothing_and_decides_the_same(conv, session):
    first = CostEstimator()
    partitioned = partition(conv, first)
    again = CostEstimator()
    assert tvm.ir.structural_equal(partition(conv, again), partitioned)
    assert again.reports[0]["seconds"] == first.reports[0]["seconds"]


def test_a_batch_is_answered_in_its_order(conv):
    relu = parse("def @main(%x: Tensor[(8, 8), float32]) { nn.relu(%x) }")
    dynamic = parse("def @main(%x: Tensor[(?, 8), float32]) { nn.relu(%x) }")
    rows = measure_batch([relu, dynamic, conv, relu], [LLVM] * 4, ["a", "b", "c", "d"])
    assert [row[0] for row in rows] == ["measured", "unsupported", "measured", "measured"]
    assert rows[0] == rows[3], "equal candidates are measured once"
    assert rows[1][1] == 0.0 and "no tensor of a fixed shape" in rows[1][2]


def test_a_candidate_that_does_not_build_is_a_failure_with_its_reason():
    broken = parse(
        """def @part(%a: $T, Primitive=1, Compiler="dnnl", global_symbol="part") -> $T {
          erf(%a)
        }
        def @main(%x: $T) { @part(%x) }"""
    )
    [(status, seconds, message)] = measure_batch([broken], [DNNL], ["dnnl(erf)"])
    assert status in {"compile_failed", "unsupported"} and seconds == 0.0
    assert message and "\n  0:" not in message


def test_a_backend_whose_compiler_is_missing_loses_and_the_build_goes_on():
    mod = parse("def @main(%x: Tensor[(8, 8), float32]) { nn.relu(%x) }")
    tvm.get_global_func("collage.RegisterTargetKind")("measured_test", 1)
    from tvm.relay.dataflow_pattern import is_op, wildcard
    from tvm.relay.op.contrib import register_pattern_table

    table = [("measured_test.relu", is_op("nn.relu")(wildcard()))]
    register_pattern_table("measured_test", lambda: table)
    estimator = CostEstimator()
    with tvm.transform.PassContext(opt_level=3) as context:
        config = make_compilation_config(context, [LLVM, Target("measured_test")])
        result = CollagePartition(config, estimator)(mod)
    assert len(result.functions) == 1
    [failed] = estimator.reports[0]["failed"]
    assert failed[0] == "measured_test" and failed[3] == "compile_failed" and failed[5]


def test_the_old_protocol_gives_seconds_or_infinity(conv):
    assert 0 < estimate_seconds(conv, LLVM) < 1
    dynamic = parse("def @main(%x: Tensor[(?, 8), float32]) { nn.relu(%x) }")
    assert estimate_seconds(dynamic, LLVM) == math.inf
    assert tvm.get_global_func("tvm.relay.collage.estimate_seconds")(conv, LLVM) > 0


def test_sessions_nest_and_share(session):
    with measuring_session() as inner:
        assert inner is session
