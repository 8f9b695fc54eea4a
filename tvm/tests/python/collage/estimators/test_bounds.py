# SPDX-License-Identifier: Apache-2.0
"""Seconds that no candidate can be measured below: from measured peaks, and against real costs."""

import dataclasses

import pytest
import tvm
from onednn_nets import constant, function_of
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import CollageOptions, CostEstimator
from tvm.relay.collage.estimators import bounds
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.estimators.work import Work
from tvm.relay.collage.measure import Cost, MeasuredCostEstimator
from tvm.target import Target

pytest.importorskip("highspy", reason="highspy, which cover_ilp imports, is not installed")
from cover_ilp import problem_of

LLVM = collage.host_target()
DNNL = Target("dnnl", host=LLVM)
ON = {"cost_bounds": True}
OPERATIONS = 2 * 24 * 64 * 4096
# A call alone, arithmetic as well, and nothing that is certain.
WORKS = [Work(1, 0.0, 0.0), Work(1, 1e9, 0.0), Work(0, 0.0, 0.0)]


@pytest.fixture
def peaks(monkeypatch):
    """What the start and the arithmetic are measured at, to be changed."""
    costs = [Cost.measured([1e-6] * 20), Cost.measured([OPERATIONS / 1e11] * 20)]
    monkeypatch.setattr(MeasuredCostEstimator, "estimate", lambda _, candidates: costs)
    return costs


def seconds(target=LLVM, host=LLVM, **options):
    config = {f"relay.collage.{name}": value for name, value in {**ON, **options}.items()}
    with (
        tvm.transform.PassContext(config=config),
        open_session(CollageOptions.current().session, [DNNL]) as session,
    ):
        return bounds.least_seconds(session, WORKS, [target] * len(WORKS), host)


def test_a_start_and_arithmetic_with_their_slack(peaks):
    start = 1e-6 / 4
    assert seconds() == pytest.approx([start, start + 1e9 / 4e11, 0.0])
    assert seconds(DNNL) == pytest.approx(seconds())


def test_a_host_that_names_no_cpu_has_no_peak(peaks):
    """TVM uses vectors of 128 bits there, oneDNN those that the CPU has."""
    assert seconds(DNNL, host=Target("llvm")) == pytest.approx([0.25e-6, 0.25e-6, 0.0])


def test_without_the_option_nothing_is_bounded_or_measured(peaks):
    peaks.clear()
    assert seconds(cost_bounds=False) == [0.0] * 3


def test_what_computes_in_a_coarser_type_has_another_peak(peaks, monkeypatch):
    monkeypatch.setattr(bounds, "trades_accuracy", lambda target: "bfloat16")
    assert seconds(DNNL) == pytest.approx([0.25e-6, 0.25e-6, 0.0])


def test_a_backends_own_costs_have_no_bounds(peaks, monkeypatch):
    monkeypatch.setattr(bounds, "has_own_costs", lambda target: target.kind.name == "dnnl")
    assert seconds(DNNL) == [0.0] * 3
    assert seconds(LLVM)[0] > 0


@pytest.mark.parametrize(
    "cost",
    [
        Cost.failed("compile_failed", "by chance"),
        Cost.measured([1e-6] * 10 + [9e-6] * 10),  # noisy
        dataclasses.replace(Cost.measured([1e-6] * 20), load=0.5),
    ],
)
def test_peaks_that_were_measured_badly_bound_nothing(peaks, cost):
    peaks[1] = cost
    assert seconds() == [0.0] * 3


def test_only_an_estimator_that_measures_bounds_costs():
    class Asked(CostEstimator):
        has_transitions = False

        def estimate_batch(self, mods, targets, labels):
            return [Cost.estimated(1.0) for _ in mods]

    class Bounded(Asked):
        def least_seconds(self, works, targets, host):
            return [0.5 * work.num_calls for work in works]

    assert CostEstimator.least_seconds is not None
    assert Asked.least_seconds is None and collage.MockCostEstimator.least_seconds is None
    for kind, least in ((Asked, {0.0}), (Bounded, {0.0, 0.5})):
        with tvm.transform.PassContext(opt_level=3):
            problem = problem_of(net(), [LLVM, DNNL], kind())
        assert set(problem.least_seconds) == least


@pytest.mark.parametrize("answer", [[-1.0], [], [float("nan")]])
def test_what_is_no_bound_is_an_error(answer):
    class Wrong(CostEstimator):
        has_transitions = False

        def estimate_batch(self, mods, targets, labels):
            return [Cost.estimated(1.0) for _ in mods]

        def least_seconds(self, works, targets, host):
            return answer * len(works)

    with pytest.raises(ValueError, match="least_seconds gives seconds >= 0 for each of"):
        problem_of(net(), [LLVM, DNNL], Wrong())


def net(size=2):
    """Products of both kinds, and what may be no kernel at all."""
    x = relay.var("x", shape=(1, 64, size, size))
    y = relay.nn.relu(relay.nn.conv2d(x, constant(2, 64, 64, 1, 1)) * relay.const(1.0))
    y = relay.nn.dense(relay.nn.batch_flatten(y), constant(3, 64, 64 * size * size))
    return relay.transform.InferType()(tvm.IRModule.from_expr(function_of(y)))


def test_no_cost_of_a_real_search_is_below_its_bound(monkeypatch):
    """All of its candidates, asked for or not. Where others use the machine there would be no
    bounds; here there are, by whatever its peaks were measured at then."""
    monkeypatch.setattr(Cost, "is_busy", False)
    monkeypatch.setattr(Cost, "is_noisy", False)
    options = {**ON, "measure_seconds": 0.02, "store": "none", "verify": "none"}
    config = {f"relay.collage.{name}": value for name, value in options.items()}
    with (
        tvm.transform.PassContext(opt_level=3, config=config),
        open_session(CollageOptions.current().session, [DNNL]) as session,
    ):
        problem = problem_of(net(14), [LLVM, DNNL], CostEstimator(session))
    known = [k for k, cost in enumerate(problem.seconds) if cost > 0]
    ratios = [problem.least_seconds[k] / problem.seconds[k] for k in known]
    assert len(known) > 8 and max(ratios) < 1
    assert max(ratios) > 0.01  # of the products, by far the dearest
