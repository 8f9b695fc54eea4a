# SPDX-License-Identifier: Apache-2.0
"""Placements of all plans together: any of them comes back, and is replayed, as it was."""

import copy
import dataclasses
import json

import pytest
import tvm
from placement_nets import TARGETS, net, optimized_once
from tvm.relay.collage import PlacementError
from tvm.relay.collage.backends.targets import parse_targets
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.files.records import read
from tvm.relay.collage.plans.competing import Plans
from tvm.relay.collage.plans.placement import Composite, SeenPlans
from tvm.relay.collage.plans.placement.seen import can_be_saved
from tvm.relay.collage.tuning import TuningRecords


@pytest.fixture(scope="module")
def result():
    return optimized_once()


def test_each_plan_comes_back_from_json_as_it_was(result):
    placements = {name: make() for name, make in result.makers.items()}
    assert set(placements) >= {"tvm", "collage"}
    seen = result.placements
    value = json.loads(json.dumps(dataclasses.asdict(seen)))
    again = read(SeenPlans, value)
    assert again == seen and again.names() == list(placements)
    for name, placement in placements.items():
        assert again.placement(name) == placement


def test_nodes_that_are_kept_come_back(result):
    placement = dataclasses.replace(result.placement, kept=(3, 5))
    assert SeenPlans.of({placement.plan: placement}).placement(placement.plan) == placement


def test_plans_share_their_parts(result):
    first = result.placement
    other = copy.deepcopy(first)
    seen = SeenPlans.of({"first": first, "other": other})
    [main] = seen.functions
    assert len(main.parts) == len(first.function("main").parts)
    assert [plan.parts for plan in seen.plans] == [{"main": tuple(range(len(main.parts)))}] * 2


def test_a_plan_that_is_none_is_refused_by_the_names_that_there_are(result, tmp_path):
    for ask in (
        lambda: result.save_placement(tmp_path / "x.json", plan="nope"),
        lambda: result.placements.placement("nope"),
    ):
        with pytest.raises(PlacementError, match="'nope'.*tvm, collage"):
            ask()
    assert not list(tmp_path.iterdir())


def test_what_no_file_can_hold_is_left_out(result):
    placement = result.placement
    assert can_be_saved(placement)
    [main] = placement.functions
    part = dataclasses.replace(main.parts[0], composites=(Composite("c", (), {"a": float("nan")}),))
    bad = dataclasses.replace(
        placement, functions=(dataclasses.replace(main, parts=(part, *main.parts[1:])),)
    )
    assert not can_be_saved(bad)


def test_places_of_parts_that_are_not_there_are_damage(result):
    seen = result.placements
    row = dataclasses.replace(seen.plans[0], parts={"main": (0, 999)})
    damaged = dataclasses.replace(seen, plans=(row,))
    with pytest.raises(PlacementError, match="damaged: plan .* has part 999 of @main, of which"):
        damaged.placement(row.plan)
    nothing = dataclasses.replace(seen, plans=(dataclasses.replace(row, parts={}),))
    assert not nothing.placement(row.plan).function("main").parts


def test_no_placements_are_no_functions():
    assert SeenPlans.of({}) == SeenPlans() and SeenPlans().names() == []


def test_trials_of_a_search_are_plans_too(result):
    mod, params = net()
    targets = parse_targets(TARGETS)
    with tvm.transform.PassContext(opt_level=3):
        plans = Plans(prepare(mod, params, targets.host, opt_level=None), targets)
        parts = list(result.placement.function("main").parts)
        plans.add_tried({"trial-1": {"main": parts}})
        made = plans.maker("trial-1", TuningRecords())()
    assert made.plan == "trial-1" and list(made.function("main").parts) == parts
