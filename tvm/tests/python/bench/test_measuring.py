# SPDX-License-Identifier: Apache-2.0
"""bench/measuring.py: its phases add up, a warm search measures nothing, slow ones are faults."""

import copy
import json
import os
import subprocess
import sys

import measuring
import pytest

# A sitecustomize.py: nothing tells of a load.
QUIET = """
import builtins, os
os.getloadavg = lambda: (0.0, 0.0, 0.0)
real_open = builtins.open
def open_but_for_counters(file, *more, **named):
    if file == "/proc/stat":
        raise OSError("no counters")
    return real_open(file, *more, **named)
builtins.open = open_but_for_counters
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A net of one layer, cold, warm and replayed: (text, runs)."""
    output = tmp_path_factory.mktemp("bench") / "measuring.json"
    command = [sys.executable, measuring.__file__, "--nets", "chain:3", "--guard", "off"]
    command += ["--allow-slow", "--measure-seconds", "0.01", "--output", output]
    # Costs of a busy machine would be measured again by the warm search.
    quiet = output.with_name("sitecustomize.py")
    quiet.write_text(QUIET)
    folders = os.pathsep.join(filter(None, [str(quiet.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": folders}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, json.loads(output.read_text())


@pytest.mark.slow("the benchmark's whole way")
def test_the_phases_add_up_and_the_workers_are_told_apart(run):
    text, [cold, warm, replay] = run
    assert [item["kind"] for item in (cold, warm, replay)] == ["cold", "warm", "replay"]
    for item in (cold, warm, replay):
        for k in (0, 1):
            assert sum(pair[k] for pair in item["phases"].values()) == pytest.approx(
                item["seconds"][k]
            )
    for item in (cold, warm):
        assert {"prepare", "search", "store", "candidate text", "other"} <= set(item["phases"])
    assert {"prepare", "replay", "other"} == set(replay["phases"]) and replay["is_same"]
    assert {"worker start", "build", "measure"} <= set(cold["phases"])
    assert {"call/compile", "call/export", "call/time"} <= set(cold["workers"])
    assert "in workers" in text and "together" in text


@pytest.mark.slow("the benchmark's whole way")
def test_a_warm_search_starts_no_worker_and_finds_the_same_plan(run):
    _, [cold, warm, _] = run
    assert cold["answered"]["measured"] >= cold["costs"]["asked"] > 0
    assert warm["answered"] == {
        "measured": 0,
        "store": cold["answered"]["measured"],
        "memory": cold["answered"]["memory"],
    }
    assert warm["workers"] == {}
    assert "worker start" not in warm["phases"]
    assert warm["costs"] == cold["costs"] and warm["plan"] == cold["plan"] == "collage"


@pytest.mark.slow("the benchmark's whole way")
def test_what_a_row_says(run):
    text, [cold, *_] = run
    costs = cold["costs"]
    assert f"asked for {costs['asked']} of {costs['distinct']} distinct candidates" in text
    assert costs["asked"] + costs["never_needed"] == costs["distinct"] <= costs["candidates"]


@pytest.mark.slow("the benchmark's whole way")
@pytest.mark.parametrize("kind, limit", measuring.LIMITS.items())
def test_a_slow_search_is_a_fault_with_the_guard_off_only(run, kind, limit):
    runs = copy.deepcopy(run[1])
    for item in runs:
        item["seconds"][0] = 1.0
    assert measuring.faults(runs) == []
    [slow] = [item for item in runs if item["kind"] == kind]
    slow["seconds"][0] = limit
    assert measuring.faults(runs) == [f"chain:3, {kind}: {limit:.1f} s"]
    assert measuring.faults(runs, allow_slow=True) == []
    for other in ({"guard": True}, {"backends": "dnnl,cblas"}):
        assert measuring.faults([item | other for item in runs]) == [], "no limit"


def test_a_small_net_is_replayed_equal_without_measuring(tmp_path, capfd):
    """By a plan of made-up costs; another module would be a fault on any machine."""
    output = tmp_path / "measuring.json"
    arguments = ["--nets", "chain:12", "--made-up", "--allow-slow", "--output", str(output)]
    arguments += ["--backends", "dnnl,cblas"]
    assert measuring.main(arguments) == 0
    made_up, replay = json.loads(output.read_text())
    assert [made_up["kind"], replay["kind"]] == ["made-up", "replay"]
    assert made_up["workers"] == {} and made_up["answered"]["measured"] == 0
    assert (
        "chain:12 with dnnl,cblas replay guard off" in capfd.readouterr().out and replay["is_same"]
    )
    others = [made_up, replay | {"is_same": False}]
    assert measuring.faults(others, allow_slow=True) == [
        "chain:12 with dnnl,cblas replay guard off: another module"
    ]


def test_a_decision_that_is_used_again_has_a_limit_and_one_made_anew_has_none():
    run = {"net": "chain:3", "kind": "again", "backends": "dnnl", "guard": True, "plan": "dnnl"}
    run |= {"seconds": [6.0, 1.0], "is_reused": True}
    assert measuring.row(run).endswith("plan dnnl, as decided")
    assert measuring.faults([run]) == ["chain:3, again: 6.0 s"]
    assert measuring.faults([run], allow_slow=True) == []
    for other in ({"is_reused": False}, {"backends": "dnnl,cblas"}, {"seconds": [4.0, 1.0]}):
        assert measuring.faults([run | other]) == []
    assert "decided anew" in measuring.row(run | {"is_reused": False})


def test_rows_of_the_table():
    """What the pass's phase "estimate" spends in Python is told apart, and nothing is lost."""
    phases = {
        "prepare": [1.0, 1.0],
        "partition": [5.0, 2.0],
        "partition/build": [10.0, 0.1],
        "partition/build/worker start": [2.0, 0.1],
        "partition/store": [1.0, 0.5],
        "partition/measure/store": [1.0, 0.5],
        "guard": [4.0, 0.1],
        "guard/build": [3.0, 3.0],
        "guard/worker start": [2.0, 0.1],
        "other": [0.5, 0.5],
    }
    of_pass = {"estimate": [16.0, 2.2], "search": [1.0, 0.5], "import": [1.0, 0.4]}
    rows = measuring.by_phase(phases, of_pass)
    assert rows == {
        "prepare": [1.0, 1.0],
        "search": [1.0, 0.5],
        "graph": [1.0, 0.4],
        "candidate modules": pytest.approx([2.0, 1.0]),
        "build": [10.0, 0.1],
        "worker start": [2.0, 0.1],
        "store": [2.0, 1.0],
        "guard measure": [4.0, 0.1],
        "guard build": [3.0, 3.0],
        "guard worker start": [2.0, 0.1],
        "other": pytest.approx([1.5, 0.6]),
    }
