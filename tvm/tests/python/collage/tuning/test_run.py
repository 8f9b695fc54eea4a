# SPDX-License-Identifier: Apache-2.0
"""A run of a tuner on a fake search: which tasks it asks for, when it ends, what of it counts."""

import contextlib
import dataclasses
import logging

import pytest
import tuning_fakes
from tuning_fakes import TARGET, WAIT, kernel, source, waiting_clock, workload
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.errors import BackendUnavailableError
from tvm.relay.collage.exec.pool import WorkerPool
from tvm.relay.collage.machine.environment import cpu_model, thread_text
from tvm.relay.collage.measure import CandidateModule, Cost
from tvm.relay.collage.tuning import TuningRecords, from_options, load_records, read_log, resources
from tvm.relay.collage.tuning.resources import DeviceTrials
from tvm.relay.collage.tuning.run import RunOptions, TuningRun
from tvm.relay.collage.tuning.transfer.log import note_trial, trial_key
from tvm.relay.collage.tuning.tuner import SearchOptions


@pytest.fixture(scope="module")
def workers():
    pool = WorkerPool(1)
    yield pool
    pool.close()


class World:
    """A log, notes of what workers were asked, and costs by whether a candidate has records."""

    def __init__(self, folder, workers):
        self.log, self.notes, self.workers = folder / "tune.jsonl", folder / "notes", workers
        self.estimated = []
        self.slower = ()
        self.limits = []  # of the searches, in seconds

    def tuner(self, trials=4, **changes):
        options = RunOptions(
            SearchOptions("autotvm", trials, str(self.log)),
            list_step="tuning_fakes:list_tasks",
            tune_step="tuning_fakes:tune_task",
        )
        return TuningRun(dataclasses.replace(options, **changes), TARGET, self)

    def run(self, jobs, concurrency=None):
        """As a pool of workers."""
        searches = [job for job in jobs if job.arguments["function"] == "tuning_fakes:tune_task"]
        self.limits += [round(job.seconds) for job in searches]
        return self.workers.run(jobs, concurrency)

    def candidate(self, label, size=1):
        plain = CandidateModule(
            backend="tvm",
            target=TARGET,
            hash=label,
            module="x" * size,
            build_options={"notes": str(self.notes)},
            label=label,
        )

        def with_records(records):
            options = {**plain.build_options, "tuning": records.digest()}
            return dataclasses.replace(plain, build_options=options, records=records.to_json())

        return plain, with_records

    def tune(self, tuner, *labels):
        tuner.tune([self.candidate(label, len(label)) for label in labels], self.estimate)

    def estimate(self, candidates):
        self.estimated += [candidate.label for candidate in candidates]
        return [Cost.estimated(self.seconds(candidate)) for candidate in candidates]

    def seconds(self, candidate):
        if not candidate.records:
            return 2.0
        return 3.0 if candidate.label in self.slower else 1.0

    def asked(self):
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [line for line in lines if line != "list"], lines.count("list")


@pytest.fixture
def world(tmp_path, workers):
    return World(tmp_path, workers)


def trials(world, word):
    return sum(line.workload == workload(word) for line in read_log(world.log))


def words(records):
    return sorted(line.split('"')[5] for line in records.to_json().get("autotvm", []))


def test_each_task_is_tuned_once_by_the_smallest_candidate_that_has_it(world):
    tuner = world.tuner()
    world.tune(tuner, "dense conv dense", "conv", "dense")
    assert world.asked() == ([workload("conv"), workload("dense")], 3)
    assert world.estimated == ["conv", "dense"] * 2
    world.tune(tuner, "conv", "conv dense")
    assert world.asked() == ([], 1)
    assert (trials(world, "conv"), trials(world, "dense")) == (4, 4)
    assert words(tuner.records) == ["conv", "dense"]
    assert "2 tasks tuned, 0 known" in tuner.Summary()


def test_the_log_is_the_memory_of_later_searches(world):
    world.tune(world.tuner(), "conv")
    world.asked()
    again = world.tuner()
    world.tune(again, "conv", "dense")
    assert world.asked()[0] == [workload("dense")]
    assert list(again.known.values()) == ["conv"] and words(again.records) == ["conv", "dense"]
    more = world.tuner(trials=6)
    world.tune(more, "conv")
    assert world.asked()[0] == [workload("conv")] and trials(world, "conv") == 6


def test_the_best_trial_that_ran_is_the_record(world):
    tuner = world.tuner(trials=6)
    world.tune(tuner, "conv")
    [line] = tuner.records.to_json()["autotvm"]
    assert '"index": 3' in line
    assert load_records([world.log], TARGET).digest() == tuner.records.digest()
    failing = world.tuner(trials=1)
    world.tune(failing, "dense")
    assert not failing.records and not failing.slower


def test_a_record_that_is_slower_than_the_default_schedule_is_dropped(world):
    world.slower = ("conv",)
    tuner = world.tuner()
    world.tune(tuner, "conv", "dense")
    assert list(tuner.slower.values()) == ["conv"] and words(tuner.records) == ["dense"]
    world.tune(tuner, "conv conv")
    assert words(tuner.records) == ["dense"]


@pytest.mark.parametrize(
    ("word", "reason"), [("crash", "SIGSEGV"), ("raise", "no schedule for this"), ("hang", "ended")]
)
def test_a_search_that_fails_is_data_and_its_trials_count(world, word, reason, caplog):
    tuner = world.tuner(seconds=2.0 if word == "hang" else 600.0)
    with caplog.at_level(logging.WARNING):
        world.tune(tuner, word, "conv")
    assert reason in tuner.failed[workload(word)]
    assert word in caplog.records[0].getMessage()
    assert trials(world, word) >= 1
    if word == "hang":
        assert "no time left" in tuner.failed[workload("conv")] and not tuner.searched
    else:
        assert list(tuner.searched.values()) == ["conv"]


def told_to(told):
    """A progress that notes each step, and whether it is one of waiting."""

    def on_step(*step, is_waiting=False):
        told.append((*step, is_waiting))

    return lambda: contextlib.nullcontext(on_step)


def test_a_task_takes_at_most_twice_its_share_and_is_told_of(world):
    """So that one that hangs leaves time for the others."""
    told, names = [], ["conv", "dense", "pooled", "softmax"]  # smallest candidate first
    world.tune(world.tuner(seconds=120.0, progress=told_to(told)), *names)
    assert told == [(name, n, 4, False) for n, name in enumerate(names)]
    assert world.limits[0] == 60 and world.limits[-1] > world.limits[0]


def test_waiting_for_another_search_is_told_of_and_takes_none_of_the_time(world, monkeypatch):
    """Only the wait moves the clock."""
    waiting_clock(monkeypatch)
    told = []
    tuner = world.tuner(seconds=120.0, progress=told_to(told))
    world.tune(tuner, "conv", "dense")
    assert list(tuner.searched.values()) == ["conv", "dense"] and not tuner.failed
    assert world.limits == [120, 120]
    assert told == [
        ("conv", 0, 2, False),
        (WAIT, 0, 2, True),
        ("dense", 1, 2, False),
        (WAIT, 1, 2, True),
    ]


def test_who_asks_the_log_alone_waits_for_nobody(world, monkeypatch):
    """Another search has the CPUs, and all trials of others' schedules are in the log."""

    def lock(on_wait):
        raise AssertionError("the CPUs are another's")

    monkeypatch.setattr(resources, "cpus_for_measuring", lock)
    key = trial_key(TARGET, kernel("conv"), source("conv"))
    note_trial(world.log, key, {"outcome": "exact", "seconds": 1e-3, "reason": ""})
    tuner = world.tuner(trials=0, sources=[source("conv")])
    world.tune(tuner, "conv")
    [[known]] = tuner.transferred.values()
    assert (known.source, known.outcome) == (source("conv"), "exact")
    assert tuner.transfers == {"exact": 1}
    assert "1 given others' schedules (1 exact), " in tuner.Summary()


def test_where_schedules_cannot_be_tried_the_task_alone_is_given_up(world, caplog):
    """A worker cannot list the kernels of these candidates, which are none."""
    tuner = world.tuner(sources=[source("conv")])
    world.tune(tuner, "conv", "dense")
    [(task, reason)] = tuner.failed.items()
    assert task == workload("conv")
    assert reason.startswith("conv: the kernels of conv cannot be found") and reason in caplog.text
    assert list(tuner.searched.values()) == ["dense"] and words(tuner.records) == ["dense"]
    assert tuner.transfers == {}


def test_a_search_that_was_killed_goes_on_where_its_log_ends(world):
    tuner = world.tuner()
    world.tune(tuner, "killed_once")
    assert world.asked()[0] == [workload("killed_once")] * 2
    assert trials(world, "killed_once") == 4 and tuner.searched
    assert len(world.log.read_text().splitlines()) == 5  # the half line stays, alone


def test_tasks_that_cannot_be_listed_are_none(world, caplog):
    tuner = world.tuner()
    with caplog.at_level(logging.WARNING):
        world.tune(tuner, "unlisted")
    assert "no tasks of this" in caplog.text and not tuner.records and not world.estimated


def test_what_has_a_record_already_is_not_tuned(world):
    tuning_fakes.append_line(world.log, tuning_fakes.line(workload("conv"), 1))
    given = load_records([world.log], TARGET)
    world.log.unlink()
    tuner = world.tuner(given=given)
    world.tune(tuner, "conv", "dense")
    assert world.asked()[0] == [workload("dense")] and words(tuner.records) == ["dense"]


def test_trials_for_another_target_are_not_this_ones(world):
    text = tuning_fakes.line(workload("conv"), 3).replace(TARGET, f"{TARGET} -mcpu=other")
    for _ in range(4):
        tuning_fakes.append_line(world.log, text)
    world.tune(world.tuner(), "conv")
    assert world.asked()[0] == [workload("conv")]


def options(**changes):
    fields = {
        "tune": 4,
        "tuner": "autotvm",
        "tune_model": "random",
        "tune_log": "",
        "tune_seconds": 1.0,
        "seed": 0,
        "progress": "quiet",
    }
    return CollageOptions(**{**fields, **changes}).tuning


def test_without_xgboost_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(from_options.importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(BackendUnavailableError, match=r"tvm-collage\[tune\].*tune_model to random"),
        from_options.tuning_run(options(tune_model="xgb"), TARGET, 1),
    ):
        pass


def test_a_search_has_a_tuner_only_where_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with from_options.tuning_run(options(tune=0), TARGET, 1) as tuner:
        assert tuner is None
    with from_options.tuning_run(options(), TARGET, 1) as tuner:
        assert tuner.tuner == "autotvm"
    default = from_options.default_log("autotvm")
    assert default.is_relative_to(tmp_path) and default != from_options.default_log("ansor")
    assert default.parent.is_dir()
    # A device's log is its own, and the same that a search on the device itself would have.
    device = DeviceTrials(None, cpu_model(), thread_text(), 1)
    assert from_options.default_log("autotvm", device) == default
    for other in ({"cpu": "another"}, {"threads": "another"}):
        log = from_options.default_log("autotvm", dataclasses.replace(device, **other))
        assert log != default and log.parent == default.parent
    monkeypatch.setenv("TVM_NUM_THREADS", "17")
    assert default != from_options.default_log("autotvm")
    assert not TuningRecords()
