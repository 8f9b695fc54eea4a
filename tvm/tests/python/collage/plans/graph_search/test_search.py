# SPDX-License-Identifier: Apache-2.0
"""The search of whole plans with plans and measuring that are made up: what is measured, told, kept
and shown. And a search that was killed, by the store."""

import dataclasses
import itertools

import pytest
from tvm.relay.collage.measure import Cost
from tvm.relay.collage.measure.options import MeasureOptions
from tvm.relay.collage.options import GraphSearchOptions
from tvm.relay.collage.plans.graph_search.libraries import GuardUnavailable
from tvm.relay.collage.plans.graph_search.search import KnownPlans, search_plans
from tvm.relay.collage.store import CostStore, StoredCosts

OPTIONS = GraphSearchOptions(
    strategy="evolutionary", population=3, trials=1000, seconds=1e9, seed=0
)
SECONDS = {"a": 3.0, "b": 2.0, "c": 1.0}


class Space:
    """Four genes; of the last, alleles a and b are the same plan."""

    choices = ("abc", "abc", "abc", "ab")
    genes = range(4)

    def seeds(self):
        return [("a", "a", "a", "a"), ("b", "b", "b", "a")]

    def parts_of(self, genome):
        return {"main": list(genome[:3])}

    def key_of(self, parts):
        return "".join(parts["main"])

    label_of = key_of


def seconds_of(key):
    borders = sum(left != right for left, right in itertools.pairwise(key))
    return sum(SECONDS[allele] for allele in key) + borders


class Measured:
    """Answers by seconds_of, and notes what was asked."""

    def __init__(self, failing=(), die_after=None):
        self.keys, self.failing, self.die_after = [], failing, die_after

    def __call__(self, parts):
        if self.die_after is not None and len(self.keys) >= self.die_after:
            raise KeyboardInterrupt
        self.keys += parts
        return {
            key: Cost.failed("crashed", "signal 11")
            if key in self.failing
            else Cost.given(seconds_of(key))
            for key in parts
        }


def known(store=None):
    return KnownPlans(store, "module", "llvm", {"opt_level": 3})


def test_equal_plans_are_measured_once_and_the_best_come_first():
    measured = Measured()
    found = search_plans(Space(), measured, known(), OPTIONS)
    assert len(measured.keys) == len(set(measured.keys)) == len(found.trials)
    assert measured.keys[:2] == ["aaa", "bbb"]
    assert list(found.best)[:1] == ["ccc"] and found.best["ccc"] == {"main": ["c"] * 3}
    assert [seconds_of(key) for key in found.best] == sorted(map(seconds_of, found.best))
    assert (found.base, found.genes, found.ended) == (9.0, 4, "it found no other plan")


def test_failures_are_data():
    measured = Measured(failing=("ccc", "bbb"))
    found = search_plans(Space(), measured, known(), OPTIONS)
    status = {trial.label: trial.cost.status for trial in found.trials}
    assert status["ccc"] == "crashed" and not found.best.keys() & {"ccc", "bbb"}
    rows = found.to_json()["trials"]
    [row] = [row for row in rows if row["plan"] == "ccc"]
    assert (row["status"], row["seconds"], row["message"]) == ("crashed", None, "signal 11")
    best = [row["best_seconds"] for row in rows]
    assert best[0] == 9.0 and best == sorted(best, reverse=True) and best[-1] < 9.0


def test_trials_and_time_end_it():
    found = search_plans(Space(), Measured(), known(), dataclasses.replace(OPTIONS, trials=7))
    assert len(found.trials) == 7 and found.ended == "all trials were made"
    ticks = itertools.count()
    found = search_plans(
        Space(),
        Measured(),
        known(),
        dataclasses.replace(OPTIONS, seconds=6.0),
        clock=lambda: next(ticks),
    )
    assert found.ended == "its time was over" and 0 < len(found.trials) < 9


@pytest.fixture
def open_store(tmp_path):
    def make():
        measuring = MeasureOptions()
        return StoredCosts(CostStore(tmp_path / "store.sqlite"), measuring, lambda backend: "")

    return make


def test_a_killed_search_goes_on_and_ends_as_an_unbroken_one(open_store):
    options = dataclasses.replace(OPTIONS, trials=15)
    unbroken = search_plans(Space(), Measured(failing=("bbb",)), known(), options)
    first = Measured(failing=("bbb",), die_after=8)
    with pytest.raises(KeyboardInterrupt):
        search_plans(Space(), first, known(open_store()), options)
    again = Measured(failing=("bbb",))
    found = search_plans(Space(), again, known(open_store()), options)
    assert not set(first.keys) & set(again.keys), "failures are known, too"
    assert [trial.label for trial in found.trials] == [trial.label for trial in unbroken.trials]
    assert [trial.cost.seconds for trial in found.trials] == [
        trial.cost.seconds for trial in unbroken.trials
    ]
    assert sum(trial.is_stored for trial in found.trials) == len(first.keys)
    assert list(found.best) == list(unbroken.best)


@pytest.mark.parametrize(
    "change", [{"module": "other"}, {"target": "llvm -mcpu=x"}, {"options": {"opt_level": 2}}]
)
def test_what_a_plan_took_elsewhere_is_not_taken(open_store, change):
    arguments = {"module": "module", "target": "llvm", "options": {"opt_level": 3}}
    plans = KnownPlans(open_store(), **arguments)
    plans.keep("key", "1 dnnl", Cost.given(2.0))
    assert plans.look_up("key").seconds == 2.0 and plans.look_up("other") is None
    assert KnownPlans(open_store(), **{**arguments, **change}).look_up("key") is None


def test_what_was_measured_beside_other_programs_serves_while_there_are_such(open_store):
    given = {"module": "module", "target": "llvm", "options": {}}
    busy, quiet = (KnownPlans(open_store(), **given, is_quiet=lambda x=x: x) for x in (False, True))
    busy.keep("key", "1 dnnl", dataclasses.replace(Cost.given(2.0), load=0.5))
    assert busy.look_up("key").seconds == 2.0 and quiet.look_up("key") is None


@pytest.mark.parametrize("status", ["machine_fault", "wrong_result"])
def test_what_is_no_fact_about_the_plan_alone_is_not_kept(open_store, status):
    plans = known(open_store())
    plans.keep("key", "1 dnnl", Cost.failed(status, "no memory"))
    assert plans.look_up("key") is None


def test_a_batch_that_cannot_be_measured_costs_no_other():
    measured = Measured()

    def measure(parts):
        if len(measured.keys) >= 6:
            raise GuardUnavailable("the reference was killed")
        return measured(parts)

    found = search_plans(Space(), measure, known(), OPTIONS)
    assert [trial.label for trial in found.trials] == measured.keys and len(measured.keys) == 6
    assert found.ended == "whole plans could no longer be measured: the reference was killed"
    assert set(found.best) == set(measured.keys)


def test_what_can_never_be_measured_is_the_callers_to_hear():
    def measure(parts):
        raise GuardUnavailable("no inputs")

    with pytest.raises(GuardUnavailable, match="no inputs"):
        search_plans(Space(), measure, known(), OPTIONS)
