# SPDX-License-Identifier: Apache-2.0
"""What the search is charged where a value enters or leaves the blocked layouts of TVM's parts."""

import math

import numpy as np
import pytest
import tvm
from relay_text import count_calls, make_backend, parse, partition
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.estimators import FunctionCosts
from tvm.relay.collage.estimators.session import Session
from tvm.relay.collage.estimators.transitions import measure_transitions
from tvm.relay.collage.exec.time_limit import TimeLimit
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME, CONV_NAME = "transition_test", "transition_test_conv"
# TVM's price of a call is 10 s, the backend's 9 s, a layout transform's 5 s.
CONV_RELU_CONV = """
def @main(%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(8, 8, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])
}"""
NO_CONV = "def @main(%x: Tensor[(1, 8, 6, 6), float32]) { exp(nn.relu(tanh(%x))) }"


class PricedCosts(FunctionCosts):
    """Costs by counted calls, with layout transforms that are charged."""

    has_transitions = True

    def __init__(self, transition):
        self.asked = []
        self._transition = transition
        super().__init__(
            lambda mod, target: (
                sum(count_calls(mod).values())
                * (9 if target.kind.name in (NAME, CONV_NAME) else 10)
            )
        )

    def transition_seconds(self, types, target):
        self.asked += [tuple(int(dim) for dim in item.shape) for item in types]
        assert target.kind.name == "llvm"
        return [self._transition for _ in types]


@pytest.fixture(scope="module")
def backend():
    return make_backend(NAME, [(f"{NAME}.relu", is_op("nn.relu")(wildcard()))])


@pytest.fixture(scope="module")
def conv_backend():
    """It takes convolutions of one group."""

    def is_dense(call):
        return int(call.attrs.groups) == 1

    pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    return make_backend(CONV_NAME, [(f"{CONV_NAME}.conv", pattern, is_dense)])


def conv_relu_conv():
    """The module with its weight as a constant, as modules are partitioned."""
    mod = parse(CONV_RELU_CONV)
    weight = np.ones((8, 8, 3, 3), "float32")
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], {"w": weight})
    return mod


def backend_parts(mod):
    return [var for var in mod.get_global_vars() if "collage_" in var.name_hint]


def test_a_free_transition_takes_the_cheaper_kernel(backend):
    costs = PricedCosts(0.0)
    assert len(backend_parts(partition(conv_relu_conv(), [backend], costs))) == 1
    assert costs.reports[0].seconds == pytest.approx(10 + 9 + 10)


def test_a_kernel_between_convolutions_is_not_worth_two_transforms(backend):
    costs = PricedCosts(5.0)
    assert not backend_parts(partition(conv_relu_conv(), [backend], costs))
    # Three calls, and one transform each where the function's input and output are plain.
    assert costs.reports[0].seconds == pytest.approx(30 + 2 * 5)
    nodes = [moved.node for moved in costs.reports[0].transitions]
    graph = collage.dataflow_graph(conv_relu_conv()["main"])
    assert [graph[node].name for node in nodes] == ["x", "nn.conv2d"]
    assert graph[nodes[1]].is_result
    assert costs.asked.count((1, 8, 6, 6)) == 1, "each tensor type is asked once"


def test_a_follower_beside_foreign_convolutions_stays_plain(conv_backend):
    costs = PricedCosts(5.0)
    mod = partition(conv_relu_conv(), [conv_backend], costs)
    [report] = costs.reports
    assert len(backend_parts(mod)) == 2
    assert report.seconds == pytest.approx(9 + 10 + 9)
    assert not report.transitions


def test_a_follower_between_both_kinds_is_charged_once(conv_backend):
    """TVM must take the first convolution, which has two groups."""
    mod = parse(
        """def @main(%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(8, 8, 3, 3), float32],
                     %v: Tensor[(8, 4, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %v, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3], groups=2);
  %1 = nn.relu(%0);
  nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])
}"""
    )
    weights = {"w": np.ones((8, 8, 3, 3), "float32"), "v": np.ones((8, 4, 3, 3), "float32")}
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], weights)
    costs = PricedCosts(0.4)
    assert len(backend_parts(partition(mod, [conv_backend], costs))) == 1
    [report] = costs.reports
    # At the border of the function, and on one side of the relu.
    assert [moved.seconds for moved in report.transitions] == [0.4, 0.4]
    assert report.seconds == pytest.approx(10 + 10 + 9 + 2 * 0.4)


def test_copies_that_stay_plain_are_no_further_candidates(conv_backend):
    counts = []
    for transition in (0.0, 5.0):
        costs = PricedCosts(transition)
        costs_off = FunctionCosts(lambda mod, target: 1.0)
        for estimator in (costs, costs_off):
            partition(conv_relu_conv(), [conv_backend], estimator)
            counts.append(estimator.reports[0].candidates)
    assert len(set(counts)) == 1


def test_nothing_is_charged_without_an_op_that_changes_layouts(backend):
    costs = PricedCosts(5.0)
    assert len(backend_parts(partition(parse(NO_CONV), [backend], costs))) == 1
    assert costs.reports[0].seconds == pytest.approx(10 + 9 + 10)
    partition(conv_relu_conv(), [], costs)  # nor with TVM alone
    assert costs.asked == []


def test_measured_transforms_are_seconds_of_the_types_asked():
    types = [relay.TensorType((1, 16, 8, 8)), relay.TensorType((1, 3, 4, 8, 8))]
    options = collage.CollageOptions(workers=1, measure_seconds=0.01, progress="quiet")
    with tvm.transform.PassContext(opt_level=3, config=options.to_config()):
        seconds = collage.CostEstimator().transition_seconds(types, collage.host_target())
    assert len(seconds) == 2
    assert all(0 < value < math.inf for value in seconds)


class Answers:
    """An estimator whose transforms take a second, and which a clock counts."""

    def __init__(self):
        self.asked = []

    def estimate(self, candidates):
        self.asked.append([candidate.label for candidate in candidates])
        return [Cost.measured([1.0] * 6) for _ in candidates]

    def known(self, candidates):
        known = Cost.measured([2.0] * 6)
        return [known if "(1, 8, 1, 1)" in candidate.label else None for candidate in candidates]


def test_a_limit_leaves_the_smallest_transforms_unmeasured():
    """They count as free then, but for those whose cost is known; without a limit all are asked for
    at once."""
    types = [relay.TensorType([1, 8, size, size]) for size in range(1, 21)]
    host, options = collage.host_target(), collage.CollageOptions().session
    estimator = Answers()
    assert measure_transitions(Session(estimator, options), types, host) == [1.0] * 20
    assert [len(each) for each in estimator.asked] == [20]
    now = iter(range(0, 1000, 10))
    limit = TimeLimit(75, lambda: float(next(now)))  # a third of that is left for them
    seconds = measure_transitions(Session(Answers(), options, limit=limit), types, host)
    assert seconds == [2.0] + [0.0] * 3 + [1.0] * 16
    none = measure_transitions(Session(Answers(), options, limit=TimeLimit(1e-9)), types, host)
    assert none == [2.0] + [0.0] * 19
