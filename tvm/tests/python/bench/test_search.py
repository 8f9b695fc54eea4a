# SPDX-License-Identifier: Apache-2.0
"""bench/search.py: what it prints adds up, and what must not be is a fault."""

import copy
import json
import subprocess
import sys

import models
import pytest
import search
from search_sides import PeakMemory


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One net of a hundred nodes, without the prototype: (exit code, text, results)."""
    output = tmp_path_factory.mktemp("bench") / "search.json"
    command = [sys.executable, search.__file__, "--nets", "inception:100", "--depths", "4"]
    command += ["--rounds", "1", "--no-stock", "--output", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, done.stdout, json.loads(output.read_text())


@pytest.mark.slow("the benchmark's whole way")
def test_the_phases_add_up_to_the_whole_pass(run):
    code, text, [result] = run
    assert code == 0 and "FAULT" not in text
    for side in search.SIDES:
        [row] = result["runs"][side]
        assert set(row["phases"]) == set(search.PHASES)
        for phases, key in (("phases", "seconds"), ("cpu_phases", "cpu_seconds")):
            assert sum(row[phases].values()) == pytest.approx(row[key])
            assert row["plan_" + key] == pytest.approx(row[key] - row[phases]["rewrite"])
            # What no phase tells is little of it, even where Python first loads things.
            assert row[phases]["other"] > -0.01
        assert row["optimal"] and row["nodes"] > 90


@pytest.mark.slow("the benchmark's whole way")
def test_random_costs_make_the_search_work(run):
    _, _, [result] = run
    [mock], [random] = result["runs"]["dnnl"], result["runs"]["random"]
    assert random["states"] > 2 * mock["states"]


@pytest.mark.slow("the benchmark's whole way")
@pytest.mark.parametrize(
    "change, fault",
    [
        ({"optimal": False}, "not proven optimal"),
        ({"limit": "3 cut by max_states_per_position"}, "max_states_per_position"),
        ({"cuts": ["rule A: limit max_candidates_per_node cut 1"]}, "max_candidates_per_node"),
        ({"plan_seconds": 0.5}, "0.500 s from module to plan"),
    ],
)
def test_faults(run, change, fault):
    result = {**copy.deepcopy(run[2][0]), "net": "resnet50"}
    for side in search.SIDES:
        result["runs"][side][0]["plan_seconds"] = 0.1
    assert search.faults(result, allow_slow=False) == []
    result["runs"]["random"][0].update(change)
    [line] = search.faults(result, allow_slow=False)
    assert line.startswith("resnet50, depth 4, random: ") and fault in line
    assert search.faults(result, allow_slow=True) == ([] if "plan_seconds" in change else [line])


@pytest.mark.slow("the benchmark's whole way")
def test_max_depth_may_cut_and_a_synthetic_net_may_take_long(run):
    result = copy.deepcopy(run[2][0])
    row = result["runs"]["dnnl"][0]
    row.update(plan_seconds=9.0, cuts=["rule Combine: limit max_depth cut 7"])
    assert search.faults(result, allow_slow=False) == []


def test_memory_that_was_freed_before_does_not_hide_the_peak():
    blocks = [bytearray(1 << 16) for _ in range(1024)]  # 64 MB, in pieces that the heap keeps
    del blocks
    peak = PeakMemory()
    blocks = [bytearray(b"x") * (1 << 16) for _ in range(512)]
    del blocks
    assert 25 < peak.megabytes() < 60


def test_the_nets_are_those_of_the_benchmarks():
    nets = [*search.PUBLISHED.split(","), *search.WIDEST.split(",")]
    assert set(nets) <= set(models.NETS)
    assert all(models.NETS[name].parameters for name in search.PUBLISHED.split(","))
