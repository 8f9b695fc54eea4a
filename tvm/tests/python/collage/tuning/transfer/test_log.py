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


def test_sources_are_the_best_trials_of_the_kernels_that_are_told(log, caplog):
    [found] = sources_of([log])
    [message] = caplog.messages  # of the product
    assert message.startswith(f"1 of 2 kernels in {log} cannot be transferred: no comment of a log")
    assert "`collage tt autoschedule MODEL --log LOG --trials 1`, with the model that" in message
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


def build(log):
    """What a build does that is to transfer a log's schedules."""
    with tuning_run(CollageOptions(transfer_log=[str(log)]).tuning, TARGET, 1):
        pass


@pytest.mark.parametrize("text", ["", "# trial {}\n", "autotvm"], ids=["empty", "comment", "other"])
@pytest.mark.parametrize("read", [read_given, lambda path: sources_of([path]), build])
def test_a_log_without_trials_of_ansors_is_no_source(tmp_path, text, read):
    log, lines = tmp_path / "other.jsonl", some_lines("autotvm", conv(), 1)
    log.write_text("\n".join(lines) + "\n" if text == "autotvm" else text)
    assert read_ansor(log) == []  # as of a log for new trials
    with pytest.raises(TuningLogError) as caught:
        read(log)
    fault = f"tuning log {log} has no trials"
    if text == "autotvm":
        fault = (
            f"tuning log {log}: all its trials are of autotvm, and only those of ansor can be used "
            "here"
        )
    assert str(caught.value) == (
        f"{fault}: name a log of `collage tt autoschedule`, or of a build with the options tune=N "
        "and tuner=ansor"
    )


def test_a_log_may_have_trials_of_other_tuners_beside_ansors(log):
    append_line(log, some_lines("autotvm", conv(), 1)[0])
    assert len(read_given(log)) == 4 and len(sources_of([log])) == 1


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


def test_transfers_say_how_long_they_took(tmp_path):
    log = tmp_path / "log.jsonl"
    assert transfer_seconds(log) == 0.0
    for key, took in (("a", 1.5), ("b", 2.0)):
        note_trial(log, key, {"outcome": "invalid", "seconds": None, "reason": "", "took": took})
    note_trial(log, "old", {"outcome": "invalid", "seconds": None, "reason": ""})
    assert transfer_seconds(log) == 3.5
