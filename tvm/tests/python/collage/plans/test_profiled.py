# SPDX-License-Identifier: Apache-2.0
"""Profiles of the first answer's libraries, and plans that they show to be too slow."""

from types import SimpleNamespace

import pytest
from relay_text import HOST, make_backend, parse
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.costs.statistics import Interval
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.time_limit import NO_LIMIT, TimeLimit
from tvm.relay.collage.measure.race.comparison import Comparison
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.first_answer import FirstAnswer
from tvm.relay.collage.plans.graph_search import GuardResult
from tvm.relay.collage.plans.graph_search.libraries import Linked
from tvm.relay.collage.plans.profiled import profiles_of, slow_plans
from tvm.relay.collage.plans.request import Phases
from tvm.relay.collage.relay_util.node_spans import node_of, stamp_nodes
from tvm.relay.collage.relay_util.walk import operator_calls
from tvm.relay.dataflow_pattern import is_op, wildcard

NAME = "profiledplan"
KERNELS = [{"symbol": "", "backend": "tvm", "nodes": [1]}]


@pytest.fixture(scope="module")
def mod():
    make_backend(NAME, [(f"{NAME}.tanh", is_op("tanh")(wildcard()))])
    mod = parse("def @main(%x: $T) -> $T { %0 = nn.relu(%x); %1 = tanh(%0); exp(%1) }")
    return stamp_nodes(mod)


def request_of(mod, effort="normal", limit=NO_LIMIT):
    targets = parse_targets([HOST, NAME])
    plans = Plans(mod, targets)
    plans.add_single_backends()
    options = CollageOptions(effort=effort, progress="quiet")
    return SimpleNamespace(
        prepared=mod,
        targets=targets,
        plans=plans,
        options=options,
        clock=Phases(),
        limit=limit,
    )


def first_of(best, seconds, *, files=(), raced=()):
    ones = Interval(1.0, 1.0, 1.0)
    rows = [Comparison(name, Cost.given(seconds), ones, samples=(seconds,) * 4) for name in raced]
    raced = GuardResult(rows, best, {}) if best else None
    return FirstAnswer(
        files={name: Linked(f"{name}.so", "", KERNELS) for name in files}, raced=raced
    )


def session_of(replies):
    """A session whose worker answers so by the library's file."""
    asked = []

    def run_measuring(job):
        asked.append(job.arguments["arguments"])
        return replies[asked[-1]["library"]], lambda cost: cost

    options = SimpleNamespace(seed=0)
    return SimpleNamespace(estimator=SimpleNamespace(run_measuring=run_measuring, options=options))


def times(seconds, reason="", whole=2.0):
    fields = {"seconds": seconds, "whole": whole, "reason": reason, "closed": {}}
    return Reply("ok", fields)


def test_each_library_that_tells_its_kernels_is_profiled(mod):
    first = first_of(NAME, 2.0, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({"1": 0.5}), f"{NAME}.so": times({"2": 0.25})}
    found = profiles_of(request_of(mod), first, session_of(replies))
    # That of the plan that was raced adds up to what it took there.
    assert found.seconds == {"tvm": {1: 0.5}, NAME: {2: 2.0}}
    assert (found.rival, found.rival_seconds, found.is_final) == (NAME, 2.0, False)


def test_a_race_in_a_slow_moment_tells_ratios_alone(mod, caplog):
    caplog.set_level("INFO")
    first = first_of(NAME, 4.0, files=[NAME], raced=[NAME])
    found = profiles_of(
        request_of(mod), first, session_of({f"{NAME}.so": times({"2": 0.25}, whole=2.0)})
    )
    assert (found.seconds, found.rival_seconds) == ({NAME: {2: 2.0}}, 2.0)
    assert "its plans take 0.50 of its time" in caplog.text


@pytest.mark.parametrize("whole", [4.0, 0.0])  # 0.0: it took no longer than steps that run nothing
def test_a_profile_in_a_slow_moment_leaves_the_race_as_it_was(mod, whole):
    first = first_of(NAME, 2.0, files=[NAME], raced=[NAME])
    replies = {f"{NAME}.so": times({"2": 0.25}, whole=whole)}
    found = profiles_of(request_of(mod), first, session_of(replies))
    assert (found.seconds, found.rival_seconds) == ({NAME: {2: 2.0}}, 2.0)


def test_quick_has_nothing_else(mod):
    first = first_of(NAME, 2.0, files=["tvm"], raced=[NAME])
    replies = {"tvm.so": times({"1": 0.5})}
    assert profiles_of(request_of(mod, "quick"), first, session_of(replies)).is_final


@pytest.mark.parametrize(
    "reply", [times({}, "it has no steps"), Reply("died", message="signal 11")]
)
def test_a_profile_that_fails_is_none(mod, caplog, reply):
    first = first_of(NAME, 2.0, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({"1": 0.5}), f"{NAME}.so": reply}
    found = profiles_of(request_of(mod), first, session_of(replies))
    assert list(found.seconds) == ["tvm"]
    assert f"no profile of {NAME}" in caplog.text


@pytest.mark.parametrize(
    "first", [first_of("", 0.0, files=["tvm"]), first_of(NAME, 1.0, raced=[NAME])]
)
def test_without_a_plan_to_beat_or_a_library_nothing_is_profiled(mod, first):
    assert profiles_of(request_of(mod), first, session_of({})) is None


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


def test_a_plan_of_profiles_alone_needs_those_of_tvm(mod):
    first = first_of(NAME, 2.0, files=[NAME], raced=[NAME])
    replies = {f"{NAME}.so": times({"2": 0.25})}
    assert profiles_of(request_of(mod, "quick"), first, session_of(replies)) is None
    assert profiles_of(request_of(mod), first, session_of(replies)) is not None


def test_nothing_is_profiled_when_the_time_for_it_is_over(mod):
    first = first_of(NAME, 2.0, files=["tvm"], raced=[NAME])
    request = request_of(mod, limit=TimeLimit(1e-9))
    assert profiles_of(request, first, session_of({})) is None
