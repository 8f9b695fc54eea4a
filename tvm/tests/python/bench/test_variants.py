# SPDX-License-Identifier: Apache-2.0
"""The benchmark of variants: a small net in each study, and what it says of others."""

import re
import shutil
from pathlib import Path

import bench_nets
import numpy as np
import pytest
import tvm
import variants
from harness import calls, served
from tvm import relay
from tvm.relay.collage.compile import build_library, host_target
from tvm.relay.collage.measure import Comparison, Cost

# Of two rounds, which bound nothing; a side beside itself is 1.
INTERVAL = r"[+-]?\d\S*(?: \(too few rounds to be sure\))?"


@pytest.fixture
def nets(monkeypatch):
    bench_nets.know_nets(monkeypatch, channels=64)


def rows_of(text):
    """Cells by side of each way's table, by its title."""
    ways, title = {}, ""
    for line in text.splitlines()[1:]:
        if not line.startswith(" "):
            title = line
            ways[title] = {}
        else:
            name, *cells = re.split(r"\s{2,}", line.strip())
            ways[title][name] = cells
    return ways


@pytest.mark.parametrize(
    "backend, pause",
    [
        ("dnnl", "3"),
        pytest.param("tvm", "0", marks=pytest.mark.slow("the same way for TVM, without a pause")),
    ],
)
def test_threads_that_are_spread_and_not(nets, capfd, backend, pause):
    arguments = ["--nets", "small", "--rounds", "2", "--pauses", pause, "--backend", backend]
    assert variants.main(["spread", *arguments]) == 0
    [(title, rows)] = rows_of(capfd.readouterr().out).items()
    assert title == f"small, {'after 3 ms of sleep' if pause == '3' else 'call after call'}"
    assert rows["side"] == ["median us", "over spread", "error"]
    for side in (variants.SPREAD, variants.NOT_SPREAD):
        assert re.fullmatch(rf"\d+\.\d {INTERVAL} \S+", " ".join(rows[side])), rows


def test_one_pool_and_two(nets, capfd):
    arguments = ["--nets", "small", "--rounds", "2", "--threads", "2"]
    assert variants.main(["pool", *arguments]) == 0
    rows = rows_of(capfd.readouterr().out)["small, call after call"]
    assert list(rows) == ["side", variants.ONE_POOL, variants.TWO_POOLS, variants.SAME_SPINS]
    assert float(rows[variants.TWO_POOLS][-1]) < 1e-4


def test_our_pool_is_in_the_process_of_one_and_not_of_two(tmp_path):
    x = relay.var("x", shape=(1, 8))
    library, inputs = str(tmp_path / "net.so"), str(tmp_path / "x.npz")
    build_library(tvm.IRModule.from_expr(relay.nn.relu(x)), host_target()).export_library(library)
    np.savez(inputs, x=np.ones((1, 8), "float32"))
    for opened, is_ours in ((served.runtime_library, True), (served.two_pools_library, False)):
        side = opened(library, inputs)
        maps = Path(f"/proc/{side._server.pid}/maps").read_text()
        assert "libtvm_collage_runtime" in maps and ("libtvm_collage_pool" in maps) == is_ours
        side._server.communicate(timeout=60)  # which ends with its stdin


def test_winograds_kernel_and_onednns(nets, capfd):
    arguments = ["--nets", "small,bad", "--rounds", "2", "--threads", "2"]
    assert variants.main(["winograd", *arguments]) == 1
    said = capfd.readouterr()
    rows = rows_of(said.out)["small, call after call"]
    assert list(rows) == ["side", variants.ONEDNN, variants.WINOGRAD]
    assert 0 < float(rows[variants.WINOGRAD][-1]) < 1e-4, "two kernels, not the same numbers"
    assert "bad: left out" in said.err


def test_kernels_that_are_preferred_and_measured(nets, capfd):
    arguments = ["--nets", "small", "--rounds", "2", "--threads", "2"]
    assert variants.main(["kernels", *arguments]) == 0
    rows = rows_of(capfd.readouterr().out)["small, call after call"]
    assert list(rows) == ["side", variants.PREFERRED, variants.MEASURED]
    assert re.fullmatch(rf"\d+\.\d {INTERVAL} \S+", " ".join(rows[variants.PREFERRED])), rows


@pytest.mark.slow("a net timed on all sides")
def test_calls_on_all_sides(capfd):
    arguments = ["--nets", "two_inputs", "--rounds", "2", "--threads", "1", "--pauses", "0,1.5"]
    assert variants.main(["calls", *arguments]) == 0
    machine, *_ = text = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r".+, \d+ CPUs, 1 threads", machine)
    ways = rows_of("\n".join(text))
    assert list(ways) == ["two_inputs, call after call", "two_inputs, after 1.5 ms of sleep"]
    for rows in ways.values():
        assert rows.pop("side")[2] == "beyond run alone, us"
        ours = [variants.RUNNER, variants.GRAPH_MODULE]
        assert list(rows) == [*ours, variants.RUN_ALONE, "onnxruntime", "onnxruntime, bound"]
        assert all(re.fullmatch(INTERVAL, rows[name][2]) for name in ours)


def test_what_is_beyond_the_run_alone_is_compared_round_by_round():
    def side(name, microseconds):
        samples = tuple(1e-6 * each for each in microseconds)
        return Comparison(name, Cost.measured(samples, by_quartile=False), samples=samples)

    alone = [20, 40, 20, 40, 20, 40]
    found = [
        side("run alone", alone),
        side("runner", [each + 5 for each in alone]),
        side("GraphModule", [each + 100 for each in alone]),
        Comparison("onnxruntime", Cost.failed("run_failed", "it broke")),
    ]
    ours = ["runner", "GraphModule", "run alone"]
    text = variants.table(found, variants.STUDIES["calls"], ours)
    assert re.search(r"^  runner +35.0 .*\+5.0 ", text, re.MULTILINE)
    assert re.search(r"^  GraphModule +130.0 .*\+100.0 ", text, re.MULTILINE)
    assert "it broke" in text
    failed = Comparison("runner", Cost.failed("run_failed", "it broke"))
    with pytest.raises(RuntimeError, match="runner: .*it broke"):
        variants.table([found[0], failed, found[2]], variants.STUDIES["calls"], ours)


@pytest.mark.slow("a net timed in three processes")
def test_a_small_net_wherever_it_is_deployed(nets, capfd):
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("needs g++ and make")
    arguments = ["--nets", "small", "--rounds", "2", "--threads", "2"]
    assert variants.main(["deployed", *arguments]) == 0
    rows = rows_of(capfd.readouterr().out)["small, call after call"]
    assert list(rows) == ["side", "python", "runtime alone", "c++"]
    assert all(float(cells[-1]) < 1e-4 for name, cells in rows.items() if name != "side")


def test_the_program_takes_one_input_of_float32(tmp_path):
    two = tmp_path / "two.npz"
    np.savez(two, a=np.ones(1, "float32"), b=np.ones(1, "float32"))
    with pytest.raises(ValueError, match="cpp_deploy takes nets of one input of float32"):
        served.cpp_library("cpp_deploy", "net.so", str(two))


def test_a_served_library_that_ends_is_an_error(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones(1))
    with pytest.raises(RuntimeError, match="python.* ended with 1"):
        served.runtime_library("/no/such/library.so", str(tmp_path / "x.npz"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["spread", "--nets", "mobilnet"], "unknown net mobilnet: choose of "),
        (["spread", "--backend", "dnll"], "unknown backend 'dnll'"),
        (["slower"], "invalid choice: 'slower'"),
        (["deployed", "--rounds", "0"], "--rounds: must be at least 1"),
    ],
)
def test_what_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        variants.main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_pauses_are_made_and_not_counted(monkeypatch):
    now = [0.0]

    def pass_time(seconds):
        now[0] += seconds

    class Model:
        def run(self):
            pass_time(1.0)

    monkeypatch.setattr(calls, "resolve", lambda factory: Model)
    monkeypatch.setattr(calls.time, "sleep", pass_time)
    monkeypatch.setattr(calls.time, "perf_counter", lambda: now[0])
    assert calls.open_paused("any:factory", {}, 5.0).seconds(3) == 3.0
    assert now[0] == 18.0
