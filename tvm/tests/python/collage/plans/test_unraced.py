# SPDX-License-Identifier: Apache-2.0
"""Plans of one backend alone that are not built: what says that they cannot ship, and what not."""

import dataclasses
from types import SimpleNamespace

import pytest
from first_answers import NAME, first_of, request_of, three_operators
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.measure.race.comparison import Comparison
from tvm.relay.collage.plans.request import OpLevel
from tvm.relay.collage.plans.unraced import beaten_plans, slow_plans
from tvm.relay.collage.relay_util.node_spans import node_of
from tvm.relay.collage.relay_util.walk import operator_calls


@pytest.fixture(scope="module")
def mod():
    return three_operators()


@pytest.mark.parametrize(
    "of_tvm, slow",
    [
        ([1.0, 9.0, 1.0], {"tvm", NAME}),
        # Of the backend's plan TVM runs what the backend does not take.
        ([0.5, 9.0, 0.5], {"tvm"}),
        ([0.1, 0.1, 0.1], set()),
        ([], set()),
    ],
)
def test_plans_whose_kernels_of_tvm_take_longer_than_the_best_are_slow(mod, of_tvm, slow):
    nodes = map(node_of, operator_calls(mod["main"]))
    profiles = Profiles({"tvm": dict(zip(nodes, of_tvm))}, {}, rival_seconds=1.0)
    found = slow_plans(request_of(mod), first_of("other", 1.0, raced=["other"]), profiles)
    assert set(found) == slow
    assert all(item.cost.status == "estimated" and not item.samples for item in found.values())


def test_who_was_raced_is_known_and_not_foreseen(mod):
    profiles = Profiles({"tvm": {1: 9.0}}, {}, rival_seconds=1.0)
    first = first_of(NAME, 1.0, raced=[NAME, "tvm"])
    assert slow_plans(request_of(mod), first, profiles) == {}


def test_who_was_wrong_in_the_race_is_not_told_as_slow(mod):
    profiles = Profiles({"tvm": dict.fromkeys(range(9), 9.0)}, {}, rival_seconds=1.0)
    first = first_of("other", 1.0, raced=["other"])
    wrong = Comparison(NAME, Cost.failed("wrong_result", "off by 0.5"))
    first.raced.comparisons.append(wrong)
    assert set(slow_plans(request_of(mod), first, profiles)) == {"tvm"}


def search_of(mod, *are_beaten):
    """The outcome of a search whose functions were beaten so, and one that is skipped."""
    searched = [SimpleNamespace(skipped="", is_beaten=is_beaten) for is_beaten in are_beaten]
    return OpLevel(mod, None, [*searched, SimpleNamespace(skipped="no operators")])


def test_a_search_that_no_plan_of_wins_spares_those_of_one_backend_too(mod):
    first = first_of("other", 1.0, raced=["other"])
    found = beaten_plans(request_of(mod), first, search_of(mod, True))
    assert set(found) == {"tvm", NAME}
    assert found[NAME].cost.status == "unknown" and "faster than other" in found[NAME].cost.message
    # The guard has these rows as they are, and does not build their plans.
    request = request_of(mod)
    behind = first.without(found).far_behind(request.plans.modules)
    assert behind == found


@pytest.mark.parametrize("are_beaten", [(), (False,), (True, False)])
def test_while_a_plan_may_win_all_are_built_unless_costs_were_foreseen(mod, are_beaten):
    first = first_of("other", 1.0, raced=["other"])
    found = search_of(mod, *are_beaten)
    assert beaten_plans(request_of(mod), first, found) == {}
    foreseen = dataclasses.replace(found, profiles=Profiles({}, {}))
    told = beaten_plans(request_of(mod), first, foreseen)
    assert set(told) == {"tvm", NAME} and "another plan is faster" in told[NAME].cost.message


def test_a_plan_that_the_search_has_found_again_is_compared(mod):
    request = request_of(mod)
    request.plans.modules["collage"] = request.plans.modules[NAME]
    first = first_of("other", 1.0, raced=["other"])
    foreseen = dataclasses.replace(search_of(mod, False), profiles=Profiles({}, {}))
    assert set(beaten_plans(request, first, foreseen)) == {"tvm"}


def test_unraced_plans_that_are_equal_to_each_other_alone_are_not_built(mod):
    request = request_of(mod)
    request.plans.modules[NAME] = request.plans.modules["tvm"]
    first = first_of("other", 1.0, raced=["other"])
    assert set(beaten_plans(request, first, search_of(mod, True))) == {"tvm", NAME}


def test_in_a_small_net_tvm_alone_is_compared_if_it_is_built(mod):
    for seconds, files, told in ((1e-3, ["tvm"], {NAME}), (1e-3, [], {"tvm", NAME})):
        first = first_of("other", seconds, files=files, raced=["other"])
        assert set(beaten_plans(request_of(mod), first, search_of(mod, True))) == told
        profiles = Profiles({"tvm": {1: 9.0}}, {}, rival_seconds=seconds)
        assert ("tvm" in slow_plans(request_of(mod), first, profiles)) == ("tvm" in told)


def test_whoever_was_raced_is_compared_again(mod):
    first = first_of(NAME, 1.0, raced=[NAME, "tvm"])
    assert beaten_plans(request_of(mod), first, search_of(mod, True)) == {}
