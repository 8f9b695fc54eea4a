# SPDX-License-Identifier: Apache-2.0
"""Interleaved comparison of contestants on a virtual clock."""

import collections
import dataclasses
import functools
import math
import os
import time
from importlib import import_module

import measure_fakes
import numpy as np
import pytest
from measure_fakes import contestant, measure
from tvm.relay.collage.costs.cost import Cost
from tvm.relay.collage.errors import MachineError
from tvm.relay.collage.exec.arrays import save_arrays
from tvm.relay.collage.exec.reply import Reply
from tvm.relay.collage.measure.race import comparison
from tvm.relay.collage.measure.race.race import LoadMeter, RaceOptions, race

pytestmark = pytest.mark.usefixtures("forked_workers")
Stage = import_module("tvm.relay.collage.exec.contestant").Stage

# On a virtual clock nothing is to be warmed up for seconds of the wall's.
compare = functools.partial(measure.compare, warm_seconds=0.0)
Options = functools.partial(RaceOptions, warm_seconds=0.0)


def test_the_best_comes_first_with_exact_ratios():
    contestants = [
        contestant("slow", [4e-3, 4e-3]),
        contestant("fast", [2e-3]),
        contestant("middle", [3e-3]),
    ]
    results = compare(contestants, reference="slow", rounds=8)
    assert [r.name for r in results] == ["fast", "middle", "slow"]
    assert [r.ratio_to_best.value for r in results] == pytest.approx([1.0, 1.5, 2.0])
    assert all(r.output_error == 0.0 and r.cost.rounds == 8 for r in results)
    assert results[2].samples == pytest.approx((4e-3,) * 8)
    assert "1.500 of the best" in results[1].Summary()


def test_each_round_wakes_all_once_in_changing_order(tmp_path):
    log = str(tmp_path / "log")
    race([contestant(n, log=log) for n in "abc"], Options(rounds=10, seed=3))
    text = (tmp_path / "log").read_text()
    text = text[3:]  # one run each at the opening
    runs = 4  # of a wake
    wakes = [text[i : i + runs] for i in range(0, len(text), runs)]
    assert all(len(set(wake)) == 1 for wake in wakes)
    rounds = ["".join(w[0] for w in wakes[i : i + 3]) for i in range(0, len(wakes), 3)]
    assert len(rounds) == 10 and all(sorted(r) == list("abc") for r in rounds)
    assert len(collections.Counter(rounds)) > 2


@pytest.mark.parametrize("load", [0.0, 0.4])
def test_what_others_took_in_the_rounds_marks_all_costs(monkeypatch, load):
    monkeypatch.setattr(LoadMeter, "load", lambda meter: load)
    results = compare([contestant("a", [1e-3]), contestant("b", [2e-3])], rounds=8)
    assert [item.cost.load for item in results] == [load, load]
    assert ("busy" in results[0].cost.flags) == (load > 0)


def test_the_first_run_of_a_wake_is_discarded():
    """Runs of 100, 1, 1, 1 ms over and over, in step with the wakes."""
    result = race([contestant("a", [1e-3, 1e-3, 0.1, 1e-3])], Options(rounds=5))
    assert result["a"].seconds == pytest.approx([1e-3] * 5)


def test_a_wake_warms_up_for_the_time_given(monkeypatch):
    now, asked = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Counted:
        def run(self):
            pass

        def seconds(self, number):
            asked.append(number)
            now[0] += 3e-3 * number  # by the wall clock
            return 1e-3 * number

    monkeypatch.setattr(measure_fakes, "counted", Counted, raising=False)
    stage = Stage()
    with pytest.raises(RuntimeError, match="no contestant is open"):
        stage.time(3, 2, 0.0)
    stage.open("measure_fakes:counted", {})
    asked.clear()
    assert stage.time(3, 2, 0.02) == pytest.approx([1e-3] * 3)
    assert asked == [2] * (4 + 3), "24 ms are the first of at least 20"
    asked.clear()
    stage.time(3, 2, 0.0)
    assert asked == [2] * (1 + 3)


def test_who_fails_is_out_and_the_others_go_on():
    contestants = [
        contestant("good"),
        contestant("dies", deed="segfault", at=20),
        contestant("hangs", deed="hang", at=20),
        contestant("raises at once", deed="raise"),
        measure.Contestant("nowhere", "nowhere:at_all"),
    ]
    results = compare(contestants, reference="good", rounds=12, run_timeout=4.0)
    statuses = {r.name: r.cost.status for r in results}
    assert statuses == {
        "good": "measured",
        "dies": "crashed",
        "hangs": "timeout",
        "raises at once": "run_failed",
        "nowhere": "run_failed",
    }
    assert results[0].name == "good" and results[0].cost.rounds == 12
    assert all(r.ratio_to_best is None for r in results[1:])


def test_a_wrong_contestant_never_wins():
    right, wrong = contestant("right", [2e-3]), contestant("wrong", [1e-3], outputs=[[1.0, 2.1]])
    best, worst = compare([wrong, right], reference="right", rounds=6)
    assert (best.name, worst.name) == ("right", "wrong")
    assert worst.cost.status == "wrong_result" and worst.output_error == pytest.approx(0.05)
    assert "off by 0.05" in worst.cost.message and worst.samples == ()
    free = compare([wrong, right], reference="right", rounds=6, rtol=None)
    assert free[0].name == "wrong"


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """What compare() finds of contestants that nobody starts: of each the second of its outputs,
    whose first is 1, by name; None fails. `truth`: that of given outputs."""

    def found(outputs, reference, truth=None, **options):
        def raced(contestants, options, judge):
            results = {name: measure.Samples(name, [1e-3] * 3) for name in outputs}
            for name, value in outputs.items():
                results[name].outputs = [] if value is None else [np.array([1.0, value])]
            failed = {n: Cost.failed("run_failed", "so") for n, v in outputs.items() if v is None}
            for name, cost in {**failed, **judge(results)}.items():
                results[name].failure, results[name].seconds = cost, []
            return results

        monkeypatch.setattr(comparison, "race", raced)
        if truth is not None:
            options["truth"] = str(tmp_path / "truth.npz")
            save_arrays(options["truth"], {"output_0": np.array([1.0, truth])})
        results = compare([contestant(name) for name in outputs], reference, rounds=3, **options)
        return {item.name: item for item in results}

    return found


@pytest.mark.parametrize(
    "outputs, reference, truth, expected",
    [  # given outputs count before any reference's, else those of the first that has any
        ({"tvm": 0.5, "right": 0.7}, "tvm", 0.7, ["right the original", "tvm the original wrong"]),
        ({"a": None, "b": 0.9, "c": 0.5}, [*"acb"], None, ["c c", "a None failed", "b c wrong"]),
        ({"a": None, "b": 0.9}, "a", None, ["b None", "a None failed"]),
    ],
)
def test_whose_outputs_are_right(judged, outputs, reference, truth, expected):
    found = judged(outputs, reference, truth)
    status = {"measured": "", "wrong_result": " wrong", "run_failed": " failed"}
    said = [f"{n} {item.reference}{status[item.cost.status]}" for n, item in found.items()]
    assert said == expected
    assert all((item.output_error is None) == (item.reference is None) for item in found.values())


@pytest.mark.parametrize(
    "tvm, own, is_right",
    [  # 64 bits give 0.5
        (0.5005, 0.5, True),  # exact
        (0.5005, 0.50005, True),  # within the limit of it
        (0.5005, 0.4996, True),  # nearer than TVM, on the other side
        (0.5005, 0.4994, False),  # further
        (0.5, 0.4996, False),  # TVM is exact
        (0.7, 0.6, False),  # that is no rounding of TVM's
        (0.7, 0.5, True),
    ],
)
def test_who_is_no_further_from_64_bits_than_tvm_is_right(judged, tvm, own, is_right):
    asked = []

    def exact():
        asked.append(1)
        return [np.array([1.0, 0.5])]

    found = judged({"tvm": tvm, "other": own}, "tvm", exact=exact)
    assert found["tvm"].cost.status == "measured" and len(asked) == 1
    assert found["other"].cost.status == ("measured" if is_right else "wrong_result")
    assert ("beside tvm, and by" in found["other"].cost.message) == is_right
    without = judged({"tvm": tvm, "other": own}, "tvm", exact=lambda: None)
    assert without["other"].cost.status == "wrong_result"
    judged({"tvm": tvm, "other": tvm}, "tvm", exact=exact)
    assert len(asked) == 1, "nor is it asked where outputs agree"


def test_who_is_not_trusted_excuses_nobody_nor_itself(judged, monkeypatch):
    """A plan may come first where TVM alone was not built: it may be the one that is wrong."""
    stock = comparison.compared
    trusting_none = functools.partial(dataclasses.replace, trusted="")
    monkeypatch.setattr(
        comparison, "compared", lambda given, right, how: stock(given, trusting_none(right), how)
    )
    exact = lambda: [np.array([1.0, 0.5])]  # noqa: E731
    found = judged({"first": 0.5005}, "first", 0.5, exact=exact)
    assert found["first"].cost.status == "wrong_result"
    found = judged({"first": 0.5005, "other": 0.4996}, "first", exact=exact)
    assert found["other"].cost.status == "wrong_result"


def test_tvm_too_is_judged_by_64_bits_where_there_is_an_original(judged):
    exact = lambda: [np.array([1.0, 0.5])]  # noqa: E731
    found = judged({"tvm": 0.5005, "other": 0.6}, "tvm", 0.50001, exact=exact)
    assert [item.cost.status for item in found.values()] == ["measured", "wrong_result"]
    assert "beside the original, and by 5.0e-04 beside 64 bits" in found["tvm"].cost.message


def test_who_is_far_too_slow_is_given_up_with_the_samples_that_it_has():
    """Its first rounds are compared with the same rounds of the best."""
    contestants = [contestant("fast"), contestant("slow", [4e-3]), contestant("close", [2e-3])]
    results = compare(contestants, rounds=9, give_up_ratio=3.0)
    assert [(r.name, len(r.samples)) for r in results] == [("fast", 9), ("close", 9), ("slow", 6)]
    assert results[2].cost.status == "measured"
    assert results[2].ratio_to_best == pytest.approx((4.0, 4.0, 4.0))
    assert results[2].cost.message == "given up as far too slow after 6 rounds"


def test_a_slow_contestant_has_time_in_proportion_to_its_first_run():
    """Four runs of 0.6 s are no hang, though each request may take 2 s only."""
    slow = measure.Contestant("slow", "measure_fakes:sleeper", {"seconds": 0.6})
    results = compare([slow], rounds=1, run_timeout=2.0)
    assert results[0].cost.is_usable, results[0].cost


class FakeSpares:
    """Workers that say what a run took, and note what they were asked and what that may take."""

    def __init__(self, seconds, wall_seconds):
        self.tried = {"seconds": seconds, "wall_seconds": wall_seconds, "memory_bytes": 0}
        self.pid, self.asked, self.allowed = os.getpid(), {}, {}

    def take(self, options):
        return self

    def give(self, options, worker):
        pass

    def send(self, command, arguments, seconds):
        self.asked[command], self.allowed[command] = arguments, seconds
        self.sent = command
        if command == "outputs":
            np.savez(arguments["file"], output_0=np.zeros(1))

    def answer(self):
        return Reply("ok", {"probe": self.tried, "time": [1.0] * 3}.get(self.sent))


def test_a_request_may_take_so_many_times_what_its_runs_took_by_the_wall_clock():
    """Whose own clock tells of a fourth of a run takes four times as long."""
    spares = FakeSpares(1.0, 4.0)
    found = race([contestant("a")], Options(rounds=2, spares=spares, run_timeout=10.0, runs=3))
    assert found["a"].seconds == [1.0, 1.0]
    allowed = spares.allowed
    assert allowed["outputs"] == 10.0 + 5 * 4.0 and allowed["time"] == 10.0 + 5 * 4 * 4.0


@pytest.mark.parametrize(
    "seconds, timed_seconds, runs, number",
    [
        (0.045, 0.1, 2, 1),
        (0.2, 0.1, 1, 1),
        (1e-3, 0.1, 3, 3),  # a sample of short runs counts as one
        (0.2, None, 3, 1),
    ],
)
def test_of_long_runs_fewer_are_timed_in_a_wake(seconds, timed_seconds, runs, number):
    spares = FakeSpares(seconds, seconds)
    options = Options(rounds=1, spares=spares, timed_seconds=timed_seconds)
    race([contestant("a")], dataclasses.replace(options, runs=3, sample_seconds=2.5e-3))
    assert (spares.asked["time"]["runs"], spares.asked["time"]["number"]) == (runs, number)


def test_modules_of_ones_own_are_imported_before_the_contestants_start():
    result = race([contestant("a")], Options(rounds=1, imports=["no_such_module"]))
    assert result["a"].failure.status == "machine_fault"
    assert "no_such_module" in result["a"].failure.message
    result = race([contestant("a")], Options(rounds=1, imports=["measure_fakes"]))
    assert result["a"].failure is None


def test_without_a_temporary_folder_one_error_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(MachineError, match="No such file.*set TMPDIR"):
        race([contestant("a")])


def test_callers_errors():
    with pytest.raises(ValueError, match="'c' is none of the contestants"):
        compare([contestant("a")], reference="c")
    with pytest.raises(ValueError, match="names of their own"):
        race([contestant("a"), contestant("a")], Options())


def array(*values):
    return [np.array(values, "float32")]


@pytest.mark.parametrize(
    "a, b, error",
    [
        (array(1, 2), array(1, 2), 0.0),
        (array(1, 2.5), array(1, 2), 0.25),
        (array(0, 0), array(0, 0), 0.0),
        (array(1, 0), array(0, 0), math.inf),
        (array(1, math.nan), array(1, 2), math.inf),
        (array(1, math.nan), array(1, math.nan), 0.0),
        (array(1, math.inf), array(1, math.inf), 0.0),
        (array(1, math.inf), array(1, 2), math.inf),
        (array(1, 2), array(1, math.inf), math.inf),
        (array(1), array(1, 2), math.inf),
        ([], array(1), math.inf),
        ([], [], 0.0),
        (array(), array(), 0.0),
    ],
)
def test_output_error(a, b, error):
    assert measure.output_error(a, b) == error


def test_who_was_given_up_is_never_the_best(monkeypatch):
    # The machine was fast in the first rounds: the short median is the smaller one.
    samples = {
        "stayed": measure.Samples("stayed", [1e-3] * 6 + [9e-3] * 8),
        "left": measure.Samples("left", [5e-3] * 6, left="given up"),
    }
    monkeypatch.setattr(comparison, "race", lambda *_, **__: samples)
    best, other = compare([contestant("left"), contestant("stayed")])
    assert (best.name, other.name) == ("stayed", "left")
    assert best.ratio_to_best.value == 1.0 and other.ratio_to_best.value == 5.0
    assert other.cost.message == "given up"


def test_small_outputs_are_off_an_original_by_a_share_of_numbers_near_one():
    small, off = [np.full(3, 1e-3)], [np.full(3, 1e-3 + 4e-7)]
    assert comparison.output_error(off, small) == pytest.approx(4e-4)
    assert comparison.output_error(off, small, comparison.LEAST_SCALE) == pytest.approx(8e-5)
    large = [np.full(3, 2.0)]
    args = [np.full(3, 2.2)], large
    assert comparison.output_error(*args, comparison.LEAST_SCALE) == comparison.output_error(*args)
