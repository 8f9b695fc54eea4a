# SPDX-License-Identifier: Apache-2.0
"""Schedules tried on other kernels: what a worker does, and who asks it."""

import errno
import importlib
import json
import os

import numpy as np
import pytest
import transfer_fakes
import tvm
from transfer_nets import TARGET, conv, dense, kernel, source
from tuning_nets import some_lines
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.compile import build_whole
from tvm.relay.collage.errors import OptionError
from tvm.relay.collage.exec.machine_fault import ADVICE
from tvm.relay.collage.exec.pool import WorkerPool
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.measure import candidate_module
from tvm.relay.collage.transfer.log import (
    kernels_of,
    note_kernel,
    read_ansor,
    sources_of,
    steps_of,
)
from tvm.relay.collage.tuner import device, transfer_trial, tuner
from tvm.relay.collage.tuner.budget import Budget
from tvm.relay.collage.tuner.session import tuning_session
from tvm.relay.collage.tuner.transfer import (
    Transfer,
    TransferError,
    Trial,
    best_of,
    outcomes,
)
from tvm.relay.collage.tuning import TuningLogError, TuningRecords, load_records
from tvm.relay.collage.tuning.logs import append_line

# Stages of the padded convolution: x, padding, weight, convolution, bias, sum, relu.
PARALLEL = [
    ["CI", 5],
    ["SP", 3, 2, 8, [2, 2], 1],
    ["FU", 6, [0, 1, 2]],
    ["AN", 6, 0, 3],
    ["AN", 1, 0, 0],
]

# Stages of the dense layer: x, weight, product, relu. Its columns in blocks, the sum inside them.
BLOCKS = [["SP", 2, 1, 24, [8], 1], ["RE", 2, [1, 0, 3, 2]], ["AN", 2, 3, 2]]


def candidate(mod):
    return candidate_module(mod, "tvm", TARGET, {"opt_level": 3}, "net")


def tried(mod, tmp_path, *sources):
    """What trials on the one kernel of a module come to."""
    text = json.dumps(candidate(mod).to_json())
    [found] = transfer_trial.list_kernels(text)
    log = str(tmp_path / "log.jsonl")
    return [
        transfer_trial.transfer(text, found["workload"], each.to_json(), log) for each in sources
    ]


@pytest.fixture(autouse=True)
def nothing_is_kept():
    yield
    transfer_trial._trials.cache_clear()
    transfer_trial._kernels.cache_clear()


@pytest.mark.parametrize(
    "net, steps",
    [
        ({}, PARALLEL),
        (
            {"kernel": 1},  # without padding
            [["CI", 4], ["SP", 2, 2, 8, [2, 2], 1], ["FU", 5, [0, 1, 2]], ["AN", 5, 0, 3]],
        ),
        (
            {"stride": 2, "size": 14},
            [PARALLEL[0], ["SP", 3, 2, 7, [1, 1], 1], *PARALLEL[2:]],
        ),
    ],
    ids=str,
)
def test_a_schedule_is_timed_and_its_record_serves_builds(net, steps, tmp_path):
    [row] = tried(conv(**net), tmp_path, source(PARALLEL))
    assert row["outcome"] == ("adapted" if net else "exact") and row["seconds"] > 0
    [line] = read_ansor(tmp_path / "log.jsonl")
    assert steps_of(line.text) == steps and line.seconds == pytest.approx(row["seconds"])
    assert line.workload == kernel(conv, **net).workload
    assert kernels_of(tmp_path / "log.jsonl")[line.workload].kind == kernel(conv).kind
    assert len(load_records([tmp_path / "log.jsonl"], TARGET)) == 1
    # What is in the log is not tried again, and can itself be transferred.
    transfer_trial._trials.cache_clear()
    [again] = tried(conv(**net), tmp_path, *sources_of([tmp_path / "log.jsonl"]))
    assert (again["outcome"], again["reason"]) == ("exact", "in the log already")
    assert len(read_ansor(tmp_path / "log.jsonl")) == 1


def test_what_does_not_fit_cannot_be_built_or_is_wrong_says_why(tmp_path, monkeypatch):
    other_class = source([], dense)
    no_such_loop = source([["AN", 6, 40, 3]])
    no_such_stage = source([["CA", 1, 6, 30]])
    garbled = source([["SP", 3, 40, 8, [None], 1]])
    racing = source([["AN", 3, 5, 3]])
    rows = tried(conv(), tmp_path, other_class, no_such_loop, no_such_stage, garbled, racing)
    assert [row["outcome"] for row in rows] == ["invalid"] * 5
    assert "different classes" in rows[0]["reason"] and all(row["reason"] for row in rows)
    assert rows[-1]["reason"] == "the sum over ic of conv2d_NCHWc runs at once"
    assert all(row["seconds"] is None for row in rows)
    monkeypatch.setattr(transfer_trial, "mismatch", lambda *_: "output 0 is off")
    [row] = tried(conv(), tmp_path, source(PARALLEL))
    assert (row["outcome"], row["reason"]) == ("wrong", "output 0 is off")
    assert not load_records([tmp_path / "log.jsonl"], TARGET)
    # A failed trial is not made again either.
    transfer_trial._trials.cache_clear()
    assert tried(conv(), tmp_path, source(PARALLEL))[0]["outcome"] == "failed"


@pytest.mark.parametrize(
    "step, error",
    [
        ("build_kernel", MemoryError("of the machine")),
        ("seconds_of_kernel", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
        ("adapt", AttributeError("a fault of ours")),
    ],
    ids=str,
)
def test_what_is_no_doing_of_a_schedule_is_no_trial(step, error, tmp_path, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(transfer_trial, step, fail)
    with pytest.raises(type(error)):
        tried(conv(), tmp_path, source(PARALLEL))
    assert not read_ansor(tmp_path / "log.jsonl")


def test_weights_are_in_the_layout_that_a_schedule_reads(tmp_path, monkeypatch):
    seen = []
    real = transfer_trial.mismatch

    def noting(outputs, truth, tolerance):
        seen.append((outputs[1].shape, truth[1].shape))
        return real(outputs, truth, tolerance)

    monkeypatch.setattr(transfer_trial, "mismatch", noting)
    [row] = tried(dense(outputs=48), tmp_path, source(BLOCKS, dense))
    assert (row["outcome"], row["reason"]) == ("adapted", "")
    assert seen == [((6, 32, 8), (6, 32, 8))]
    # A weight that lies otherwise is another function.
    transfer_trial._trials.cache_clear()
    turned = transfer_trial.transform_loops
    monkeypatch.setattr(transfer_trial, "transform_loops", lambda a, *b: turned(a, *b)[::-1])
    [row] = tried(dense(outputs=24), tmp_path, source(BLOCKS, dense))
    assert row["outcome"] == "wrong"
    transfer_trial._trials.cache_clear()
    monkeypatch.setattr(transfer_trial, "transform_loops", lambda *_: None)
    [row] = tried(dense(outputs=72), tmp_path, source(BLOCKS, dense))
    assert row["outcome"] == "invalid" and "a weight cannot be laid out from" in row["reason"]


def test_a_trial_whose_weight_lay_as_it_was_is_made_again_and_logs_say_how_it_lay(tmp_path):
    log = tmp_path / "log.jsonl"
    [first] = tried(dense(), tmp_path, source(BLOCKS, dense))
    text = log.read_text()
    [line] = read_ansor(log)
    row = json.loads(line.text)
    assert (first["outcome"], row["i"][0][4]) == ("exact", 2)
    row["i"][0][4] = 0
    log.write_text(text.replace(line.text, json.dumps(row)))
    transfer_trial._trials.cache_clear()
    [again] = tried(dense(), tmp_path, source(BLOCKS, dense))
    assert again["outcome"] == "exact" and again["reason"] == ""
    assert [json.loads(each.text)["i"][0][4] for each in read_ansor(log)] == [0, 2]
    # A kernel without such weights has nothing to lay out.
    transfer_trial._trials.cache_clear()
    tried(conv(), tmp_path, source(PARALLEL))
    assert json.loads(read_ansor(log)[-1].text)["i"][0][4] == 0


def test_outputs_are_compared_with_those_of_stages_by_themselves(tmp_path, monkeypatch):
    """The reference is another schedule, so a comparison that sees nothing would show."""
    seen = []
    real = transfer_trial.mismatch

    def noting(outputs, truth, tolerance):
        seen.append((outputs[-1], truth[-1]))
        return real([*outputs[:-1], 1.1 * outputs[-1]], truth, tolerance)

    monkeypatch.setattr(transfer_trial, "mismatch", noting)
    [row] = tried(conv(), tmp_path, source(PARALLEL))
    assert row["outcome"] == "wrong" and "output 3" in row["reason"]
    [(output, truth)] = seen
    np.testing.assert_allclose(output, truth, rtol=1e-4, atol=1e-4)
    assert truth.std() > 0


def test_the_reference_runs_once_a_kernel_on_a_device(tmp_path):
    """It loads each library anew, so only a digest tells that it has run already."""
    jobs, limits = [], set()

    def run(job):
        there = json.loads(json.dumps(job.arguments["arguments"]))
        jobs.append(there["function"].partition(":")[2])
        limits.add((jobs[-1], job.seconds))
        return Reply("ok", json.loads(json.dumps(device.load_and_call(**there))))

    def outcomes_of(mod, *sources):
        """Of trials on the one kernel of a module."""
        text = json.dumps(candidate(mod).to_json())
        [found] = transfer_trial.list_kernels(text)
        arguments = {"candidate": text, "workload": found["workload"], "log": str(tmp_path / "log")}
        step = f"{transfer_trial.__name__}:transfer"
        return [
            device.with_device(run, step, {**arguments, "source": each.to_json()}, "", 1)["outcome"]
            for each in sources
        ]

    schedules = [source(PARALLEL), source([["CI", 5]]), source([["CI", 5], ["AN", 1, 0, 0]])]
    assert outcomes_of(conv(), *schedules) == ["exact"] * 3
    again = ["time_kernel", "compare"]
    assert jobs == [*again, "find_truth", "compare", *again, *again]
    assert dict(limits) == {"time_kernel": 20, "compare": 20, "find_truth": 60}
    # The next kernel has its own, and the memory of the one before is free.
    assert outcomes_of(conv(size=14), schedules[0]) == ["adapted"]
    assert jobs[-4:] == [*again, "find_truth", "compare"] and len(transfer_trial._truths) == 1


def test_a_kernel_that_the_candidate_has_not_is_refused(tmp_path):
    text = json.dumps(candidate(dense()).to_json())
    with pytest.raises(LookupError, match="no kernel .*absent"):
        transfer_trial.transfer(text, "absent", source([]).to_json(), str(tmp_path / "log"))


@pytest.fixture(scope="module")
def workers():
    pool = WorkerPool(1)
    yield pool
    pool.close()


def faked(workers, tmp_path, *sources):
    module = transfer_fakes.__name__
    return Transfer(
        sources,
        tmp_path / "log.jsonl",
        workers,
        trial_seconds=20.0,
        list_step=f"{module}:list_kernels",
        trial_step=f"{module}:transfer",
    )


def test_sources_of_the_class_are_tried_the_nearest_first(workers, tmp_path):
    far, near = source([], size=64), source([], size=9)
    transfer = faked(workers, tmp_path, far, source([], dense), near)
    assert transfer.sources_for(kernel(conv)) == [near, far]
    assert transfer.to_kernel(candidate(conv()), kernel(conv), Budget(0.0)) == []
    assert transfer.untried(candidate(conv()), kernel(conv)) == [near, far]
    trials = transfer.to_kernel(candidate(conv()), kernel(conv), Budget(60.0))
    assert [trial.source for trial in trials] == [near, far]
    assert transfer.untried(candidate(conv()), kernel(conv)) == []
    # Another run has them all from the log, with how they ended.
    workers = None
    again = faked(workers, tmp_path, far, near).to_kernel(
        candidate(conv()), kernel(conv), Budget(1.0)
    )
    assert again == trials


def test_a_schedule_that_kills_the_worker_costs_itself_alone(workers, tmp_path):
    killing, fine = source([["crash", 0]]), source([["CI", 5]])
    trials = faked(workers, tmp_path, killing, fine).to_kernel(
        candidate(conv()), kernel(conv), Budget(120.0)
    )
    assert [trial.outcome for trial in trials] == ["died", "adapted"]
    assert outcomes(trials) == {"died": 1, "adapted": 1}
    assert best_of(trials) == Trial(fine, "adapted", 2e-3, "") and best_of(trials[:1]) is None
    # It is not asked for again, and its reason stays known.
    assert faked(None, tmp_path, killing).to_kernel(
        candidate(conv()), kernel(conv), Budget(1.0)
    ) == [trials[0]]


def test_kernels_that_cannot_be_listed_are_an_error_that_names_the_net(workers, tmp_path):
    transfer = faked(workers, tmp_path)
    assert transfer.kernels(candidate(conv())) == [kernel(conv)]
    with pytest.raises(TransferError, match=r"kernels of net.*it is a product.*with TVM alone"):
        transfer.kernels(candidate(dense()))


@pytest.mark.parametrize("deed, fault, tried", [("killed", "killed", 1), ("full", "folder", 0)])
def test_what_a_fault_of_the_machine_ended_is_told_and_tried_by_the_next_run(
    deed, fault, tried, workers, tmp_path, caplog
):
    """The next schedule need not meet it where a worker was killed."""
    sources = [source([[deed, 0]]), source([["CI", 5]])]
    transfer = faked(workers, tmp_path, *sources)
    trials = transfer.to_kernel(candidate(conv()), kernel(conv), Budget(120.0))
    assert [trial.source for trial in trials] == sources[1:][:tried]
    assert transfer.untried(candidate(conv()), kernel(conv)) == sources[: 2 - tried]
    [warning] = caplog.messages
    assert kernel(conv).name in warning and ADVICE[fault] in warning


def test_what_keeps_every_schedule_from_being_tried_is_an_error(workers, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    asked = candidate(conv()), kernel(conv), Budget(60.0)
    with pytest.raises(TransferError, match="on conv .*no such kernel.*transfer_log.*--without"):
        faked(workers, tmp_path, source([["broken", 0]])).to_kernel(*asked)
    monkeypatch.setattr(f"{Transfer.__module__}.note_trial", full)
    with pytest.raises(TransferError, match="log.jsonl cannot be written .No space.*make room"):
        faked(workers, tmp_path, source([["CI", 5]])).to_kernel(*asked)


# A build that measures little and keeps nothing.
SHORT = {
    "progress": "quiet",
    "store": "none",
    "workers": 1,
    "measure_seconds": 0.02,
    "guard_rounds": 3,
}


@pytest.fixture
def tvm_ships(monkeypatch):
    """TVM alone with what records there are, whatever the guard measured: times of so small a
    kernel are chance."""
    guard = importlib.import_module("tvm.relay.collage.plans.graph_search.guard")
    monkeypatch.setattr(guard, "choose", lambda *_: "tvm")


@pytest.mark.usefixtures("tvm_ships")
@pytest.mark.parametrize("is_faster", [True, False])
def test_a_build_tries_schedules_of_other_kernels_and_ships_what_is_faster(
    is_faster, tmp_path, monkeypatch
):
    monkeypatch.setattr(tuner, "_is_better", lambda after, before: is_faster)
    given, own = tmp_path / "given.jsonl", tmp_path / "own.jsonl"
    note_kernel(given, kernel(conv, kernel=1))
    append_line(given, source([["CI", 4], ["AN", 5, 0, 3]], conv, kernel=1).line)
    options = CollageOptions(
        transfer_log=[str(given)],
        tune_log=str(own),
        **SHORT,
    )
    with tvm.transform.PassContext(opt_level=3):
        result = optimize(conv(), None, [TARGET], options)
    [line] = read_ansor(own)
    assert line.workload == kernel(conv).workload and line.seconds
    report = result.to_json()
    assert report["transfers"] == {"adapted": 1}
    assert report["schedules"] == ({"transferred": 1} if is_faster else {})
    assert ("schedules: 1 transferred" in result.Summary()) == is_faster
    assert "tvm-untuned" in {item.name for item in result.guard.comparisons}

    def code(library):
        return library.get_lib().get_source("asm")

    def built(records):
        with tvm.transform.PassContext(opt_level=3), records.in_force():
            return code(build_whole(result.mod, result.host, result.executor, {}))

    with_it, without = built(load_records([own], TARGET)), built(TuningRecords((), ["ansor"]))
    assert with_it != without
    assert code(result.library) == (with_it if is_faster else without)


@pytest.mark.usefixtures("tvm_ships")
def test_logs_of_other_kinds_go_beside_schedules_to_transfer(tmp_path):
    """A record of AutoTVM's that is given serves the build, and what Ansor's schedules try."""
    given, own, autotvm = (tmp_path / name for name in ("given", "own", "autotvm"))
    note_kernel(given, kernel(conv, kernel=1))
    append_line(given, source([["CI", 4], ["AN", 5, 0, 3]], conv, kernel=1).line)
    autotvm.write_text("\n".join(some_lines("autotvm", conv(), 1)) + "\n")
    options = CollageOptions(
        transfer_log=[str(given)],
        tuning_log=[str(autotvm)],
        tune_log=str(own),
        **SHORT,
    )
    result = optimize(conv(), None, [TARGET], options)
    [line] = read_ansor(own)
    assert line.origin == "transferred"
    assert set(result.records.origins()) - {"transferred"} == {"autotvm"}
    assert {item.name for item in result.guard.comparisons} >= {"tvm", "tvm-untuned"}


def test_schedules_of_ansor_do_not_go_with_another_tuner(tmp_path):
    options = CollageOptions(transfer_log=[str(tmp_path / "absent")], tune=1, tuner="autotvm")
    with (
        pytest.raises(OptionError, match="schedules of Ansor.*set the option tuner"),
        tuning_session(options, TARGET, 1),
    ):
        pass
    options = CollageOptions(transfer_log=[str(tmp_path / "absent")])
    with pytest.raises(TuningLogError, match="absent"), tuning_session(options, TARGET, 1):
        pass
