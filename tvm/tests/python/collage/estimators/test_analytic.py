# SPDX-License-Identifier: Apache-2.0
"""Heuristic costs: work of known operators, a ResNet block, peaks, the pass."""

import itertools
import math

import numpy as np
import pytest
import tvm
from relay_text import assert_same_outputs, is_external, partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import AnalyticCostEstimator, Machine
from tvm.relay.collage.estimators.analytic import work_of_module
from tvm.relay.collage.estimators.work import Work
from tvm.target import Target

LLVM, DNNL = Target("llvm"), Target("dnnl")
FLOAT = 4  # bytes


def typed(*params, body):
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(list(params), body)))


def conv(data, channels, size, seed):
    inner = int(data.type_annotation.shape[1]) if isinstance(data, relay.Var) else channels
    weight = np.random.default_rng(seed).standard_normal((channels, inner, size, size))
    return relay.nn.conv2d(
        data,
        relay.const((weight / size / inner).astype("float32")),
        kernel_size=size,
        channels=channels,
        padding=size // 2,
    )


def block(channels=16, extent=14):
    """conv, relu, conv, add, relu: the residual block of ResNet-18."""
    x = relay.var("x", shape=(1, channels, extent, extent))
    y = relay.nn.relu(conv(x, channels, 3, 0))
    return typed(x, body=relay.nn.relu(relay.add(conv(y, channels, 3, 1), x)))


def seconds(mod, target=LLVM, **machine):
    estimator = AnalyticCostEstimator(Machine(**machine))
    [cost] = estimator.estimate_batch([mod], [target], ["it"])
    assert cost.status == "estimated" and cost.message.startswith("heuristic: ")
    return cost.seconds


def test_operations_and_bytes_of_known_operators():
    x = relay.var("x", shape=(8, 16))
    weight = relay.const(np.ones((32, 16), "float32"))
    work = work_of_module(typed(x, body=relay.nn.dense(x, weight)))
    assert work == Work(1, 2 * 8 * 32 * 16, FLOAT * (8 * 16 + 32 * 16 + 8 * 32))
    twice = work_of_module(typed(x, body=relay.exp(relay.add(x, x))))
    assert (twice.num_calls, twice.bytes) == (2, FLOAT * 2 * 8 * 16), "x is read once"
    half = relay.var("x", shape=(8, 16), dtype="float16")
    assert work_of_module(typed(half, body=relay.exp(half))).bytes == 2 * 2 * 8 * 16


def test_external_functions_are_looked_into():
    x = relay.var("x", shape=(1, 16, 14, 14))
    y = relay.nn.relu(conv(x, 16, 3, 0))
    p = relay.var("x", shape=(1, 16, 14, 14))
    composite = relay.Function([p], relay.nn.relu(conv(p, 16, 3, 0)))
    composite = composite.with_attr("Composite", "dnnl.conv2d_relu")
    q = relay.var("q", shape=(1, 16, 14, 14))
    part = relay.Function([q], relay.Call(composite, [q]))
    part = part.with_attr("Compiler", "dnnl").with_attr("global_symbol", "part")
    part = part.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    var, z = relay.GlobalVar("part"), relay.var("z", shape=(1, 16, 14, 14))
    mod = tvm.IRModule({var: part})
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.Function([z], relay.Call(var, [z]))
    mod = relay.transform.InferType()(mod)
    assert work_of_module(mod) == work_of_module(typed(x, body=y))


def test_seconds_are_those_of_the_roof():
    work = Work(1, 4e9, 1e9)
    assert Machine(100.0, 10.0, 0.0).seconds(work) == pytest.approx(0.1)
    assert Machine(10.0, 100.0, 0.0).seconds(work) == pytest.approx(0.4)
    assert Machine(10.0, 100.0, 0.5).seconds(work) == pytest.approx(0.9)


def test_more_work_costs_more():
    times = [seconds(block(channels)) for channels in (16, 32, 64)]
    assert times == sorted(times) and times[2] > 2 * times[1] > 4 * times[0] * 0.4
    assert seconds(block(32, 28)) > seconds(block(32, 14))
    assert seconds(block(), gflops=10.0) > seconds(block(), gflops=100.0)


def test_a_block_of_resnet_is_cheaper_fused():
    """Of any two candidates that are a third one's halves, the halves cost no less together."""
    found = collage.candidates(block(), [LLVM, DNNL], AnalyticCostEstimator())
    priced = {}
    for candidate in found:
        inside, cost = frozenset(candidate.sub_graph.inside), candidate.cost
        if cost.status == "estimated" and cost.message:
            priced[candidate.backend, inside] = cost.seconds
    halves = 0
    for (backend, a), (other, b) in itertools.combinations(priced, 2):
        whole = (backend, a | b)
        if backend == other and not a & b and whole in priced:
            halves += 1
            assert priced[whole] <= (priced[backend, a] + priced[backend, b]) * (1 + 1e-12)
    assert halves >= 5


def test_the_pass_takes_it_and_faster_backends_win():
    mod = block()
    fast = Machine(gflops=1e4, gigabytes_per_second=1e4)
    for machines, wins in (({"dnnl": fast}, True), ({"llvm": fast}, False)):
        estimator = AnalyticCostEstimator(machines=machines)
        result = partition(mod, [DNNL], estimator)
        assert any(is_external(f) for f in result.functions.values()) == wins
        [report] = estimator.reports
        kernels = [part for part in report.parts if part.is_kernel]
        assert kernels and all(part.cost.status == "estimated" for part in kernels)
        assert all(part.cost.message.startswith("heuristic: ") for part in kernels)
        assert all(part.cost.flags == ("estimated",) for part in kernels)
        if wins:
            assert_same_outputs(mod, result)


def test_a_layout_transform_reads_and_writes_once():
    estimator = AnalyticCostEstimator(Machine(gigabytes_per_second=1.0, launch_seconds=0.0))
    types = [relay.TensorType((1, 8, 10, 10), "float32"), relay.TensorType((1, 8, 10, 10), "int8")]
    assert estimator.transition_seconds(types, LLVM) == pytest.approx([6400e-9, 1600e-9])


@pytest.mark.parametrize(
    "wrong", [{"gflops": 0}, {"gigabytes_per_second": -1.0}, {"launch_seconds": math.inf}]
)
def test_peaks_that_cannot_be_are_named(wrong):
    with pytest.raises(ValueError, match="machine needs peaks > 0"):
        AnalyticCostEstimator(Machine(**wrong))
    with pytest.raises(ValueError, match="dnnl needs peaks > 0"):
        AnalyticCostEstimator(machines={"dnnl": Machine(**wrong)})
