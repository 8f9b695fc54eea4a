# SPDX-License-Identifier: Apache-2.0
"""TVM's own searchers, each with a few trials of one tiny convolution, in a worker process."""

import collections
import dataclasses
import json
import unittest.mock
from types import SimpleNamespace

import numpy as np
import pytest
import transfer_nets
import tuning_fakes
import tvm
from transfer_nets import task
from tuning_nets import KINDS, TARGET, conv, dense, some_lines
from tvm import auto_scheduler
from tvm.auto_scheduler import LayoutRewriteOption
from tvm.contrib.graph_executor import GraphModule
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.exec.machine_fault import MachineFault
from tvm.relay.collage.exec.process import wait
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.measure import WorkerProcess, candidate_module
from tvm.relay.collage.tuning import (
    TUNERS,
    TuningLogError,
    ansor,
    autotvm,
    load_records,
    metaschedule,
    read_log,
    worker,
)
from tvm.relay.collage.tuning.trial import TimedKernel, seconds_of_kernel, timed
from tvm.relay.collage.tuning.tuner import SearchOptions, TuningTask

SMALL = {"channels": 4, "size": 4}


@pytest.fixture(scope="module")
def candidate():
    return candidate_module(conv(**SMALL), "tvm", TARGET, {"opt_level": 3}, "conv").to_json()


@pytest.fixture
def start():
    workers = []

    def start():
        workers.append(WorkerProcess())
        return workers[-1]

    yield start
    for each in workers:
        each.kill()


def call(process, function, **arguments):
    """Ask a worker for a function of tuning/worker.py; does not wait."""
    process.send(
        "call", {"function": f"{worker.__name__}:{function}", "arguments": arguments}, seconds=200
    )


def answer(process):
    while (reply := process.poll()) is None:
        wait([process])
    assert reply.outcome == "ok", reply.message
    return reply.value


def outputs(library):
    executor = GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", np.random.default_rng(1).standard_normal((1, 4, 4, 4)))
    executor.run()
    return executor.get_output(0).numpy()


@pytest.mark.parametrize(
    "kind",
    ["autotvm"]
    + [
        pytest.param(kind, marks=pytest.mark.slow("Ansor and MetaSchedule search as AutoTVM does"))
        for kind in KINDS[1:]
    ],
)
def test_a_search_that_is_killed_resumes_and_its_records_build_the_same_function(
    kind, candidate, start, tmp_path
):
    log = tmp_path / "tune.jsonl"
    killed, resumed = start(), start()
    call(killed, "list_tasks", candidate=candidate, tuner=kind)
    tasks = answer(killed)
    assert tasks and all("conv2d" in task["name"] for task in tasks)
    task = tasks[0]["workload"]

    def search(process, trials):
        options = SearchOptions(kind, trials, str(log), model="random")
        asked = {"workload": task, "options": dataclasses.asdict(options)}
        call(process, "tune_task", candidate=candidate, **asked)

    # One round of two trials; then as many more as never end, killed when the first are there.
    search(killed, 2)
    assert answer(killed) == {"trials": 2}
    search(killed, 10_000)
    # Ten thousand trials make the first choice of Ansor and MetaSchedule long.
    while kind == "autotvm" and len(read_log(log)) == 2 and killed.poll() is None:
        wait([killed])
    killed.kill()
    before = len(read_log(log))
    assert before > 2 if kind == "autotvm" else before == 2
    search(resumed, before)
    assert answer(resumed) == {"trials": 0}
    search(resumed, before + 2)
    assert answer(resumed) == {"trials": 2}
    assert {line.workload for line in read_log(log)} == {task}
    records = load_records([log], TARGET)
    assert len(records) == 1, [line.seconds for line in read_log(log)]
    mod = conv(**SMALL)
    untuned = build_library(mod, TARGET)
    with records.in_force():
        tuned = build_library(mod, TARGET)
    np.testing.assert_allclose(outputs(tuned), outputs(untuned), rtol=1e-4, atol=1e-4)


def searched(kind, of, log, trials, known=(), **more):
    """The log after a search by chance."""
    options = SearchOptions(kind, trials, str(log), **{"model": "random", **more})
    TUNERS[kind].search(of, options, known)
    return read_log(log)


def test_the_cost_model_of_xgboost_guides_a_search(tmp_path):
    pytest.importorskip("xgboost", reason="the extra tune is not installed")
    [found] = TUNERS["autotvm"].tasks(conv(**SMALL), TARGET)
    lines = []
    for _ in range(2):
        lines = searched("autotvm", found, tmp_path / "log", 2, lines, model="xgb")
    assert len({line.text for line in lines}) == 4


def test_ansors_trials_of_a_dense_layer_have_its_weight_laid_out(tmp_path):
    lines = searched("ansor", task(transfer_nets.dense), tmp_path / "log.jsonl", 2)
    assert len(lines) == 2 and all(line.seconds for line in lines)
    options = [json.loads(line.text)["i"][0][4] for line in lines]
    assert options == [LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED] * 2


A_MILLISECOND = TimedKernel([1e-3], None, 1.0, 0.1)


def test_ansors_trials_are_in_the_log_when_the_search_is_ended_within_a_round(
    tmp_path, monkeypatch
):
    log, lengths = tmp_path / "log.jsonl", []

    def measure(_):
        lengths.append(len(read_log(log)) if log.exists() else 0)
        if len(lengths) == 4:
            raise MachineFault("memory", "the fourth trial of sixteen")
        return A_MILLISECOND

    monkeypatch.setattr(ansor, "timed", measure)
    with pytest.raises(MachineFault):
        searched("ansor", task(), log, ansor.ROUND)
    assert lengths == [0, 1, 2, 3]
    history = read_log(log)
    assert len({line.text for line in searched("ansor", task(), log, 2, history, seed=3)}) == 5


def failing(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize("kind", ["ansor", "autotvm"])
def test_a_trial_that_fails_is_in_the_log(kind, tmp_path, monkeypatch):
    fail = failing(ValueError("no such loop"))
    monkeypatch.setattr(f"{TUNERS[kind].__module__}.build_kernel", fail)
    [found] = TUNERS[kind].tasks(conv(**SMALL), TARGET)
    lines = searched(kind, found, tmp_path / "log.jsonl", 2)
    assert len(lines) == 2 and {line.seconds for line in lines} == {None}


def test_metaschedule_is_told_why_a_trial_failed(monkeypatch):
    monkeypatch.setattr(metaschedule, "build_kernel", failing(ValueError("no such loop")))
    runner = metaschedule.KeptRunner(TARGET, [tvm.IRModule()])
    found = runner.trial(SimpleNamespace(args_info=[], artifact_path="0")).result()
    assert "no such loop" in str(found.error_msg)


def test_a_fault_of_the_machine_is_no_failed_trial():
    failed = timed(failing(ValueError("no such loop")))
    assert failed.costs == [] and "no such loop" in str(failed.error)
    with pytest.raises(MemoryError):
        timed(failing(MemoryError("of the machine")))


def test_ansors_cost_model_learns_once_a_round(tmp_path, monkeypatch):
    learnt = []

    class Model(auto_scheduler.RandomModel):
        def learn(self, inputs, results):
            learnt.append(len(inputs))

    monkeypatch.setattr(ansor, "timed", lambda _: A_MILLISECOND)
    monkeypatch.setattr(ansor, "kept_model", lambda log: Model())
    searched("ansor", task(), tmp_path / "log.jsonl", ansor.ROUND + 2, model="xgb")
    assert learnt == [ansor.ROUND, 2]


@pytest.mark.parametrize(
    "trials, population, rounds", [(2, 8, 1), (16, 64, 4), (512, 2048, 4), (4000, 2048, 4)]
)
def test_the_population_grows_with_the_trials(trials, population, rounds):
    effort = ansor.effort(trials)
    assert effort["evolutionary_search_population"] == population
    assert effort["evolutionary_search_num_iters"] == rounds
    assert effort["sample_init_min_population"] <= 50


def test_a_task_that_the_candidate_lacks_is_refused(tmp_path):
    plain = candidate_module(dense(), "tvm", TARGET, {"opt_level": 3}, "dense").to_json()
    with pytest.raises(LookupError, match="no autotvm task .*other"):
        options = SearchOptions("autotvm", 1, str(tmp_path / "log"))
        worker.tune_task(plain, '["other", []]', dataclasses.asdict(options))


def test_a_kernel_is_timed_on_numbers_that_are_neither_zero_nor_denormal():
    seen = []

    class Kernel:
        entry_name = "kernel"

        def time_evaluator(self, name, device, number, repeat=1, min_repeat_ms=0):
            def evaluate(*values):
                seen.append([value.numpy() for value in values])
                return type("Result", (), {"results": [self.seconds] * repeat})

            return evaluate

    kernel = Kernel()
    kernel.seconds = 0.5
    assert seconds_of_kernel(kernel, [((4, 5), "float32"), ((3,), "int32")]) == [0.5] * 3
    kernel.seconds = 2.0
    assert seconds_of_kernel(kernel, [((4, 5), "float32"), ((3,), "int32")]) == [2.0]
    assert len(seen) == 3
    for floats, integers in seen:
        assert floats.shape == (4, 5) and np.abs(floats).min() > 1e-6
        assert integers.dtype == "int32" and not integers.any()


def test_options_tune_a_network_and_the_log_serves_the_next_build(tmp_path):
    log = tmp_path / "tune.jsonl"
    fields = {
        "measure_seconds": 0.02,
        "workers": 1,
        "progress": "quiet",
        "guard_rounds": 3,
        "store": "none",
    }
    mod = conv(**SMALL)
    options = CollageOptions(
        tune=2, tune_model="random", tune_log=str(log), tune_seconds=200.0, **fields
    )
    tuned = optimize(mod, None, [TARGET], options)
    assert len(read_log(log)) == 2
    # A record that was slower than the default schedule is not used: then no plan differs.
    plans = {item.name for item in tuned.guard.comparisons}
    is_untuned = tuned.plan.endswith("untuned")
    assert ("tvm-untuned" in plans) == (is_untuned or tuned.records.changes_builds())
    assert not (is_untuned and tuned.records)
    given = optimize(mod, None, [TARGET], CollageOptions(tuning_log=[str(log)], **fields))
    assert given.records.digest() == load_records([log], TARGET).digest() != ""
    with given.records.in_force():
        library = build_library(given.mod, given.host)
    np.testing.assert_allclose(outputs(library), outputs(tuned.library), rtol=1e-4, atol=1e-4)


def test_a_search_that_gains_nothing_more_ends_early(candidate, tmp_path, monkeypatch):
    """By a searcher whose trials get faster until the fourth."""
    asked, seconds = [], [4e-3, 3e-3, 2e-3, 1e-3, 0.995e-3, None, 1e-3, 1e-3, 0.5e-3]
    log = tmp_path / "tune.jsonl"

    class Fake:
        def tasks(self, mod, target):
            return [TuningTask(tuning_fakes.workload("conv"), "conv", None)]

        def search(self, task, options, known):
            asked.append(options.trials)
            for number in range(len(known), min(len(known) + options.trials, len(seconds))):
                row = json.loads(tuning_fakes.line(tuning_fakes.workload("conv"), 1))
                row["input"][0] = str(TARGET)
                took = seconds[number]
                row["result"][:2] = [[took or 1e9], int(took is None)]
                append_line(options.log, json.dumps(row))

        line_of = staticmethod(TUNERS["autotvm"].line_of)

    def tune(patience):
        options = SearchOptions("autotvm", 9, str(log), patience=patience)
        asked_for = tuning_fakes.workload("conv"), dataclasses.asdict(options)
        return worker.tune_task(candidate, *asked_for)["trials"]

    monkeypatch.setitem(TUNERS, "autotvm", Fake())
    worker.tasks_of.cache_clear()
    assert tune(patience=2) == 6
    assert asked == [2, 2, 2]  # the last two gained less than a hundredth
    assert tune(patience=2) == 0
    assert tune(patience=4) == 3
    assert tune(patience=0) == 0
    worker.tasks_of.cache_clear()


def test_autotvms_model_begins_with_trials_of_the_template_for_other_kernels(tmp_path, monkeypatch):
    log, loaded = tmp_path / "log.jsonl", []

    class Tuner:
        def __init__(self, task, plan_size):
            pass

        def load_history(self, pairs, min_seed_records):
            loaded.append(len(pairs))

        def has_next(self):
            return False

    monkeypatch.setattr(autotvm, "XGBTuner", Tuner)
    [found] = TUNERS["autotvm"].tasks(conv(**SMALL), TARGET)
    others = some_lines("autotvm", conv(), 0) + some_lines("autotvm", dense(), 0)
    for _ in range(2):
        for _ in range(8):
            append_line(log, others[0])
            append_line(log, others[-1])
        searched("autotvm", found, log, 4, read_log(log), model="xgb")
    assert loaded == [16]  # below a batch it is no history, and dense is another template


class MetaSchedulesModel:
    """A fake of its cost model, which is what it has learnt."""

    def __init__(self, num_warmup_samples):
        self.booster, self.data, self.data_size = None, collections.OrderedDict(), 0

    def load(self, path):
        with open(path) as file:
            self.booster = file.read()
        if self.booster == "damaged":
            raise ValueError("no tar")
        self.data.update(old=SimpleNamespace(costs=[1.0] * 3), new=SimpleNamespace(costs=[1.0]))
        self.data_size = 4

    def save(self, path):
        with open(path, "w") as file:
            file.write(self.booster)


@pytest.fixture
def metaschedules_model(monkeypatch):
    monkeypatch.setattr(metaschedule.ms.cost_model, "XGBModel", MetaSchedulesModel)


@pytest.mark.usefixtures("metaschedules_model")
def test_metaschedules_model_is_kept_beside_the_log(tmp_path, monkeypatch, caplog):
    log, kept = str(tmp_path / "log.jsonl"), tmp_path / "log.jsonl.learnt.tar"
    model = metaschedule.kept_model(log)
    metaschedule.keep(model, log)
    assert not kept.exists()  # it has learnt nothing
    model.booster = "learnt"
    metaschedule.keep(model, log)
    assert metaschedule.kept_model(log).booster == "learnt"
    assert list(tmp_path.iterdir()) == [kept]
    # Of too many trials those of the last kernels count.
    monkeypatch.setattr(metaschedule, "KEPT_TRIALS", 3)
    model = metaschedule.kept_model(log)
    assert (list(model.data), model.data_size) == (["new"], 1)
    # What cannot be written costs time alone.
    model.booster = object()
    metaschedule.keep(model, log)
    assert "learnt.tar: " in caplog.text and kept.read_text() == "learnt"
    assert list(tmp_path.iterdir()) == [kept]
    kept.write_text("damaged")
    assert metaschedule.kept_model(log).booster is None and "forgotten" in caplog.text


@pytest.mark.usefixtures("metaschedules_model")
def test_a_search_of_metaschedule_that_is_stopped_keeps_what_it_learnt(tmp_path, monkeypatch):
    def stopped(cost_model, measure_callbacks, **_):
        cost_model.booster = "learnt in a round"
        measure_callbacks[-1]._inst.apply()
        raise TimeoutError

    # TVM's own takes many seconds to import schedules for GPUs.
    monkeypatch.setattr(metaschedule.ms, "TuneContext", lambda **_: unittest.mock.Mock())
    monkeypatch.setattr(metaschedule.ms.tune, "tune_tasks", stopped)
    log = str(tmp_path / "log.jsonl")
    with pytest.raises(TimeoutError):
        metaschedule.MetaSchedule().search(
            TuningTask("w", "conv", (None, TARGET)), SearchOptions("metaschedule", 2, log), []
        )
    assert metaschedule.kept_model(log).booster == "learnt in a round"


def test_a_log_that_is_not_there_yet_has_no_trials_and_one_that_is_none_is_an_error(tmp_path):
    log = tmp_path / "log.jsonl"
    assert worker.trials_in(str(log), "ansor", "llvm") == []
    log.write_text("no record")
    with pytest.raises(TuningLogError, match="none of its 1 lines is a record"):
        worker.trials_in(str(log), "ansor", "llvm")
