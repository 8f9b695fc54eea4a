# SPDX-License-Identifier: Apache-2.0
"""Profiles of the first answer's libraries."""

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest
import tvm
from first_answers import KERNELS, NAME, first_of, request_of, three_operators
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.estimators.calibration import Multiples
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.time_limit import NO_LIMIT, TimeLimit
from tvm.relay.collage.measure.race.comparison import Comparison
from tvm.relay.collage.plans.graph_search.libraries import Linked
from tvm.relay.collage.plans.profiled import ASKING_SECONDS, Profiled


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
    return SimpleNamespace(
        estimator=SimpleNamespace(
            run_measuring=run_measuring, options=options, hidden=contextlib.nullcontext
        )
    )


@dataclasses.dataclass
class Builds:
    """Builds TVM alone, or nothing where that takes too long, and notes what it was asked for."""

    files: dict = dataclasses.field(default_factory=dict)
    asked: list = dataclasses.field(default_factory=list)
    limit: TimeLimit = NO_LIMIT

    def make_files(self, plans, folder):
        self.asked.append(list(plans))
        return self.files, [], {}


ONES = Multiples([1.0] * 6, [1.0] * 6)


def profiles_of(request, first, session, builds=None):
    return Profiled(request, session, first, builds or Builds()).profiles


def times(seconds, reason="", whole=2.0, on_one_thread=None):
    fields = {"seconds": seconds, "whole": whole, "reason": reason, "closed": {}}
    fields["on_one_thread"] = on_one_thread
    return Reply("ok", fields)


def test_each_library_that_tells_its_kernels_is_profiled(mod):
    first = first_of(NAME, 2.0, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({"1": 0.5}), f"{NAME}.so": times({"2": 0.25})}
    found = profiles_of(request_of(mod), first, session_of(replies))
    # That of the plan that was raced adds up to what it took there.
    assert found.seconds == {"tvm": {1: 0.5}, NAME: {2: 2.0}}
    assert (found.rival, found.rival_seconds, found.is_final) == (NAME, 2.0, False)


@pytest.mark.parametrize(
    "on_one_thread, whole, is_built",
    [
        (1.3e-3, 2e-3, False),  # far behind the best plan
        (1.2e-3, 2e-3, True),
        (1.2e-3, 0.9e-3, False),  # far behind its own on all threads
        (None, 2e-3, True),
        (1.2e-3, 0.0, True),  # that is no measure
    ],
)
def test_tvm_alone_is_not_built_for_one_thread_where_its_library_is_slow_there(
    mod, on_one_thread, whole, is_built
):
    first = first_of(NAME, 1e-3, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({"1": 0.5}, whole=whole, on_one_thread=on_one_thread)}
    replies[f"{NAME}.so"] = times({"2": 0.25}, whole=1e-3)
    session = session_of(replies)
    request = request_of(mod)
    found = Profiled(request, session, first, Builds()).first
    assert ("tvm" not in found.never_on_one_thread()) == is_built


@pytest.mark.parametrize("seconds, is_small", [(1.9e-3, True), (2.1e-3, False)])
def test_small_nets_are_timed_on_one_thread_too(mod, seconds, is_small):
    asked = []

    def run_measuring(job):
        asked.append(job.arguments["arguments"]["is_small"])
        return times({"1": 0.5}), lambda cost: cost

    session = session_of({})
    session.estimator.run_measuring = run_measuring
    first = first_of(NAME, seconds, files=["tvm", NAME], raced=[NAME])
    profiles_of(request_of(mod), first, session)
    assert asked == [is_small] * 2


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


def foreseen(profiled, *backends, sharply=False):
    """What is foreseen of the three operators together on each backend."""
    targets = [tvm.target.Target(name) for name in backends]
    return profiled.foresee(targets, [[1, 2, 3]] * len(backends), sharply)


def test_tvm_alone_is_built_once_the_search_wants_to_know_more(mod, tmp_path):
    first = dataclasses.replace(
        first_of(NAME, 2.0, files=[NAME], raced=[NAME]), folder=str(tmp_path)
    )
    built = Builds(files={"tvm": Linked("tvm.so", "", KERNELS)})
    replies = {"tvm.so": times({"1": 3.0, "3": 4.0}), f"{NAME}.so": times({"1": 0.5, "2": 1.5})}
    profiled = Profiled(
        request_of(mod), session_of(replies), first, built, {"tvm": ONES, NAME: ONES}
    )
    done = []
    profiled.when_sharp(lambda: done.append(profiled.profiles.seconds.keys()))
    rough = foreseen(profiled, "llvm", NAME)
    # Until then it is as quick as the others are, which the report does not tell of.
    assert (rough.likely, rough.is_rough) == ([2.0, 2.0], True)
    assert built.asked == [] and list(profiled.profiles.seconds) == [NAME]
    for _ in range(2):
        sharp = foreseen(profiled, "llvm", NAME, sharply=True)
        assert (sharp.likely, sharp.is_rough) == ([7.0, 2.0], False)
    assert built.asked == [["tvm"]] and done == [{NAME, "tvm"}]
    assert list(profiled.first.files) == [NAME, "tvm"], "the guard has it"
    alone = profiled.without_rival().foresee([tvm.target.Target(NAME)], [[1, 2, 3]], False)
    assert (sharp.rival_seconds, alone.rival_seconds, alone.likely) == (2.0, 0.0, [2.0])
    assert sharp.asking_seconds == ASKING_SECONDS


def test_a_tvm_alone_that_takes_too_long_leaves_its_costs_a_guess(mod, tmp_path):
    first = dataclasses.replace(
        first_of(NAME, 2.0, files=[NAME], raced=[NAME]), folder=str(tmp_path)
    )
    cost = Cost.failed("unknown", "its build takes longer than those of others")
    first.raced.comparisons.append(Comparison("tvm", cost))
    replies = {f"{NAME}.so": times({"1": 0.5, "2": 1.5})}
    profiled = Profiled(request_of(mod), session_of(replies), first, Builds(), {NAME: ONES})
    sharp = foreseen(profiled, "llvm", NAME, sharply=True)
    assert (sharp.likely, sharp.is_rough) == ([2.0, 2.0], False)
    assert list(profiled.first.files) == [NAME]


def test_tvm_alone_is_built_at_once_for_a_small_net(mod, tmp_path):
    first = first_of(NAME, 1e-3, files=[NAME], raced=[NAME])
    first = dataclasses.replace(first, folder=str(tmp_path))
    built = Builds(files={"tvm": Linked("tvm.so", "", KERNELS)})
    replies = {"tvm.so": times({"1": 3.0}), f"{NAME}.so": times({"1": 0.5})}
    profiled = Profiled(request_of(mod), session_of(replies), first, built)
    assert built.asked == [["tvm"]] and set(profiled.profiles.seconds) == {NAME, "tvm"}
    assert not foreseen(profiled, NAME).is_rough


def test_a_profile_of_tvm_that_failed_is_not_asked_for_again(mod):
    first = first_of(NAME, 2.0, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({}, "it has no steps"), f"{NAME}.so": times({"1": 0.5})}
    built = Builds()
    profiled = Profiled(request_of(mod), session_of(replies), first, built)
    assert not foreseen(profiled, NAME).is_rough and built.asked == []


def test_where_no_library_has_a_profile_that_of_tvm_alone_will_do(mod, tmp_path):
    first = first_of(NAME, 2.0, files=[NAME], raced=[NAME])
    first = dataclasses.replace(first, folder=str(tmp_path))
    built = Builds(files={"tvm": Linked("tvm.so", "", KERNELS)})
    replies = {"tvm.so": times({"1": 3.0}), f"{NAME}.so": times({}, "it has no steps")}
    found = Profiled(request_of(mod), session_of(replies), first, built).profiles
    assert found.seconds == {"tvm": {1: 3.0}} and not found.awaited


def test_tvm_alone_that_is_there_is_profiled_at_once(mod):
    first = first_of(NAME, 2.0, files=["tvm", NAME], raced=[NAME])
    replies = {"tvm.so": times({"1": 3.0}), f"{NAME}.so": times({"1": 0.5})}
    built = Builds()
    profiled = Profiled(
        request_of(mod), session_of(replies), first, built, {"tvm": ONES, NAME: ONES}
    )
    assert foreseen(profiled, "llvm").likely == [3.0]
    assert foreseen(profiled, "llvm", sharply=True).likely == [3.0] and built.asked == []


def test_a_quick_plan_does_not_wait_for_tvms_kernels(mod):
    """They take what nobody else can."""
    first = first_of(NAME, 2.0, files=[NAME], raced=[NAME])
    built = Builds()
    session = session_of({f"{NAME}.so": times({"2": 0.25})})
    profiled = Profiled(request_of(mod, "quick"), session, first, built)
    found = foreseen(profiled, "llvm", NAME)
    assert built.asked == [] and found.is_final
    assert found.likely[0] > 5 * found.likely[1] > 0


def test_nothing_is_profiled_when_the_time_for_it_is_over(mod):
    first = first_of(NAME, 2.0, files=["tvm"], raced=[NAME])
    request = request_of(mod, limit=TimeLimit(1e-9))
    assert profiles_of(request, first, session_of({})) is None
