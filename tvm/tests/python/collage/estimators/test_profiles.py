# SPDX-License-Identifier: Apache-2.0
"""Costs that profiles foresee, the search that they end, and shares learnt from costs."""

import dataclasses

import pytest
import tvm
from relay_text import HOST, make_backend, parse
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.estimators import CostEstimator
from tvm.relay.collage.estimators.calibration import CAUTIOUS, SIZES, Multiples
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.plans.run_pass import partition
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "profiled"
CHAIN = """
def @main(%x: $T) -> $T {
  %0 = nn.relu(%x);
  %1 = tanh(%0);
  nn.relu(%1)
}
"""


@pytest.fixture(scope="module")
def net():
    make_backend(NAME, [(f"{NAME}.relu", is_op("nn.relu")(wildcard()))])
    return parse(CHAIN)


class Counting(CostEstimator):
    """Every candidate takes a second; who was asked for is noted."""

    has_transitions = False

    def __init__(self, profiles=None):
        super().__init__(profiles=profiles)
        self.asked = []

    def estimate_batch(self, mods, targets, labels):
        self.asked += labels
        return [Cost.given(1.0) for _ in labels]


def planned(net, profiles):
    estimator = Counting(profiles)
    partition(net, parse_targets([HOST, NAME]), estimator)
    (report,) = estimator.reports
    return estimator, report


def everything(seconds, rival):
    """A profile of both in which each node takes so long."""
    nodes = dict.fromkeys(range(20), seconds)
    known = {NAME: alike(0.5, 1.0), "tvm": alike(0.5, 1.0)}
    return Profiles({NAME: nodes, "tvm": nodes}, known, rival_seconds=rival)


def alike(least, likely):
    """The same multiples for each size."""
    sizes = len(SIZES) + 1
    return Multiples([least] * sizes, [likely] * sizes)


def test_nothing_is_asked_for_when_no_plan_can_beat_the_rival(net):
    estimator, report = planned(net, everything(1.0, rival=1.0))
    assert estimator.asked == []
    assert report.is_beaten and not report.is_optimal
    assert report.rival_seconds == 1.0 and report.seconds >= 1.0
    assert report.lower_bound_seconds == pytest.approx(report.seconds / 2)
    assert {part.cost.status for part in report.parts if part.is_kernel} == {"estimated"}


def test_the_search_goes_on_while_a_plan_may_beat_the_rival(net):
    estimator, report = planned(net, everything(0.1, rival=100.0))
    assert estimator.asked
    assert not report.is_beaten
    assert {part.cost.status for part in report.parts if part.is_kernel} == {"measured"}


def test_without_profiles_there_is_no_rival(net):
    estimator, report = planned(net, None)
    assert estimator.asked and report.is_optimal
    assert report.rival_seconds == 0.0 and not report.is_beaten


def test_a_bound_is_a_multiple_of_the_sum_of_the_nodes():
    profiles = Profiles({NAME: {1: 2.0, 2: 3.0}, "tvm": {1: 7.0}}, {NAME: alike(0.5, 2.0)})
    targets = [tvm.target.Target(NAME), tvm.target.Target(NAME), tvm.target.Target(HOST)]
    foresight = profiles.foresee(targets, [[1, 2], [3], [1]])
    # A node without a time adds nothing, and a backend without multiples has cautious ones.
    least, likely = CAUTIOUS.of(7.0)
    assert foresight.least == [2.5, 0.0, 7.0 * least]
    assert foresight.likely == [10.0, 0.0, 7.0 * likely]


def test_a_part_takes_a_start_whatever_its_operators_took_inside_others():
    multiples = Multiples([0.5] * 6, [2.0] * 6, start=3.0)
    profiles = Profiles({NAME: {1: 0.0, 2: 2.0}, "other": {1: 0.0}}, {NAME: multiples})
    targets = [tvm.target.Target(NAME)] * 2
    foresight = profiles.foresee(targets, [[1], [1, 2]])
    assert (foresight.least, foresight.likely) == ([0.0, 1.0], [3.0, 4.0])
    learnt = multiples.learnt([(1.0, 9.0)] * 200)
    assert learnt.foreseen(0.0) == (0.0, 3.0) and learnt.foreseen(1.0) == (9.0, 9.0)


def test_costs_below_what_they_hardly_ever_are_are_counted(net):
    _, report = planned(net, everything(0.1, rival=100.0))
    assert report.below_bounds == 0
    _, report = planned(net, everything(3.0, rival=100.0))
    assert report.below_bounds == report.costs.asked > 0


def test_a_quick_plan_is_that_of_the_profiles_alone(net):
    seconds = {NAME: dict.fromkeys(range(20), 0.1), "tvm": dict.fromkeys(range(20), 3.0)}
    known = dict.fromkeys(seconds, alike(0.5, 1.0))
    profiles = Profiles(seconds, known, rival_seconds=100.0, is_final=True)
    estimator, report = planned(net, profiles)
    assert estimator.asked == [] and not report.is_beaten
    parts = [(part.backend, part.ops) for part in report.parts if part.is_kernel]
    assert parts == [(NAME, "nn.relu"), ("llvm", "tanh"), (NAME, "nn.relu")]
    assert {part.cost.status for part in report.parts if part.is_kernel} == {"estimated"}


def test_in_a_quick_plan_who_has_no_profile_gets_what_nobody_else_takes(net):
    seconds = {"tvm": dict.fromkeys(range(20), 3.0)}
    profiles = Profiles(seconds, {"tvm": alike(0.5, 1.0)}, rival_seconds=100.0, is_final=True)
    _, report = planned(net, profiles)
    assert {part.backend for part in report.parts if part.is_kernel} == {"llvm"}


def test_a_quick_plan_is_not_hopeless_for_what_only_tvm_takes(net):
    """Nobody has profiled TVM, and the tanh is its own."""
    profiles = Profiles(
        {NAME: dict.fromkeys(range(20), 0.1)}, {NAME: alike(0.5, 1.0)}, rival_seconds=100.0
    )
    profiles = dataclasses.replace(profiles, is_final=True, awaited="tvm")
    estimator, report = planned(net, profiles)
    assert estimator.asked == [] and not report.is_beaten
    parts = [(part.backend, part.ops) for part in report.parts if part.is_kernel]
    assert parts == [(NAME, "nn.relu"), ("llvm", "tanh"), (NAME, "nn.relu")]


@pytest.mark.parametrize(
    "awaited, likely",
    [
        # As quick as most are in their own runs, node by node.
        ("", [2.0, 3.0, 5.0, 0.0]),
        # As quick as most parts of those that take all; nobody takes the third node.
        (NAME, [2.0, 6.0, 8.0, 0.0]),
    ],
)
def test_a_backend_without_a_profile_is_guessed_by_most_of_the_others(awaited, likely):
    seconds = {"tvm": {1: 2.0, 2: 6.0}, "other": {2: 3.0}, "third": {2: 0.1}}
    known = {"tvm": alike(0.5, 1.0), "other": alike(0.5, 2.0), NAME: alike(0.25, 9.0)}
    known["tvm"] = Multiples([0.5] * 6, [1.0] * 6, start=1.5)  # of no node that nobody takes
    known["third"] = alike(0.5, 1.0)
    profiles = Profiles(seconds, known, awaited=awaited, late=frozenset({NAME}))
    targets = [tvm.target.Target(NAME)] * 4
    foresight = profiles.foresee(targets, [[1], [2], [1, 2], [3]])
    assert foresight.likely == likely
    assert foresight.least == [0.25 * each for each in likely]
    # One that failed may be fast where it does not.
    failed = Profiles(seconds, known).foresee(targets, [[1], [2], [1, 2], [3]])
    assert failed.likely == failed.least == [0.0] * 4
