# SPDX-License-Identifier: Apache-2.0
"""A worker's trials of a schedule on another kernel: adapted, built, checked and timed."""

import errno
import json
import os

import numpy as np
import pytest
from transfer_nets import TARGET, conv, dense, kernel, source
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.resolve import call_of
from tvm.relay.collage.measure import candidate_module
from tvm.relay.collage.tuning import load_records, trial, worker
from tvm.relay.collage.tuning.log import kernels_of
from tvm.relay.collage.tuning.transfer import schedule_trial
from tvm.relay.collage.tuning.transfer.log import read_ansor, steps_of
from tvm.relay.collage.tuning.transfer.sources import sources_of

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
    return candidate_module(mod, "tvm", TARGET, {"opt_level": 3}, "net").to_json()


def tried(mod, tmp_path, *sources):
    """What trials on the one kernel of a module come to, in a worker that has made none yet."""
    schedule_trial.trials_on.cache_clear()
    net, log = candidate(mod), str(tmp_path / "log.jsonl")
    [found] = worker.list_tasks(net, "ansor")
    return [
        schedule_trial.transfer(net, found["workload"], each.to_json(), log) for each in sources
    ]


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
    # The reference is another schedule, so a comparison that sees nothing would show.
    seen, real = [], schedule_trial.mismatch

    def noting(outputs, truth, tolerance):
        seen.append((outputs[-1], truth[-1]))
        return real([*outputs[:-1], 1.1 * outputs[-1]], truth, tolerance)

    monkeypatch.setattr(schedule_trial, "mismatch", noting)
    [row] = tried(conv(), tmp_path, source(PARALLEL))
    assert row["outcome"] == "wrong" and "output 3" in row["reason"]
    [(output, truth)] = seen
    np.testing.assert_allclose(output, truth, rtol=1e-4, atol=1e-4)
    assert truth.std() > 0
    assert not load_records([tmp_path / "log.jsonl"], TARGET)
    # A failed trial is not made again either.
    assert tried(conv(), tmp_path, source(PARALLEL))[0]["outcome"] == "failed"


@pytest.mark.parametrize(
    "step, error",
    [
        ("adapt", AttributeError("a fault of ours")),
        ("adapt", TypeError("a fault of ours")),
        ("build_kernel", MemoryError("of the machine")),
        ("build_kernel", TypeError("a fault of ours")),
        ("seconds_of_kernel", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
        ("seconds_of_kernel", AttributeError("a fault of ours")),
        ("compare", TypeError("a fault of ours")),
    ],
    ids=str,
)
def test_what_is_no_doing_of_a_schedule_is_no_trial(step, error, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise error

    fakes = {"seconds_of_kernel": [1e-3]} if step == "compare" else {}
    if step == "seconds_of_kernel":
        fakes["build_kernel"] = None  # a kernel that nobody runs
    for name, value in fakes.items():
        monkeypatch.setattr(schedule_trial, name, lambda *_, value=value: value)
    monkeypatch.setattr(schedule_trial, step, fail)
    with pytest.raises(type(error)):
        tried(conv(), tmp_path, source(PARALLEL))
    assert not read_ansor(tmp_path / "log.jsonl")


def test_weights_are_in_the_layout_that_a_schedule_reads(tmp_path, monkeypatch):
    seen, mod = [], dense(outputs=48)
    real, turned = schedule_trial.mismatch, schedule_trial.transform_loops

    def noting(outputs, truth, tolerance):
        seen.append((outputs[1].shape, truth[1].shape))
        return real(outputs, truth, tolerance)

    def trial(name):
        (tmp_path / name).mkdir()
        [row] = tried(mod, tmp_path / name, source(BLOCKS, dense))
        return row["outcome"], row["reason"]

    monkeypatch.setattr(schedule_trial, "mismatch", noting)
    assert trial("as it is") == ("adapted", "")
    assert seen == [((6, 32, 8), (6, 32, 8))]
    # A weight that lies otherwise is another function.
    monkeypatch.setattr(schedule_trial, "transform_loops", lambda a, *b: turned(a, *b)[::-1])
    assert trial("otherwise")[0] == "wrong"
    monkeypatch.setattr(schedule_trial, "transform_loops", lambda *_: None)
    outcome, reason = trial("not at all")
    assert outcome == "invalid" and "a weight cannot be laid out from" in reason


def test_a_trial_whose_weight_lay_as_it_was_is_made_again_and_logs_say_how_it_lay(tmp_path):
    log = tmp_path / "log.jsonl"
    [first] = tried(dense(), tmp_path, source(BLOCKS, dense))
    text = log.read_text()
    [line] = read_ansor(log)
    row = json.loads(line.text)
    assert (first["outcome"], row["i"][0][4]) == ("exact", 2)
    row["i"][0][4] = 0
    log.write_text(text.replace(line.text, json.dumps(row)))
    [again] = tried(dense(), tmp_path, source(BLOCKS, dense))
    assert again["outcome"] == "exact" and again["reason"] == ""
    assert [json.loads(each.text)["i"][0][4] for each in read_ansor(log)] == [0, 2]
    # A kernel without such weights has nothing to lay out.
    tried(conv(), tmp_path, source(PARALLEL))
    assert json.loads(read_ansor(log)[-1].text)["i"][0][4] == 0


def test_the_reference_runs_once_a_kernel_on_a_device(tmp_path):
    """It loads each library anew, so only a digest tells that it has run already."""
    jobs, limits = [], set()

    def run(job):
        there = json.loads(json.dumps(job.arguments["arguments"]))
        jobs.append(there["call"]["function"].partition(":")[2])
        limits.add((jobs[-1], job.seconds))
        return Reply("ok", json.loads(json.dumps(trial.load_and_call(**there))))

    def outcomes_of(mod, *sources):
        """Of trials on the one kernel of a module."""
        net, step = candidate(mod), f"{schedule_trial.__name__}:transfer"
        [found] = worker.list_tasks(net, "ansor")
        asked = {"candidate": net, "workload": found["workload"], "log": str(tmp_path / "log")}
        calls = [call_of(step, **asked, source=each.to_json()) for each in sources]
        return [
            trial.with_device(call, run=run, compiler="", num_threads=1)["outcome"]
            for call in calls
        ]

    schedules = [source(PARALLEL), source([["CI", 5]])]
    assert outcomes_of(conv(), *schedules) == ["exact"] * 2
    again = ["time_kernel", "compare"]
    assert jobs == [*again, "find_truth", "compare", *again]
    assert dict(limits) == {"time_kernel": 20, "compare": 20, "find_truth": 60}
    # The next kernel has its own, and the memory of the one before is free.
    assert outcomes_of(conv(size=14), schedules[0]) == ["adapted"]
    assert jobs[-4:] == [*again, "find_truth", "compare"] and len(schedule_trial.TRUTHS) == 1


def test_a_kernel_that_the_candidate_has_not_is_refused(tmp_path):
    with pytest.raises(LookupError, match="no kernel .*absent"):
        schedule_trial.transfer(
            candidate(dense()), "absent", source([]).to_json(), str(tmp_path / "log")
        )
