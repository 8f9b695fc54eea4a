# SPDX-License-Identifier: Apache-2.0
"""Schedules tried on other kernels: who asks workers, and builds that ask."""

import errno
import importlib
import os

import pytest
import transfer_fakes
import tvm
from transfer_nets import TARGET, conv, dense, kernel, source
from tuned_choices import judge_as
from tuning_nets import some_lines
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.compile import build_whole
from tvm.relay.collage.errors import OptionError
from tvm.relay.collage.exec.machine_fault import ADVICE
from tvm.relay.collage.exec.pool import WorkerPool
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.measure import candidate_module
from tvm.relay.collage.tuning import TuningLogError, TuningRecords, load_records
from tvm.relay.collage.tuning.from_options import tuning_run
from tvm.relay.collage.tuning.log import note_kernel
from tvm.relay.collage.tuning.resources import Budget
from tvm.relay.collage.tuning.transfer.log import read_ansor
from tvm.relay.collage.tuning.transfer.transfer import (
    Transfer,
    TransferError,
    TransferOptions,
    Trial,
    best_of,
    outcomes,
)


def candidate(mod):
    return candidate_module(mod, "tvm", TARGET, {"opt_level": 3}, "net")


@pytest.fixture(scope="module")
def workers():
    pool = WorkerPool(1)
    yield pool
    pool.close()


def faked(workers, tmp_path, *sources):
    module = transfer_fakes.__name__
    options = TransferOptions(
        trial_seconds=20.0,
        list_step=f"{module}:list_tasks",
        trial_step=f"{module}:transfer",
    )
    return Transfer(sources, tmp_path / "log.jsonl", workers, options)


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
@pytest.mark.parametrize(("is_faster", "beside"), [(True, False), (False, True)], ids=str)
def test_a_build_tries_schedules_of_other_kernels_and_ships_what_is_faster(
    is_faster, beside, tmp_path, monkeypatch
):
    """Beside it a record of AutoTVM's that is given, which serves the build."""
    judge_as(is_faster, monkeypatch)
    given, own, autotvm = (tmp_path / name for name in ("given", "own", "autotvm"))
    autotvm.write_text("\n".join(some_lines("autotvm", conv(), 1)) + "\n")
    note_kernel(given, kernel(conv, kernel=1))
    append_line(given, source([["CI", 4], ["AN", 5, 0, 3]], conv, kernel=1).line)
    options = CollageOptions(
        transfer_log=[str(given)],
        tuning_log=[str(autotvm)] if beside else [],
        tune_log=str(own),
        **SHORT,
    )
    with tvm.transform.PassContext(opt_level=3):
        result = optimize(conv(), None, [TARGET], options)
    [line] = read_ansor(own)
    assert line.workload == kernel(conv).workload and line.seconds
    assert line.origin == "transferred"
    report = result.to_json()
    assert report["transfers"] == {"adapted": 1}
    given = {"autotvm": 1} if beside else {}
    assert report["schedules"] == ({"transferred": 1} if is_faster else given)
    assert ("schedules: 1 transferred" in result.Summary()) == is_faster
    assert "tvm-untuned" in {item.name for item in result.guard.comparisons}

    def code(library):
        return library.get_lib().get_source("asm")

    def built(records):
        with tvm.transform.PassContext(opt_level=3), records.in_force():
            return code(build_whole(result.mod, result.host, result.executor, {}))

    default = load_records([autotvm], TARGET) if beside else ()
    with_it, without = built(load_records([own], TARGET)), built(TuningRecords(default, ["ansor"]))
    assert with_it != without
    assert code(result.library) == (with_it if is_faster else without)


def test_schedules_of_ansor_do_not_go_with_another_tuner(tmp_path):
    options = CollageOptions(transfer_log=["absent"], tune=1, tuner="autotvm").tuning
    with (
        pytest.raises(OptionError, match="schedules of Ansor.*set the option tuner"),
        tuning_run(options, TARGET, 1),
    ):
        pass
    options = CollageOptions(transfer_log=[str(tmp_path / "absent")]).tuning
    with pytest.raises(TuningLogError, match="absent"), tuning_run(options, TARGET, 1):
        pass
