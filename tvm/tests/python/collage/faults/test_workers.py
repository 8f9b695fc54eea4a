# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed, and candidates that hang, crash, eat memory, babble or answer nonsense:
a search on the fake device ends well, with the plan that it has without them, and names each."""

import os
import random
import signal
from pathlib import Path

import pytest
from fault_runs import Run, Searches, is_gone, stored, wait_until


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    searches = Searches(tmp_path_factory.mktemp("searches"))
    yield searches
    searches.close()


def plan_of(searches, name, **how):
    run = Run(searches, store=str(searches.folder / name), **how)
    assert run.end() == 0
    assert list(searches.temporary.iterdir()) == [], "no temporary file is left"
    return run, searches.plan()


def is_stopped(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        return False


def test_kill_9_of_workers_in_builds_and_measurements(searches):
    _, undisturbed = plan_of(searches, "undisturbed")
    generator = random.Random(0)
    run = Run(searches, store=str(searches.folder / "killed"), pause="1")
    done, seen, killed = 0, set(), set()
    kills = {"build": 0, "begin": 0, "end": 0}
    while run.wait_for(done + 1):
        kind, key, pid = run.events[done]
        done += 1
        assert wait_until(lambda pid=pid: is_stopped(pid) or is_gone(pid))
        # A second death would be the candidate's own: one for each of its steps.
        step = ("build" if kind == "build" else "run", key)
        if step not in killed and (kind, key) not in seen and generator.random() < 0.5:
            killed.add(step)
            kills[kind] += 1
            os.kill(int(pid), signal.SIGKILL)
        elif not is_gone(pid):
            os.kill(int(pid), signal.SIGCONT)
        seen.add((kind, key))
    assert run.end() == 0
    assert min(kills.values()) > 0 and sum(kills.values()) > 10, kills
    assert searches.plan() == undisturbed
    assert stored(searches.folder / "killed") == stored(searches.folder / "undisturbed")


# One of each kind: measure/test_measured.py has the rest.
FAULTS = {
    ("build", "hang"): ("timeout", "build: no answer within its time limit"),
    ("build", "segfault"): ("crashed", "build: killed by SIGSEGV"),
    ("build", "exit"): ("crashed", "build: exited with code 0"),
    ("build", "eat"): ("machine_fault", "GB of memory, more than its limit of 1.50 GB"),
    ("build", "raise"): ("compile_failed", "build: ValueError: no kernel for this"),
    ("build", "unsupported"): ("unsupported", "build: Unsupported: dynamic shape"),
    ("build", "forge half a line"): ("crashed", "it wrote over the worker's reply channel"),
    ("run", "hang_with_child"): ("timeout", "run: no answer within its time limit"),
    ("run", "segfault"): ("crashed", "run: killed by SIGSEGV"),
    ("run", "eat"): ("machine_fault", "GB of memory, more than its limit of 1.50 GB"),
    ("run", "raise"): ("run_failed", "run: ValueError: no kernel for this"),
    ("run", "nan"): ("run_failed", "timings that are no positive seconds: [nan"),
    ("run", "forge other request"): ("crashed", "it wrote over the worker's reply channel"),
    ("run", "garbage"): None,  # no fault: what is printed goes nowhere
}
# What takes its time is done by one candidate alone.
SLOW = {
    "hang": {"backends": ["fake_pairs"], "build_timeout": 3.0, "run_timeout": 3.0},
    "eat": {"backends": ["fake_pairs"], "memory_limit_bytes": 1_500_000_000},
}
SLOW["hang_with_child"] = SLOW["hang"]


@pytest.fixture(scope="module")
def without(searches):
    """The plan when the backend has nothing to offer."""
    return plan_of(searches, "without", backends=["fake_nothing"])[1]


@pytest.mark.parametrize("fault", FAULTS, ids=" ".join)
def test_a_backend_at_fault_is_named_and_the_plan_is_the_one_without_it(searches, without, fault):
    step, deed = fault
    how = SLOW.get(deed, {})
    run, plan = plan_of(searches, f"{step} {deed}", faults={step: deed}, **how)
    assert not without["failed"] and {part["backend"] for part in without["parts"]} == {"llvm"}
    if deed != "garbage":
        assert (plan["module"], plan["parts"]) == (without["module"], without["parts"])
    named = {(part["backend"], part["ops"]): part["cost"] for part in plan["failed"]}
    if FAULTS[fault] is None:
        assert not named
        return
    status, message = FAULTS[fault]
    tried = {key for key in run.keys("build") if key.startswith("fake_")}
    assert len(named) == len(tried) > 0 and all(backend.startswith("fake_") for backend, _ in named)
    for cost in named.values():
        assert cost["status"] == status and message in cost["message"]
