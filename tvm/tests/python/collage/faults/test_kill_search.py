# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a whole search, at random points, and its resumption: on a fake deterministic device
the plan comes out the same, and at most the measurement under way is lost."""

import collections
import random
import signal
import time

import pytest
from fault_runs import Run, Searches, stored


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    searches = Searches(tmp_path_factory.mktemp("searches"))
    yield searches
    searches.close()


@pytest.fixture(scope="module")
def undisturbed(searches):
    """The run that nobody kills, its plan, and its seconds before, between and after events."""
    began = time.monotonic()
    run = Run(searches, store=str(searches.folder / "undisturbed"))
    run.wait_for(1)
    first = time.monotonic()
    assert run.end() == 0
    ended = time.monotonic()
    return run, searches.plan(), (first - began, (ended - first) / 20)


def test_the_device_measures_and_fails(undisturbed):
    run, plan, _ = undisturbed
    begun, ended = run.keys("begin"), run.keys("end")
    assert len(set(ended)) == len(ended) > 15 and set(ended) < set(begun) < set(run.keys("build"))
    assert len({part["backend"] for part in plan["parts"]}) > 1
    failed = {(part["backend"], part["ops"], part["cost"]["status"]) for part in plan["failed"]}
    assert failed == {
        ("fake_calls", "nn.conv2d", "compile_failed"),
        ("fake_calls", "sigmoid", "crashed"),
    }
    crashed = collections.Counter(begun) - collections.Counter(ended)
    assert set(crashed.values()) == {2}, "what kills its worker is tried twice"


def kill_and_resume(searches, undisturbed, generator, name, points, **how):
    """Searches with one store, each killed after as many events as `points` says, unless it ends
    before; the last one is not killed. How many were."""
    usual, plan, (before, between) = undisturbed
    path, killed = searches.folder / name, 0
    while True:
        known = stored(path)
        run = Run(searches, store=str(path), **how)
        at = next(points, None)
        if at is not None and run.wait_for(at):
            time.sleep(generator.random() * (between if at else before))
            run.kill()
        status = run.end()
        kept = stored(path)
        assert known <= kept, "what is committed stays"
        assert not known & set(run.keys("build") + run.keys("begin")), "it is not measured again"
        assert len(set(run.keys("end")) - kept) <= 1, "one measurement is lost at most"
        assert max(collections.Counter(run.keys("end")).values(), default=1) == 1
        if status == 0:
            assert searches.plan() == plan
            assert kept == stored(searches.folder / "undisturbed")
            assert list(searches.temporary.iterdir()) == [], "what killed ones left is removed"
            return killed
        assert status == -signal.SIGKILL
        killed += 1


@pytest.mark.parametrize(
    "kills", [6, pytest.param(90, marks=pytest.mark.slow("90 killed searches, not 6"))]
)
def test_kill_9_at_random_points_and_resume(searches, undisturbed, kills):
    generator = random.Random(kills)
    killed = chains = 0
    while killed < kills:
        points = [generator.randrange(len(undisturbed[0].events)) for _ in range(kills - killed)]
        name = f"chain {chains} of {kills}"
        killed += kill_and_resume(searches, undisturbed, generator, name, iter(points))
        chains += 1
    assert killed == kills


@pytest.mark.slow("real workers take two seconds of CPU each to start")
def test_kill_9_with_real_worker_processes(searches, undisturbed):
    points = iter([8])
    generator = random.Random(1)
    how = {"forked": False, "workers": 1}
    assert kill_and_resume(searches, undisturbed, generator, "r", points, **how) == 1
