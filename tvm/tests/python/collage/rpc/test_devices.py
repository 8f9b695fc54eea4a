# SPDX-License-Identifier: Apache-2.0
"""Measuring on devices of an RPC tracker: a local tracker with servers, some of them killed."""

import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fault_search
import measure_fakes
import numpy as np
import pytest
import transfer_nets
import tuning_nets
import tvm
from fault_runs import wait_until
from measure_fakes import fake_options, measure
from rpc_fleet import Fleet, free_port
from tuning_nets import TARGET
from tvm.relay import collage
from tvm.relay.collage.exec import launch
from tvm.relay.collage.exec.pool import WorkerPool
from tvm.relay.collage.measure import Cost, candidate_module
from tvm.relay.collage.measure.race.comparison import RightOutputs
from tvm.relay.collage.measure.race.race import RaceOptions
from tvm.relay.collage.measure.race.rounds import Enough, Further
from tvm.relay.collage.plans.graph_search.decide import in_question
from tvm.relay.collage.rpc import DeviceRunner, device_pool, find_device, session
from tvm.relay.collage.rpc.tracker import Address, Tracker
from tvm.relay.collage.store import CostStore, Environment
from tvm.relay.collage.tuning import load_records, read_log
from tvm.relay.collage.tuning.from_options import default_log
from tvm.relay.collage.tuning.resources import Budget, DeviceTrials
from tvm.relay.collage.tuning.run import RunOptions, TuningRun
from tvm.relay.collage.tuning.transfer.log import trials_of
from tvm.relay.collage.tuning.transfer.transfer import Transfer, TransferOptions
from tvm.relay.collage.tuning.tuner import SearchOptions

STEP = "rpc_fleet:fake_measure"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    yield fleet
    fleet.close()


@pytest.fixture
def forked(monkeypatch):
    """Workers of this process are forked, which saves their import of TVM."""
    monkeypatch.setattr(launch, "forks", fault_search.FORKED)


def candidate(name, run=1e-3, **more):
    return dataclasses.replace(measure_fakes.fake_candidate(name, run, **more), target="llvm")


def estimator_on(fleet, key, wait=5.0, store=None, **options):
    runner = DeviceRunner(fleet.tracker, key, wait_seconds=wait)
    options = fake_options(measure_step=STEP, **options)
    return measure.MeasuredCostEstimator(options, runner=runner, store=store)


class Kept:
    """A store that knows nothing and notes what it is to keep: statuses by candidate."""

    def __init__(self):
        self.costs = {}

    def look_up(self, candidates, is_quiet):
        return [None for _ in candidates]

    def keep(self, candidate, cost):
        self.costs[candidate.hash] = cost.status

    def close(self):
        pass


def test_candidates_fail_on_devices_as_they_do_here(fleet, forked):
    fleet.start("fake", 2)
    deeds = ["segfault", "hang", "raise", "nan", 1e-3, "garbage", 2e-3, "sysexit"]
    candidates = [candidate(str(deed), deed) for deed in deeds]
    candidates.append(candidate("no build", build="raise"))
    with estimator_on(fleet, "fake", run_timeout=5.0) as estimator:
        costs = estimator.estimate(candidates)
        assert [cost.status for cost in costs] == [
            *("crashed", "timeout", "run_failed", "run_failed", "measured", "measured"),
            *("measured", "run_failed", "compile_failed"),
        ]
        assert "SIGSEGV" in costs[0].message and "no answer" in costs[1].message
        assert (costs[4].seconds, costs[6].seconds) == (1e-3, 2e-3)
        assert estimator.runner.pool.lost == []


def test_a_device_says_what_it_is(fleet, tuned, forked):
    info = find_device(fleet.tracker, tuned)
    here = Environment.here()
    assert info.cpu == here.cpu and (info.threads.split(",")[0], info.num_threads) == ("1", 1)
    assert Environment.of_device(info.cpu, here.threads, measure.MeasureOptions()) == here
    assert str(collage.host_target(device=info)) == str(collage.host_target())
    assert info.backends.keys() >= {"dnnl"} - info.missing.keys()


def test_a_server_whose_client_was_killed_serves_again(fleet, forked):
    [pid] = fleet.start("again")
    address = Address("127.0.0.1", fleet.port)
    runner = DeviceRunner(fleet.tracker, "again")
    runner.info  # noqa: B018 - takes the device
    [worker] = runner.pool._idle
    hang = measure.Job("call", {"function": "measure_fakes:hang", "arguments": {}}, 60.0)
    runner.pool._send(worker, hang)
    time.sleep(0.5)  # in the middle of a call
    os.kill(worker.pid, signal.SIGKILL)
    runner.close()
    with Tracker(address) as tracker:
        assert wait_until(lambda: tracker.free("again") == 1)
    assert find_device(fleet.tracker, "again").cpu
    os.kill(pid, 0)


def test_a_device_that_is_killed_midway_changes_nothing_in_the_plan(fleet, forked, tmp_path):
    fault_search.register()
    undisturbed = fault_search.search(str(tmp_path / "here.sqlite"))
    fleet.start("plan", 2)
    options = {"rpc_tracker": fleet.tracker, "rpc_key": "plan"}
    there = fault_search.search(
        str(tmp_path / "there.sqlite"),
        measure_step="rpc_fleet:run_but_lose_a_device",
        collage_options=options,
    )
    assert there == undisturbed
    assert os.path.exists(fleet.once)
    with Tracker(Address("127.0.0.1", fleet.port)) as tracker:
        assert wait_until(lambda: len(tracker.devices()["plan"]) == 1)
    # The fake backends are registered here alone, so the devices' store has TVM's candidates.
    here, there = (
        {(row.key, row.cost) for row in CostStore(tmp_path / f"{name}.sqlite").rows()}
        for name in ("here", "there")
    )
    assert {key.candidate for key, _ in there} == {
        key.candidate for key, _ in here if key.backend in ("tvm", "transition")
    }


def test_all_devices_lost_is_an_error_that_keeps_the_costs(fleet, forked):
    fleet.start("doomed", 2)
    kept = Kept()
    with estimator_on(fleet, "doomed", 1.0, store=kept) as estimator:
        estimator.estimate([candidate("good")])
        with pytest.raises(collage.DeviceError) as caught:
            estimator.estimate([candidate("killer", "kill_server")])
        assert "all devices of key 'doomed' are lost: 127.0.0.1:" in str(caught.value)
        assert "(its session ended)" in str(caught.value)
        assert "Costs measured so far are kept: start servers" in str(caught.value)
        assert kept.costs == {"good": "measured"}
        fleet.start("doomed")
        [cost] = estimator.estimate([candidate("after", 3e-3)])
        assert cost.seconds == 3e-3


def test_a_candidate_that_loses_devices_one_after_the_other_is_not_stored(fleet, forked):
    fleet.start("three", 3)
    kept = Kept()
    with estimator_on(fleet, "three", store=kept) as estimator:
        costs = estimator.estimate([candidate("k", "kill_server"), candidate("good")])
    assert [cost.status for cost in costs] == ["crashed", "measured"]
    assert costs[0].message == "run: 2 devices were lost while it ran"
    assert list(kept.costs) == ["good"]


def test_a_device_that_falls_silent_is_lost(fleet, forked, monkeypatch):
    monkeypatch.setattr(session, "SILENCE_SECONDS", 5)
    fleet.start("silent", 3)
    with estimator_on(fleet, "silent") as estimator:
        costs = estimator.estimate([candidate("f", "freeze_server"), candidate("good", 2e-3)])
        lost = estimator.runner.pool.lost
    assert [cost.status for cost in costs] == ["crashed", "measured"]
    assert len(lost) == 2 and all("it did not answer for" in text for text in lost)


def test_whole_models_are_compared_on_one_device_and_anew_when_it_is_lost(fleet, forked, tmp_path):
    fleet.start("guard", 2)
    contestants = []
    for name, seconds in (("a", 2e-3), ("b", 1e-3)):
        files = {"library": str(tmp_path / name), "inputs": str(tmp_path / "inputs")}
        for file in files.values():
            Path(file).write_text(str(seconds))
        factory = "rpc_fleet:contestant_but_lose_a_device"
        contestants.append(measure.Contestant(name, factory, files))
    rounds = []
    further = Further(functools.partial(in_question, simplest_first=["a", "b"]), 5.0)
    runner = DeviceRunner(fleet.tracker, "guard")
    options = RaceOptions(
        rounds=15,
        further=further,
        enough=Enough(6, 300.0),
        on_round=lambda *done: rounds.append(done),
    )
    found = runner.compare(contestants, RightOutputs(references=["a"]), options)
    assert [item.name for item in found] == ["b", "a"]
    assert found[1].ratio_to_best.value == 2.0 and found[0].output_error == 0.0
    assert len(found[0].samples) == 15 and rounds == [(15, 15)]
    assert len(runner.pool.lost) == 1
    runner.close()


def serve(fleet, module, key, **environment):
    """A server as users start it."""
    port = free_port()
    return subprocess.Popen(
        [sys.executable, "-m", module, "--tracker", fleet.tracker, "--key", key]
        + ["--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1)],
        start_new_session=True,
        env={**os.environ, **environment},
    )


def test_servers_as_users_start_them_and_tvms_own_where_the_package_is_installed(fleet, forked):
    servers = [
        serve(fleet, "tvm.relay.collage.rpc_server", "ours"),
        serve(fleet, "tvm.exec.rpc_server", "stock"),
        serve(fleet, "tvm.exec.rpc_server", "bare", COLLAGE_DISABLE="1"),
    ]
    with Tracker(Address("127.0.0.1", fleet.port)) as tracker:
        for key in ("ours", "stock", "bare"):
            assert wait_until(lambda key=key: tracker.free(key) == 1, 120)
    for key in ("ours", "stock"):
        assert find_device(fleet.tracker, key).cpu
    with pytest.raises(collage.DeviceError) as caught:
        find_device(fleet.tracker, "bare")
    assert "has no tvm-collage: install it there and start the server with" in str(caught.value)
    for server in servers:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def trials_on(runner):
    info = runner.info
    return DeviceTrials(runner.call_with_device, info.cpu, info.threads, info.num_threads)


def tune(runner, kind, log, trials=2, **more):
    """A run that has tuned a convolution on the runner's device, with costs by a fake."""
    plain = candidate_module(tuning_nets.conv(4, 4), "tvm", TARGET, {"opt_level": 3}, "conv")

    def with_records(records):
        options = {**plain.build_options, "tuning": records.digest()}
        return dataclasses.replace(plain, build_options=options, records=records.to_json())

    options = RunOptions(SearchOptions(kind, trials, str(log), model="random"), **more)
    with WorkerPool(1) as workers:
        run = TuningRun(options, TARGET, workers, device=trials_on(runner))
        run.tune(
            [(plain, with_records)],
            lambda candidates: [Cost.estimated(1.0 if c.records else 2.0) for c in candidates],
        )
    return run


@pytest.fixture(scope="module")
def tuned(fleet):
    """The key of a device with one thread, for all tests that lose none."""
    fleet.start("tuned", threads="1")
    return "tuned"


@pytest.fixture
def runner_on(fleet, forked):
    runners = []

    def make(key, wait=1.0):
        runners.append(DeviceRunner(fleet.tracker, key, wait_seconds=wait))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


def call_here(runner, deed, seconds=60.0, **more):
    arguments = {"function": "rpc_fleet:call_here", "arguments": {"deed": deed, **more}}
    return runner.call_with_device(measure.Job("call", arguments, seconds))


def test_a_device_that_was_given_back_is_taken_again_and_is_not_lost(fleet, runner_on, tmp_path):
    fleet.start("let_go", 2)
    runner = runner_on("let_go", wait=20.0)
    assert runner.info and len(runner.pool._devices) == 2
    assert call_here(runner, "hang", 0.5).outcome == "timeout"
    assert len(runner.pool._devices) == 1 and not runner.pool.lost
    # These end only if two devices measure at the same time.
    meet = [str(tmp_path / "a"), str(tmp_path / "b")]
    with measure.MeasuredCostEstimator(fake_options(measure_step=STEP), runner=runner) as estimator:
        costs = estimator.estimate([candidate("a", meet), candidate("b", meet[::-1])])
        assert [cost.seconds for cost in costs] == [1e-3, 1e-3]
        # One is lost and one let go, which another has by now.
        assert call_here(runner, "hang", 0.5).outcome == "timeout"
        other = runner_on("let_go", wait=20.0)
        assert other.info
        assert call_here(runner, "lose").outcome == "lost"
        runner.pool.wait_seconds = 1.0
        with pytest.raises(collage.DeviceError) as caught:
            call_here(runner, "hang")
    assert str(caught.value).startswith("devices of key 'let_go' are lost: 127.0.0.1:")
    text = caught.value.text.with_options(lambda each: f"--{each.name}")
    assert "are in use, and none got free in 1 s (--rpc_wait)" in text


def test_a_call_whose_worker_dies_gets_one_more_try(fleet, runner_on, tmp_path):
    fleet.start("retried", 2)
    runner, once = runner_on("retried", wait=20.0), str(tmp_path / "once")
    reply = call_here(runner, "die once", once=once)
    assert (reply.outcome, reply.value) == ("ok", "done")
    reply = call_here(runner, "die", once=once)
    assert reply.outcome == "died" and "SIGKILL" in reply.message
    assert call_here(runner, "", once=once).value == "done" and not runner.pool.lost


def test_what_fails_here_is_not_blamed_on_the_device(tuned, runner_on):
    runner = runner_on(tuned)
    call = {"function": "os:getpid", "arguments": {}}
    jobs = [measure.Job("call", call, 20.0, files) for files in (("/absent/file",), ())]
    for reply in (runner.pool.run(jobs[:1])[0], call_here(runner, "missing file")):
        assert (reply.outcome, reply.type, reply.fault) == ("failed", "FileNotFoundError", "")
        assert "/absent/file" in reply.message
    [reply] = runner.pool.run(jobs[1:])
    assert reply.outcome == "ok" and not runner.pool.lost and not runner.pool._given_back


META_SCHEDULE = pytest.param("metaschedule", marks=pytest.mark.slow("MetaSchedule searches long"))


@pytest.mark.parametrize("kind", ["autotvm", "ansor", META_SCHEDULE])
def test_kernels_are_tuned_on_a_device(kind, tuned, runner_on, tmp_path):
    log = tmp_path / "log.jsonl"
    tuner = tune(runner_on(tuned), kind, log)
    lines = read_log(log)
    assert len(lines) == 2 and all(line.seconds for line in lines)
    assert len(tuner.searched) == 1 and not tuner.failed
    assert len(tuner.records) == 1
    if kind == "ansor":  # it searches for the device's threads
        assert {json.loads(line.text)["i"][0][2][0] for line in lines} == {1}


@pytest.mark.parametrize("deed", ["crash", "sigkill"])
def test_a_kernel_that_dies_on_a_device_is_a_failed_trial(deed, tuned, runner_on, tmp_path):
    runner, log = runner_on(tuned), tmp_path / f"{deed}.jsonl"
    tuner = tune(runner, "autotvm", log, tune_step="rpc_fleet:tune")
    assert [line.seconds for line in read_log(log)] == [None, None]
    assert tuner.searched and not tuner.failed and not tuner.records and not runner.pool.lost


@pytest.mark.parametrize("kind", ["autotvm", "ansor", META_SCHEDULE, "autotvm frozen"])
def test_a_device_that_is_lost_is_no_trial(kind, fleet, runner_on, tmp_path, monkeypatch, caplog):
    kind, _, is_frozen = kind.partition(" ")
    deed = "freeze" if is_frozen else "kill"
    why = "it did not answer for 5 s" if is_frozen else "its session ended"
    monkeypatch.setattr(session, "SILENCE_SECONDS", 5)
    monkeypatch.setattr(device_pool, "SILENCE_SECONDS", 5)
    key, log = f"{kind}_{deed}", tmp_path / f"{deed}.jsonl"
    fleet.start(key)
    runner = runner_on(key)
    tuner = tune(runner, kind, log, trials=4, tune_step="rpc_fleet:tune")
    lines = read_log(log) if log.exists() else []
    # Only AutoTVM writes each trial at once.
    assert len(lines) in {"autotvm": [0 if is_frozen else 2]}.get(kind, [0, 1, 2])
    assert {line.seconds for line in lines} <= {1e-3}
    [reason] = tuner.failed.values()
    assert "lost: device 127.0.0.1:" in reason and f"({why}) is lost" in reason
    [warning] = [entry for entry in caplog.records if entry.levelname == "WARNING"]
    assert reason in warning.getMessage()
    # What there is by now counts, and the next that needs a device says that there is none.
    assert len(tuner.records) == bool(lines)
    with pytest.raises(collage.DeviceError, match=f"all devices of key '{key}' are lost.*{why}"):
        tune(runner, kind, tmp_path / "other.jsonl")


# Of a dense layer, whose weight is laid out anew for it: the columns in blocks.
BLOCKS = [["SP", 2, 1, 24, [8], 1], ["RE", 2, [1, 0, 3, 2]], ["AN", 2, 3, 2]]


def test_schedules_are_transferred_on_a_device_unless_it_is_lost(
    fleet, tuned, runner_on, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(session, "SILENCE_SECONDS", 5)
    mod = transfer_nets.dense(outputs=48)
    net = candidate_module(mod, "tvm", TARGET, {"opt_level": 3}, "net")
    kernel = transfer_nets.kernel(transfer_nets.dense, outputs=48)
    sources = [
        transfer_nets.source(steps, transfer_nets.dense) for steps in (BLOCKS, [["AN", 2, 40, 3]])
    ]

    def trials(log, runner, **more):
        options = TransferOptions(**more)
        transfer = Transfer(sources, tmp_path / log, trials_on(runner), options)
        return transfer.to_kernel(net, kernel, Budget(200.0))

    runner = runner_on(tuned)
    found = trials("log.jsonl", runner)
    assert [trial.outcome for trial in found] == ["adapted", "invalid"]
    assert found[0].seconds > 0 and found[0].reason == ""
    killed = trials("sigkill.jsonl", runner, trial_step="rpc_fleet:transfer")
    assert [trial.outcome for trial in killed] == ["failed", "invalid"]
    assert "SIGKILL" in killed[0].reason
    fleet.start("transferring")
    lost = runner_on("transferring")
    assert trials("freeze.jsonl", lost, trial_step="rpc_fleet:transfer") == []
    assert not trials_of(tmp_path / "freeze.jsonl")
    [warning] = [entry for entry in caplog.records if entry.levelname == "WARNING"]
    assert "no more schedules are tried on" in warning.getMessage()


def test_a_net_is_tuned_on_a_device_in_a_log_of_its_own(
    fleet, tuned, forked, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = collage.CollageOptions(
        rpc_tracker=fleet.tracker,
        rpc_key=tuned,
        tune=1,
        tune_model="random",
        progress="quiet",
        store="none",
        workers=1,
        measure_seconds=0.02,
        guard_rounds=2,
    )
    result = collage.optimize(tuning_nets.conv(4, 4), None, [TARGET], options)
    runner = DeviceRunner(fleet.tracker, tuned)
    log = default_log("autotvm", trials_on(runner))
    runner.close()
    assert log.is_relative_to(tmp_path) and len(read_log(log)) == 1
    assert result.records.digest() in ("", load_records([log], TARGET).digest())
    with pytest.raises(collage.HostTargetError, match="it is for aarch64"):
        other = "llvm -mtriple=aarch64-linux-gnu"
        collage.optimize(tuning_nets.conv(4, 4), None, [other], options)
    assert len(read_log(log)) == 1


def test_a_net_is_built_here_and_measured_there(fleet, tuned, forked, tmp_path):
    weight = tvm.relay.const(np.random.default_rng(0).standard_normal((8, 8, 3, 3), "float32"))
    x = tvm.relay.var("x", shape=(1, 8, 8, 8))
    conv = tvm.relay.nn.conv2d(x, weight, padding=(1, 1), channels=8, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.nn.relu(conv)))
    store = tmp_path / "costs.sqlite"
    options = collage.CollageOptions(
        rpc_tracker=fleet.tracker,
        rpc_key=tuned,
        store=str(store),
        measure_seconds=0.02,
        guard_rounds=2,
        progress="quiet",
    )
    targets = [collage.host_target(device=find_device(fleet.tracker, tuned)), "dnnl"]
    result = collage.optimize(mod, None, targets, options)
    assert result.guard.of("tvm").cost.is_usable and result.guard.of("dnnl").cost.is_usable
    assert result.guard.of("dnnl").output_error < 1e-4
    rows = list(CostStore(store).rows())
    assert {row.key.backend for row in rows} >= {"tvm", "dnnl"}
    assert {row.key.threads.split(",")[0] for row in rows} == {"1"}
    assert all(row.cost.status == "measured" for row in rows)
    assert result.placement.made_with.machine.threads == 1
    # The plan's library, which the guard built, runs here too: this is the device's CPU.
    run = tvm.contrib.graph_executor.GraphModule(result.library["default"](tvm.cpu()))
    value = np.random.default_rng(1).standard_normal((1, 8, 8, 8), "float32")
    run.set_input("x", value)
    run.run()
    with tvm.transform.PassContext(opt_level=3):
        expected = tvm.relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(value)
    np.testing.assert_allclose(run.get_output(0).numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
