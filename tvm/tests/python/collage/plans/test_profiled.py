# SPDX-License-Identifier: Apache-2.0
"""Profiles of the first answer's libraries."""

from types import SimpleNamespace

import pytest
from first_answers import NAME, first_of, request_of, three_operators
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.time_limit import TimeLimit
from tvm.relay.collage.plans.profiled import profiles_of


@pytest.fixture(scope="module")
def mod():
    return three_operators()


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


def test_a_plan_of_profiles_alone_needs_those_of_tvm(mod):
    first = first_of(NAME, 2.0, files=[NAME], raced=[NAME])
    replies = {f"{NAME}.so": times({"2": 0.25})}
    assert profiles_of(request_of(mod, "quick"), first, session_of(replies)) is None
    assert profiles_of(request_of(mod), first, session_of(replies)) is not None


def test_nothing_is_profiled_when_the_time_for_it_is_over(mod):
    first = first_of(NAME, 2.0, files=["tvm"], raced=[NAME])
    request = request_of(mod, limit=TimeLimit(1e-9))
    assert profiles_of(request, first, session_of({})) is None
