# SPDX-License-Identifier: Apache-2.0
"""The benchmark of deployment: a net wherever it runs, neighbours, what it says and refuses."""

import json
import os
import shutil
import signal
import time
import types
from pathlib import Path

import deploy
import models
import numpy as np
import onnx
import pytest
from harness import neighbour, served
from harness.build import Built
from harness.sides import Files
from models.graph import Graph
from onednn_nets import build
from tvm import relay
from tvm.relay.collage.backends import greedy_partition
from tvm.relay.collage.measure import Comparison, Contestant, Cost


def small_model(batch=1):
    g = Graph("small")
    x = g.relu(g.conv(g.input("x", (batch, 3, 8, 8)), 4, 3))
    return g.model(g.classify(g.pool("Max", x, 2, 2), 5))


def build_with_dnnl(side, model, folder, threads, **options):
    """What Collage would do by measuring."""
    mod, params = models.to_relay(onnx.load(model))
    library = str(folder / "net.so")
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    build(greedy_partition(relay.transform.SimplifyInference()(mod), "dnnl")).export_library(
        library
    )
    return Built({side: library})


@pytest.mark.slow("a net timed in four processes")
def test_a_small_net_wherever_it_is_deployed(tmp_path, monkeypatch, capsys):
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("needs g++ and make")
    small = models.Net("small", "a small net", small_model, "this test")
    monkeypatch.setitem(models.NETS, "small", small)
    monkeypatch.setattr(deploy, "build", build_with_dnnl)
    output = tmp_path / "out" / "deploy.json"
    arguments = ["--nets", "small", "--backends", "dnnl", "--rounds", "2", "--output", str(output)]
    assert deploy.main([*arguments, "--spins", "100"]) == 0
    (record,) = json.loads(output.read_text())
    # Outputs are compared: whoever is wrong would not be "measured".
    assert [(row["name"], row["status"]) for row in record["rows"]] == [
        ("python", "measured"),
        ("runtime alone", "measured"),
        ("c++", "measured"),
        ("python, 100 spins", "measured"),
    ]
    assert [len(row["ratio"] or []) for row in record["rows"]] == [0, 3, 3, 3]
    assert "c++" in capsys.readouterr().out


def test_each_framework_stands_beside_nothing_and_each_neighbour(monkeypatch):
    ours = Contestant("python", "module:ours", {"library": "net.so"}, {"TVM_NUM_THREADS": "2"})
    peer = types.SimpleNamespace(
        is_installed=lambda: True, contestant=lambda *_: Contestant("onnxruntime", "module:peer")
    )
    monkeypatch.setitem(deploy.PEERS, "onnxruntime", peer)
    files = Files(Path("."), None, "net.onnx", "inputs.npz", {"TVM_NUM_THREADS": "2"})
    groups = deploy._beside_neighbours(ours, [], files)
    assert [[each.name for each in group] for group in groups] == [
        [name, *(f"{name} beside {other}" for other in ("a loop", "python", "onnxruntime"))]
        for name in ("python", "onnxruntime")
    ]
    jobs = [each.arguments["neighbour"] for each in groups[0]]
    assert jobs[:2] == [None, neighbour.LOOP]
    assert [job["factory"] for job in jobs[2:]] == ["module:ours", "module:peer"]
    assert all(each.arguments["factory"] == "module:ours" for each in groups[0])
    peer.is_installed = lambda: False
    fewer = deploy._with_spins(ours, 100)
    assert fewer.environment == {"TVM_NUM_THREADS": "2", "GOMP_SPINCOUNT": "100"}
    _, group = deploy._beside_neighbours(ours, [fewer], files)
    assert [each.name for each in group][:2] == [
        "python, 100 spins",
        "python, 100 spins beside a loop",
    ]
    assert "python, 100 spins" not in str([each.arguments for each in group]), "no neighbour"


class Watcher:
    """A contestant that looks at its neighbour while it runs."""

    def __init__(self):
        self.pid, self.seen = None, []

    def run(self):
        self.seen.append(state(self.pid))

    def outputs(self):
        return [np.ones(1)]


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_neighbour_stands_still_until_the_contestant_runs():
    with_neighbour = neighbour.beside(neighbour.LOOP, f"{__name__}:Watcher", {})
    watcher, process = with_neighbour._inner, with_neighbour._process
    watcher.pid = process.pid
    assert with_neighbour.seconds(3) > 0
    assert len(watcher.seen) > 3, "it runs until the neighbour is under way, then is timed"
    assert "T" not in watcher.seen[-3:]
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert state(process.pid) == "T"
    process.kill()
    watcher.pid = os.getpid()
    # On a busy machine a killed process takes a while to end.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RuntimeError, match="the neighbour ended with -9"):
        with_neighbour.seconds(1)


def test_a_neighbour_that_stands_still_ends_with_whoever_started_it():
    read, write = os.pipe()
    starter = os.fork()
    if not starter:
        try:
            started = neighbour.beside(neighbour.LOOP, f"{__name__}:Watcher", {})
            os.write(write, f"{started._process.pid}\n".encode())
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as pipe:
        pid = int(pipe.readline())
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and state(pid) != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists() or state(pid) == "Z"


def test_a_neighbour_that_does_not_come_up_is_an_error():
    broken = {"factory": "no_such_module:name", "arguments": {}}
    with pytest.raises(RuntimeError, match="the neighbour ended with 1"):
        neighbour.beside(broken, f"{__name__}:Watcher", {})
    assert isinstance(neighbour.beside(None, f"{__name__}:Watcher", {}), Watcher)


def record_of(slowdown):
    def comparison(name, seconds):
        samples = tuple(seconds * (1 + 0.001 * k) for k in range(20))
        return Comparison(name, Cost.measured(samples), samples=samples)

    base, beside = comparison("python", 2e-3), comparison("python beside a loop", 2e-3 * slowdown)
    failed = Comparison("python beside python", Cost.failed("crashed", "signal 11"))
    rows = [deploy._row(each, base) for each in (base, beside, failed)]
    return {"net": "net", "threads": 2, "other_work": 0.05, "rows": rows}


@pytest.mark.parametrize(
    ("slowdown", "said"), [(2.0, ", at most 2.5"), (3.0, ", ABOVE 2.5"), (2.5, ", at most 2.5")]
)
def test_a_slowdown_is_held_against_the_limit(slowdown, said):
    lines = deploy.text(record_of(slowdown)).splitlines()
    assert f"{slowdown:.3f}" in lines[2] and lines[2].endswith(said)
    assert lines[3].endswith("crashed: signal 11")


def test_a_failure_or_a_slowdown_of_ours_ends_with_1():
    bad, fine = record_of(3.0), record_of(2.0)
    assert deploy.has_fault(fine), "somebody crashed"
    for record in (bad, fine):
        record["rows"].pop()
    assert deploy.has_fault(bad) and not deploy.has_fault(fine)
    assert not deploy.has_fault(bad | {"other_work": 0.5}), "nothing is judged"
    for row in bad["rows"]:
        row["name"] = row["name"].replace("python", "onnxruntime")
    assert not deploy.has_fault(bad), "a peer's slowdown is no fault of ours"


def test_an_interval_about_the_limit_decides_nothing():
    assert deploy.verdict((2.4, 2.3, 2.6), 0.0) == ", 2.5 is within the interval"


def test_nothing_is_judged_where_others_were_busy():
    said = ", not judged: others used 50% of the CPUs"
    assert deploy.verdict((1.1, 1.0, 1.2), 0.5) == said


def test_the_program_takes_one_input_of_float32(tmp_path):
    two = tmp_path / "two.npz"
    np.savez(two, a=np.ones(1, "float32"), b=np.ones(1, "float32"))
    with pytest.raises(ValueError, match="cpp_deploy takes nets of one input of float32"):
        served.cpp_library("cpp_deploy", "net.so", str(two))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nets", "alexnet"], "unknown net alexnet: choose of resnet50, "),
        (["--backends", "caffe"], "unknown backend 'caffe'; known: "),
        (["--rounds", "0"], "--rounds: must be at least 1"),
        (["--spins", "few"], "--spins: takes counts with commas between"),
    ],
)
def test_what_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        deploy.main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err
