# SPDX-License-Identifier: Apache-2.0
"""MeasuredCostEstimator on fakes: statuses, cache, order."""

import dataclasses
import functools
import itertools
import time

import pytest
from measure_fakes import fake_candidate, fake_options, measure
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.exec.time_limit import TimeLimit
from tvm.relay.collage.measure.runner import LocalRunner

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(scope="module")
def estimator(forked_workers):
    with measure.MeasuredCostEstimator(fake_options(build_timeout=30, run_timeout=4)) as estimator:
        yield estimator


@pytest.mark.parametrize("where", ["build", "run"])
def test_when_time_is_up_what_hangs_is_killed_and_costs_a_guess_on_tvm_alone(where):
    """A build that had less time than its own limit is not known to be too slow."""
    check = functools.partial(TimeLimit(6.0).check, 0.5)
    hanging = fake_candidate("hangs", **{where: "hang"})
    of_tvm = dataclasses.replace(fake_candidate("on TVM", 5e-3), backend="tvm")
    with measure.MeasuredCostEstimator(fake_options(workers=1, batch=1), check=check) as estimator:
        began = time.monotonic()
        costs = estimator.estimate([fake_candidate("a", 1e-3), fake_candidate("b", 2e-3), hanging])
        assert [cost.status for cost in costs] == ["measured", "measured", "timeout"]
        costs = estimator.estimate([of_tvm, fake_candidate("c"), fake_candidate("a", 1e-3)])
        assert [cost.status for cost in costs] == ["estimated", "timeout", "measured"]
        assert costs[0].seconds == 2e-3 and "no time to measure" in costs[0].message
        assert time.monotonic() - began < 30 and estimator.counts()["failed"] == {}


RUNS = {
    "hang": ("timeout", "run: no answer within its time limit"),
    "segfault": ("crashed", "run: killed by SIGSEGV"),
    "exit": ("crashed", "run: exited with code 0"),
    "sysexit": ("run_failed", "run: SystemExit: 0"),
    "raise": ("run_failed", "run: ValueError: no kernel for this"),
    "memory": ("machine_fault", "run: MemoryError: Unable to allocate"),
    "unsupported": ("unsupported", "run: Unsupported: dynamic shape"),
    "nan": ("run_failed", "no positive seconds"),
    "negative": ("run_failed", "no positive seconds"),
    "none": ("run_failed", "no positive seconds"),
    "zero": ("run_failed", "no positive seconds: [0.0"),
    "huge": ("run_failed", "no positive seconds: [1e+300"),
    "infinite": ("run_failed", "no positive seconds: [inf"),
    "texts": ("run_failed", "run: it answered no timings"),
    "no list": ("run_failed", "run: it answered no timings"),
    "exit 3": ("crashed", "run: exited with code 3"),
    "garbage": ("measured", ""),
}
BUILDS = {
    "segfault": ("crashed", "build: killed by SIGSEGV"),
    "raise": ("compile_failed", "build: ValueError: no kernel for this"),
    "unsupported": ("unsupported", "build: Unsupported: dynamic shape"),
    "garbage": ("measured", ""),
}


def test_each_fault_has_its_status_and_the_rest_goes_on(estimator):
    candidates = [fake_candidate("good 0", 1e-3)]
    for name in RUNS:
        candidates += [fake_candidate(f"run {name}", name), fake_candidate(f"after {name}", 2e-3)]
    for name in BUILDS:
        candidates.append(fake_candidate(f"build {name}", build=name))
    costs = dict(zip([c.hash for c in candidates], estimator.estimate(candidates), strict=True))
    for where, table in (("run", RUNS), ("build", BUILDS)):
        for name, (status, message) in table.items():
            cost = costs[f"{where} {name}"]
            assert (name, cost.status) == (name, status)
            assert message in cost.message
    assert costs["good 0"].seconds == 1e-3
    assert all(costs[f"after {name}"].seconds == 2e-3 for name in RUNS)


def test_costs_are_counted_by_where_they_came_from(tmp_path):
    wide, counter = [1e-3, 9e-3] * 10, str(tmp_path / "counter")
    with measure.MeasuredCostEstimator(fake_options(workers=1, noisy_retries=0)) as estimator:
        estimator.estimate(
            [
                fake_candidate("plain"),
                fake_candidate("plain"),
                fake_candidate("right", verify=True, reference=1e-3),
                fake_candidate("doubtful", verify=True, reference="raise"),
                fake_candidate("bad", "raise"),
                fake_candidate("bad build", build="raise", verify=True),
                fake_candidate("noisy", [wide], counter=counter),
            ]
        )
        assert estimator.counts() == {
            "measured": 6,
            "from_store": 0,
            "from_memory": 1,
            "failed": {"compile_failed": 1, "run_failed": 1},
            "noisy": 1,
            "busy": 0,
            "verified": 1,
            "not_verified": 1,
        }


@pytest.mark.parametrize(
    "tolerances, status, measured",
    [
        ((1e-2, 1e-3), "measured", 1),
        ((1e-4, 1e-2), "measured", 2),  # nearer to 64 bits than TVM's operators
        ((1e-4, 1e-3), "wrong_result", 2),
        ((1e-4, None), "wrong_result", 1),
        ((0, 0), "wrong_result", 1),  # of whole numbers there is no other judge
    ],
)
def test_what_differs_is_compared_once_more_with_64_bits(tmp_path, tolerances, status, measured):
    log = str(tmp_path / "log")
    candidate = fake_candidate("a", verify=True, tolerances=tolerances, error=5e-3, log=log)
    with measure.MeasuredCostEstimator(fake_options(workers=1)) as estimator:
        [cost] = estimator.estimate([candidate])
    assert cost.status == status
    assert (tmp_path / "log").read_text().count("measure") == measured


def test_equal_candidates_are_measured_once(tmp_path):
    log = str(tmp_path / "log")
    with measure.MeasuredCostEstimator(fake_options()) as estimator:
        batch = [fake_candidate(n, log=log) for n in ("a", "b", "a", "a")]
        assert len(estimator.estimate(batch)) == 4
        assert (estimator.hits, estimator.misses) == (2, 2)
        estimator.estimate(batch + [fake_candidate("c", log=log)])
        assert (estimator.hits, estimator.misses) == (6, 3)
        assert "3 measured, 6 from memory, 0 failed" in estimator.Summary()
        assert estimator.estimate([]) == []
    assert (tmp_path / "log").read_text().count("measure") == 3


def test_nothing_is_built_while_something_is_measured(tmp_path):
    log = str(tmp_path / "log")
    with measure.MeasuredCostEstimator(fake_options(batch=3)) as estimator:
        estimator.estimate([fake_candidate(str(i), log=log) for i in range(7)])
    kinds = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert kinds == (["build"] * 3 + ["measure"] * 3) * 2 + ["build", "measure"]


def test_libraries_of_large_weights_are_fewer_at_once(tmp_path):
    log, gib = str(tmp_path / "log"), 1 << 30
    sizes = [gib // 2, gib // 2, 1, 2 * gib, 3, 4]
    batch = [
        dataclasses.replace(fake_candidate(str(i), log=log), weight_bytes=size)
        for i, size in enumerate(sizes)
    ]
    with measure.MeasuredCostEstimator(fake_options()) as estimator:
        assert all(cost.is_usable for cost in estimator.estimate(batch))
    kinds = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    at_once = (["build"] * many + ["measure"] * many for many in (2, 1, 1, 2))
    assert kinds == list(itertools.chain(*at_once))


def test_no_two_libraries_have_one_name(tmp_path):
    """dlopen would answer the second with the first, where that cannot be unloaded."""
    log = str(tmp_path / "log")
    with measure.MeasuredCostEstimator(fake_options(workers=1, batch=2)) as estimator:
        for names in ("abcde", "fg"):
            estimator.estimate([fake_candidate(name, log=log, names=True) for name in names])
    names = (tmp_path / "log").read_text().split()
    assert len(set(names)) == len(names) == 7


CALM, BUSY, BUSIER = [1.0] * 8, [1.0, 2.0] * 4, [1.0, 9.0] * 4


@pytest.mark.parametrize(
    "runs, retries, seconds",
    [
        ([CALM], 1, 1.0),
        ([BUSY, CALM], 1, 1.0),
        ([BUSY, BUSIER], 1, 2.0),
        ([BUSIER, BUSY, CALM], 1, 2.0),
        ([BUSIER, BUSY, CALM], 2, 1.0),
        ([BUSY], 0, 2.0),
        ([BUSY, []], 1, None),
    ],
)
def test_noisy_candidates_are_measured_again(tmp_path, runs, retries, seconds):
    options = fake_options(workers=1, noisy_retries=retries)
    candidate = fake_candidate("n", runs, counter=str(tmp_path / "counter"))
    with measure.MeasuredCostEstimator(options) as estimator:
        calm, cost = estimator.estimate([fake_candidate("calm"), candidate])
    assert calm.seconds == 1e-3
    assert cost.seconds == seconds
    assert cost.status == ("run_failed" if seconds is None else "measured")
    assert len((tmp_path / "counter").read_text()) == min(len(runs), retries + 1)


class LosesRepeats(LocalRunner):
    """Its device is lost whenever a candidate is measured again."""

    def __init__(self):
        super().__init__()
        self.jobs = []

    def submit(self, job, on_reply):
        if job in self.jobs:
            on_reply(Reply("lost", message="2 devices were lost while it ran"))
        else:
            self.jobs.append(job)
            super().submit(job, on_reply)


def test_a_noisy_cost_stands_when_the_device_is_lost_as_it_is_repeated(tmp_path):
    candidate = fake_candidate("n", [BUSY], counter=str(tmp_path / "counter"))
    with measure.MeasuredCostEstimator(
        fake_options(workers=1, noisy_retries=2), runner=LosesRepeats()
    ) as estimator:
        [cost] = estimator.estimate([candidate])
    assert cost.status == "measured" and cost.is_noisy and cost.seconds == 2.0


def test_failures_are_remembered_too(estimator):
    estimator.estimate([fake_candidate("bad", "raise")])
    misses = estimator.misses
    assert estimator.estimate([fake_candidate("bad", "raise")])[0].status == "run_failed"
    assert estimator.misses == misses


class Interrupt(measure.Progress):
    def on_cost(self, cost):
        super().on_cost(cost)
        if self.done == 2:
            raise KeyboardInterrupt


def test_an_interrupt_keeps_what_is_measured():
    options = fake_options(batch=1)
    with measure.MeasuredCostEstimator(options, progress=Interrupt()) as estimator:
        batch = [fake_candidate(str(i)) for i in range(4)]
        with pytest.raises(KeyboardInterrupt):
            estimator.estimate(batch)
        assert estimator.estimate(batch[:2]) and estimator.misses == 4
        assert estimator.hits == 2


def test_options_are_checked_and_named():
    estimator = measure.MeasuredCostEstimator(workers=1, run_timeout=5)
    assert estimator.options.run_timeout == 5 and estimator.options.workers == 1
    for wrong in ({"workers": 0}, {"build_timeout": 0}, {"batch": 0}):
        with pytest.raises(ValueError, match="measure option"):
            measure.MeasuredCostEstimator(**wrong)
    with pytest.raises(TypeError, match="speed"):
        measure.MeasuredCostEstimator(speed=3)
