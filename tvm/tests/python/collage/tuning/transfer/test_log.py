# SPDX-License-Identifier: Apache-2.0
"""Logs of Ansor that tell of kernels."""

import json

import pytest
from transfer_nets import TARGET, conv, dense, kernel, source
from tuning_nets import some_lines
from tvm.auto_scheduler import RecordReader
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.process_wide import logs
from tvm.relay.collage.tuning import TuningLogError, load_records
from tvm.relay.collage.tuning.from_options import tuning_run
from tvm.relay.collage.tuning.log import kernels_of, note_kernel
from tvm.relay.collage.tuning.records import built_as
from tvm.relay.collage.tuning.transfer.log import (
    note_trial,
    read_ansor,
    read_given,
    steps_of,
    tells_of_trials,
    transfer_seconds,
    trial_key,
    trials_of,
)
from tvm.relay.collage.tuning.transfer.sources import distil, sources_of

STEPS = [["AN", 3, 0, 3]]


@pytest.fixture
def log(tmp_path):
    """Two trials of a convolution, one of a product that no comment tells of."""
    path = tmp_path / "ansor.jsonl"
    note_kernel(path, kernel(conv))
    for seconds in (3e-3, 1e-3, 2e-3):
        append_line(path, source(STEPS, conv, seconds).line)
    append_line(path, source([], dense).line)
    return path


def test_a_kernel_is_noted_once(log):
    before = log.read_text()
    note_kernel(log, kernel(conv))
    assert log.read_text() == before and kernels_of(log) == {kernel(conv).workload: kernel(conv)}
    assert kernels_of(log.with_name("absent")) == {}


def test_a_log_with_kernels_is_still_ansors(log):
    inputs, results = RecordReader(str(log)).read_lines()
    assert len(inputs) == len(results) == 4
    assert len(load_records([log], "llvm -mcpu=x86-64-v2 -num-cores=2")) == 2


def test_sources_are_the_best_trials_of_the_kernels_that_are_told(log):
    [found] = sources_of([log])
    assert (found.kernel, found.log) == (kernel(conv), str(log))
    assert steps_of(found.line) == STEPS and json.loads(found.line)["r"][0] == [1e-3]
    assert [json.loads(each.line)["r"][0] for each in sources_of([log], 2)] == [[1e-3], [2e-3]]
    # Another log may tell of the kernel.
    note_kernel(log.with_name("kernels.jsonl"), kernel(dense))
    append_line(log.with_name("kernels.jsonl"), source(STEPS, conv, 1.0).line)
    assert len(sources_of([log, log.with_name("kernels.jsonl")])) == 3
    with pytest.raises(TuningLogError, match=r"absent.*No such file"):
        sources_of([log.with_name("absent")])


def test_the_best_trials_of_each_kernel_are_kept_and_failed_ones_never(log):
    failed = {**json.loads(source([], conv).line), "r": [[1e10], 4, 0.1, 1.0]}
    append_line(log, json.dumps(failed))
    assert [line.seconds for line in distil(read_ansor(log), 2)] == [1e-3, 2e-3, 1e-3]
    assert [line.seconds for line in distil(read_ansor(log), 9)] == [1e-3, 2e-3, 3e-3, 1e-3]


def test_how_trials_ended_is_kept_beside_the_log(log):
    one, other = (trial_key("llvm", kernel(conv), source(steps, conv)) for steps in ([], STEPS))
    assert one != other != trial_key("cuda", kernel(conv), source(STEPS, conv))
    note_trial(log, one, {"outcome": "invalid", "seconds": None, "reason": "no\nsuch loop"})
    note_trial(log, other, {"outcome": "adapted", "seconds": 2e-3, "reason": ""})
    with log.open("a") as file:
        file.write('# trial {"outcome": \n# trial 3\n# trial {}\n')
    found = trials_of(log)
    assert found[one]["reason"] == "no\nsuch loop" and found[other]["seconds"] == 2e-3
    assert len(found) == 2 and len(read_ansor(log)) == 4


def test_trials_of_kernels_as_builds_no_longer_make_them_are_told_once_and_do_not_count(
    log, caplog, monkeypatch
):
    monkeypatch.setattr(logs, "warned", set())
    facts = {"outcome": "invalid", "seconds": None, "reason": "no such loop"}
    for key in ("one", "other"):  # as versions wrote it whose builds left weights as they were
        append_line(log, "# trial " + json.dumps({**facts, "key": key}))
    for _ in range(2):
        assert trials_of(log) == {}
    [record] = caplog.records
    assert str(log) in record.getMessage() and built_as("ansor") in record.getMessage()
    assert "collage tt transfer" in record.getMessage()
    # Once each was made anew there is nothing to tell.
    caplog.clear()
    monkeypatch.setattr(logs, "warned", set())
    for key in ("one", "other"):
        note_trial(log, key, {**facts, "reason": "another"})
    assert [trials_of(log)[key]["reason"] for key in ("one", "other")] == ["another"] * 2
    assert not caplog.records


def test_kernels_that_no_log_tells_of_are_left_out_with_a_warning(log, caplog):
    assert [each.kernel for each in sources_of([log])] == [kernel(conv)]
    [message] = caplog.messages
    assert message.startswith(f"1 of 2 kernels in {log} cannot be transferred: no comment of a log")
    assert "`collage tt autoschedule MODEL --log LOG --trials 1`, with the model that" in message


def test_a_log_of_another_tuner_is_no_source(log):
    """Unless it has trials of Ansor's too."""
    lines = some_lines("autotvm", conv(), 1)
    other = log.with_name("other.jsonl")
    other.write_text("\n".join(lines) + "\n")
    assert read_ansor(other) == []  # as of a log for new trials
    wanted = f"{other}: all its trials are of autotvm, and only those of ansor can be used here"
    for read in (read_given, lambda path: sources_of([log, path])):
        with pytest.raises(TuningLogError) as caught:
            read(other)
        assert wanted in str(caught.value)
        assert "name a log of `collage tt autoschedule`, or of a build with" in str(caught.value)
    options = CollageOptions(transfer_log=[str(other)]).tuning
    with pytest.raises(TuningLogError) as caught, tuning_run(options, TARGET, 1):
        pass
    assert wanted in str(caught.value)
    append_line(log, lines[0])
    assert len(read_given(log)) == 4 and len(sources_of([log])) == 1


@pytest.mark.parametrize("text", ["", "# trial {}\n"], ids=["empty", "comment"])
def test_a_log_without_trials_is_no_source(log, text):
    other = log.with_name("other.jsonl")
    other.write_text(text)
    assert read_ansor(other) == []  # as of a log for new trials
    options = CollageOptions(transfer_log=[str(other)]).tuning

    def build(_):
        with tuning_run(options, TARGET, 1):
            pass

    for read in (read_given, lambda path: sources_of([log, path]), build):
        with pytest.raises(TuningLogError) as caught:
            read(other)
        assert str(caught.value) == (
            f"tuning log {other} has no trials: name a log of `collage tt autoschedule`, or of a "
            "build with the options tune=N and tuner=ansor"
        )


def test_what_is_no_log_is_told_to_be_no_log_of_ansors(log):
    for read in (read_ansor, read_given):
        with pytest.raises(TuningLogError) as caught:
            read(log.with_name("absent"))
        assert str(caught.value).endswith(
            "absent: No such file or directory; it should be a log of Ansor's, such as `collage tt "
            "autoschedule` or `collage tt transfer` writes"
        )


def test_a_log_tells_of_trials_also_of_such_as_do_not_count(log):
    assert not tells_of_trials(log) and not tells_of_trials(log.with_name("absent"))
    assert not tells_of_trials(log.parent)  # as of a folder of MetaSchedule's
    append_line(log, "# trial {}")
    assert tells_of_trials(log) and not trials_of(log)


def test_steps_and_workload_are_where_ansor_has_them():
    line = source([["CI", 1]], conv).line
    assert steps_of(line) == [["CI", 1]] and json.loads(line)["i"][0][0] == kernel(conv).workload


def test_transfers_say_how_long_they_took(tmp_path):
    log = tmp_path / "log.jsonl"
    assert transfer_seconds(log) == 0.0
    for key, took in (("a", 1.5), ("b", 2.0)):
        note_trial(log, key, {"outcome": "invalid", "seconds": None, "reason": "", "took": took})
    note_trial(log, "old", {"outcome": "invalid", "seconds": None, "reason": ""})
    assert transfer_seconds(log) == 3.5
