# SPDX-License-Identifier: Apache-2.0
"""A batch of whole plans beside the reference: builds and comparisons that are made up."""

from dataclasses import replace

import pytest
from relay_text import parse
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.plans.graph_search import EndToEnd, GuardUnavailable
from tvm.relay.collage.plans.graph_search import trials as trials_module
from tvm.relay.collage.plans.graph_search.trials import open_trials

MOD = parse("def @main(%x: $T) { nn.relu(%x) }")
OTHER = parse("def @main(%x: $T) { exp(%x) }")


class Library:
    def export_library(self, path):
        with open(path, "w") as file:
            file.write("library")


class Machine:
    """Plans take `seconds` by name; the reference's grow from batch to batch."""

    def __init__(self, **failing):
        self.seconds, self.failing, self.seen = {}, failing, []

    def compare(self, contestants, right, options):
        names = [contestant.name for contestant in contestants]
        self.seen.append(names)
        slowness = len(self.seen)
        rows = []
        for name in names:
            seconds = slowness * (2.0 if name in right.references else self.seconds.get(name, 1.0))
            cost = self.failing.get(name) or Cost.measured([seconds] * options.rounds)
            rows.append(Comparison(name, cost, samples=(seconds,) * options.rounds))
        return rows


def build(module):
    if module is OTHER:
        raise RuntimeError("no kernel for exp")
    return Library()


def test_batches_compare_by_ratios_to_the_reference():
    machine = Machine()
    machine.seconds = {"fast": 1.0, "slow": 3.0}
    with open_trials(MOD, EndToEnd(build, comparer=machine.compare)) as trials:
        assert trials.measure({"fast": MOD, "slow": MOD})["slow"].seconds == 3.0
        later = trials.measure({"fast": MOD})["fast"]
    assert trials.base == 2.0
    assert (later.status, later.seconds, later.low, later.rounds) == ("measured", 1.0, 1.0, 6)
    assert [len(names) for names in machine.seen] == [3, 2]


def test_a_trial_beside_other_programs_says_so():
    def compare(*given):
        found = Machine().compare(*given)
        return [replace(item, cost=replace(item.cost, load=0.4)) for item in found]

    with open_trials(MOD, EndToEnd(build, comparer=compare)) as trials:
        [cost] = trials.measure({"plan": MOD}).values()
    assert cost.is_busy and cost.load == 0.4


def test_a_search_that_goes_on_keeps_its_measure():
    with open_trials(MOD, EndToEnd(build, comparer=Machine().compare), base=10.0) as trials:
        assert trials.measure({"plan": MOD})["plan"].seconds == 5.0 and trials.base == 10.0


def test_waiting_for_the_cpus_is_told(monkeypatch):
    """To build and to measure, by whoever shows the progress of the search."""
    told = []
    kept = trials_module.cpus_for_building

    def cpus_for_building(on_wait):
        on_wait("to build")
        return kept()

    def compare(contestants, right, options):
        options.on_wait("to measure")
        return Machine().compare(contestants, right, options)

    monkeypatch.setattr(trials_module, "cpus_for_building", cpus_for_building)
    with open_trials(MOD, EndToEnd(build, comparer=compare)) as trials:
        trials.measure({"plan": MOD}, told.append)
    assert told == ["to build", "to measure"]


def test_a_plan_that_fails_is_data():
    machine = Machine(crashing=Cost.failed("crashed", "signal 11"))
    with open_trials(MOD, EndToEnd(build, comparer=machine.compare)) as trials:
        costs = trials.measure({"unbuilt": OTHER, "crashing": MOD, "plan": MOD})
    assert {name: cost.status for name, cost in costs.items()} == {
        "unbuilt": "compile_failed",
        "crashing": "crashed",
        "plan": "measured",
    }
    assert "no kernel for exp" in costs["unbuilt"].message


def test_without_its_reference_nothing_is_searched():
    with (
        pytest.raises(GuardUnavailable, match="no kernel for exp"),
        open_trials(OTHER, EndToEnd(build, comparer=Machine().compare)) as trials,
    ):
        trials.measure({"plan": MOD})
    with (
        pytest.raises(GuardUnavailable, match=r"open dimensions \(x \[\?\]\) cannot be made up"),
        open_trials(parse("def @main(%x: Tensor[(?), float32]) { %x }"), EndToEnd(build)),
    ):
        pass
