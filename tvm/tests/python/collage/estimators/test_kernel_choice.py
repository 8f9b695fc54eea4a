# SPDX-License-Identifier: Apache-2.0
"""Kernels of steps chosen by measuring: what is asked of the store and of workers, on fakes."""

import dataclasses
import itertools
import time
import types

import numpy as np
import pytest
import tvm
from kernel_choices import trial_timing
from tvm import relay
from tvm.relay.collage.backends import Backend
from tvm.relay.collage.costs.kernel import KernelRuns, KernelStep, kernels_in
from tvm.relay.collage.estimators.kernel_choice import choose_kernels
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.measure.options import MeasureOptions
from tvm.relay.collage.measure.profiler import kernel_trials

SECONDS = {"slow": 2e-3, "fast": 1e-3, "even": 2e-3}


def step(text, *kernels):
    return KernelStep("fake", text, f"step {text}", kernels or tuple(SECONDS))


class Fake(Backend):
    name = "fake"
    steps = ()
    failing = ()
    weight_bytes = 0
    wrong = ()

    def __init__(self):
        self.opened, self.disturbed, self.delayed = [], {}, {}

    def kernel_steps(self, function):
        return self.steps

    def kernel_runs(self, text, kernel, seed):
        if kernel in self.failing:
            raise ValueError(f"no {kernel} for {text}")

        def opened():
            first = self.opened.count(kernel) == 0
            self.opened.append(kernel)
            disturbed = [self.disturbed.get(kernel, 0.0)] if first else []
            runs = itertools.count()

            def run():
                delay = self.delayed.get((kernel, next(runs)), 0.0)
                time.sleep(delay + (disturbed.pop() if disturbed else SECONDS[kernel]))

            return run

        result = np.full((4,), 5.0 if kernel in self.wrong else 3.0, "float32")
        return KernelRuns(opened, self.weight_bytes, [tvm.nd.array(result)])


class Estimator:
    """Answers jobs from a table, and keeps what it is told to."""

    options = MeasureOptions()

    def __init__(self, kept=None, fatal=()):
        self.kept, self.jobs, self.fatal = dict(kept or {}), [], fatal

    def now(self):
        """How slow the machine is: it differs from job to job, not within one."""
        return 1 + len(self.jobs) % 3 / 20

    def look_up(self, trials):
        return [self.kept.get((trial.hash, trial.kernel)) for trial in trials]

    def keep(self, trial, cost):
        self.kept[trial.hash, trial.kernel] = cost

    def run_measuring(self, job):
        kernels = job.arguments["arguments"]["kernels"]
        self.jobs.append(kernels)
        if set(kernels) & set(self.fatal):
            return Reply("died", message="killed by SIGSEGV"), lambda cost: cost
        samples = {kernel: [self.now() * SECONDS[kernel]] * 6 for kernel in kernels}
        return Reply("ok", {"samples": samples, "failed": {}}), lambda cost: cost


@pytest.fixture
def fake(monkeypatch):
    backend = Fake()
    for name in ("get_backend", "find_backend"):
        monkeypatch.setattr(kernel_trials, name, lambda _: backend)
    return backend


def choose(estimator, parts=1, **options):
    x = relay.var("x", shape=(4,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], x)))
    function = mod["main"].with_attr("Compiler", "fake")
    session = types.SimpleNamespace(estimator=estimator)
    return {c.label: c.kernel for c in choose_kernels(session, [function] * parts, **options)}


def test_the_last_are_measured_by_the_kernels_that_were_chosen_for_the_others(fake):
    def kernel_steps(function):
        told = sorted(kernel for kernel, _ in kernels_in(function).values())
        last = dataclasses.replace(step(f"whole by {told}", "slow", "even"), is_last=True)
        return [step("a", "slow", "even", "fast"), last]

    fake.kernel_steps = kernel_steps
    estimator = Estimator()
    assert choose(estimator) == {"step a": "fast", "step whole by ['fast']": "slow"}
    assert estimator.jobs == [("slow", "even", "fast"), ("slow", "even")]
    assert choose(estimator) == {"step a": "fast", "step whole by ['fast']": "slow"}
    assert len(estimator.jobs) == 2, "both are known now"


def test_each_step_is_measured_once_and_runs_by_the_fastest(fake):
    fake.steps = [step("a"), step("b", "slow", "even"), step("one kernel", "slow"), step("a")]
    estimator = Estimator()
    assert choose(estimator, parts=3) == {"step a": "fast", "step b": "slow"}
    assert estimator.jobs == [("slow", "fast", "even"), ("slow", "even")]
    assert len(estimator.kept) == 5


def test_steps_that_there_is_no_time_for_are_the_backends_to_choose(fake, caplog):
    fake.steps = [step("a"), step("b"), step("c")]
    estimator = Estimator()
    left = iter([1.0, 0.0])
    limit = types.SimpleNamespace(left=lambda share: next(left))
    assert choose(estimator, limit=limit) == {"step a": "fast"} and len(estimator.jobs) == 1
    assert "no time for the kernels of 2 steps" in caplog.text


def test_those_of_the_most_work_are_first_and_time_ends_them(fake, caplog):
    caplog.set_level("INFO")
    small, large = (dataclasses.replace(step(n), work=w) for n, w in (("small", 1), ("large", 9)))
    last = dataclasses.replace(step("whole"), is_last=True)
    fake.steps = [small, large, last]
    told = []
    choose(Estimator(), on_step=lambda label, *_: told.append(label))
    assert told == ["step large", "step small", "step whole"]

    class Slow(Estimator):
        def run_measuring(self, job):
            time.sleep(0.02)
            return super().run_measuring(job)

    # Of each kind one at least.
    assert choose(Slow(), seconds=0.01) == {"step large": "fast", "step whole": "fast"}
    assert "the time for kernels is over: 1 steps are left" in caplog.text


def test_what_the_store_knows_is_not_measured(fake):
    fake.steps = [step("a")]
    first = Estimator()
    choose(first)
    again = Estimator(first.kept)
    assert choose(again) == {"step a": "fast"} and again.jobs == []
    first.kept.popitem()
    partly = Estimator(first.kept)
    assert choose(partly) == {"step a": "fast"} and len(partly.jobs) == 1


def test_a_kernel_that_takes_its_worker_along_is_found_by_itself(fake):
    fake.steps = [step("a")]
    estimator = Estimator(fatal=["fast"])
    assert choose(estimator) == {"step a": "slow"}
    alone = [("slow",), ("fast",), ("even",)]
    assert estimator.jobs == [("slow", "fast", "even"), *alone, ("slow", "even")]
    statuses = [cost.status for cost in estimator.kept.values()]
    assert statuses == ["measured", "crashed", "measured"]


def test_a_fault_of_the_machine_is_not_kept(fake):
    fake.steps = [step("a")]
    estimator = Estimator()
    fault = Reply("died", message="out of memory", fault="memory")
    estimator.run_measuring = lambda job: (fault, lambda cost: cost)
    assert choose(estimator) == {"step a": "slow"} and not estimator.kept


def test_a_backend_that_cannot_list_its_kernels_has_none(fake, caplog):
    def fails(function):
        raise RuntimeError("not today")

    fake.kernel_steps = fails
    assert choose(Estimator()) == {}
    assert "not today" in caplog.text


def test_what_slows_a_round_says_nothing_of_a_kernel(fake):
    """Rounds differ by a factor of 30, kernels by one of 1.1."""
    fake.steps = [step("a", "slow", "fast")]
    estimator = Estimator()
    load = [1.0, 30.0, 2.0, 5.0] * 3
    samples = {"slow": [1.1e-3 * each for each in load], "fast": [1e-3 * each for each in load]}
    answer = Reply("ok", {"samples": samples, "failed": {}})
    estimator.run_measuring = lambda job: (answer, lambda cost: cost)
    assert choose(estimator) == {"step a": "fast"}
    slow, fast = estimator.kept.values()
    assert fast.seconds == pytest.approx(slow.seconds / 1.1)
    assert fast.high == pytest.approx(fast.seconds)


def test_a_worker_times_each_kernel_and_says_what_failed(fake):
    fake.failing = ["even"]
    found = kernel_trials.time_kernels("fake", "a", list(SECONDS), trial_timing(1 << 20, 0.05))
    assert found["failed"]["even"]["status"] == "unsupported"
    assert "no even for a" in found["failed"]["even"]["message"]
    fastest = {name: min(samples) for name, samples in found["samples"].items()}
    assert list(fastest) == ["slow", "fast"]
    assert 1e-3 <= fastest["fast"] < fastest["slow"], "sleeps that a busy machine makes longer"


@pytest.mark.parametrize("delay, further, rounds", [(0.0, 5.0, 6), (0.1, 0.0, 6), (0.1, 5.0, 12)])
def test_more_rounds_where_one_that_was_disturbed_would_leave_the_usual_kernel(
    fake, delay, further, rounds
):
    fake.delayed = {("fast", 8): delay}  # one of the six rounds
    timing = trial_timing(1 << 20, 1e-3, further_seconds=further)
    found = kernel_trials.time_kernels("fake", "a", ["slow", "fast"], timing)
    samples = found["samples"]
    assert (max(samples["fast"]) > 0.1) == (delay > 0), "a run among the rounds"
    assert {len(each) for each in samples.values()} == {rounds}


def test_a_kernel_that_computes_something_else_is_not_timed(fake):
    """However fast it is. What many steps give is not compared."""
    fake.wrong = ["fast"]
    given = "fake", "a", list(SECONDS)
    found = kernel_trials.time_kernels(*given, trial_timing(1 << 20, 0.05))
    assert list(found["samples"]) == ["slow", "even"]
    assert found["failed"]["fast"]["status"] == "wrong_result"
    found = kernel_trials.time_kernels(*given, trial_timing(1 << 20, 0.05, compares=False))
    assert set(found["samples"]) == set(SECONDS) and not found["failed"]


def test_a_wrong_kernel_has_that_for_its_cost_and_is_never_chosen(fake):
    fake.steps = [step("a", "slow", "fast")]
    estimator = Estimator()
    failed = {"fast": {"status": "wrong_result", "message": "other numbers than the usual one"}}
    answer = Reply("ok", {"samples": {"slow": [2e-3] * 6}, "failed": failed})
    estimator.run_measuring = lambda job: (answer, lambda cost: cost)
    assert choose(estimator) == {"step a": "slow"}
    assert [cost.status for cost in estimator.kept.values()] == ["measured", "wrong_result"]


@pytest.mark.parametrize(
    "weight_bytes, opened", [(0, 1), (64 << 10, 1), (4 << 20, 2), (16 << 20, 1)]
)
def test_a_worker_opens_as_many_copies_as_the_network_is_large(fake, weight_bytes, opened):
    """64 kB are nothing to a run of a millisecond; 16 MB are more than the network has."""
    fake.weight_bytes = weight_bytes
    found = kernel_trials.time_kernels("fake", "a", ["fast"], trial_timing(8 << 20, 0.01))
    assert len(fake.opened) == opened
    assert all(1e-3 <= sample < 1 for sample in found["samples"]["fast"])


def test_all_kernels_of_a_step_are_timed_on_as_many_copies(fake):
    """Also one whose first run was disturbed, or that is so slow that alone one copy would do."""
    fake.weight_bytes, fake.disturbed = 1 << 20, {"fast": 0.05}
    found = kernel_trials.time_kernels("fake", "a", ["slow", "fast"], trial_timing(4 << 20, 0.01))
    assert {kernel: fake.opened.count(kernel) for kernel in found["samples"]} == {
        "slow": 4,
        "fast": 4,
    }


def test_a_worker_in_which_all_fail(fake):
    fake.failing = list(SECONDS)
    found = kernel_trials.time_kernels("fake", "a", list(SECONDS), trial_timing(1 << 20, 0.05))
    assert found["samples"] == {} and set(found["failed"]) == set(SECONDS)
