# SPDX-License-Identifier: Apache-2.0
"""Boxes with places for the page: all that refers to another item is there."""

import json

import pytest
from made_reports import made, made_report, record
from tvm.relay.collage.report.html.arranged import arrange, page_plans


@pytest.fixture(scope="module")
def function():
    [found] = json.loads(json.dumps(arrange(made(3)), default=list))
    return found


def test_every_plan_has_all_operators_once(function):
    assert function["function"] == "main" and next(iter(function["plans"])) == "collage"
    sizes = set()
    for plan in function["plans"].values():
        nodes = [index for box in plan["boxes"] for index in box["nodes"]]
        assert len(nodes) == len(set(nodes))
        sizes.add(len(nodes))
        items = [item for layer in plan["layers"] for item in layer]
        assert sorted(items) == list(range(len(plan["x"]))) and len(plan["widths"]) == len(items)
        assert all(bend in items for edge in plan["edges"] for bend in edge["bends"])
    assert sizes == {3 * 7 + 4 + 1}


def test_a_page_holds_all_plans_that_were_compared_and_the_fastest_that_were_tried():
    report = made_report(1, trials=30)
    seconds = {row["name"]: row["seconds"] for row in report["graph_search"]["trials"]}
    names = page_plans(record(report))
    assert names[:4] == ["collage", "alpha", "beta", "tvm"] and len(names) == 16
    tried = [seconds[name] for name in names[4:]]
    assert tried == sorted(filter(None, seconds.values()))[:12]
    assert page_plans(record(report), "trial-5")[0] == "trial-5"  # asked for, though it failed
    report["graph_search"] = None
    assert len(page_plans(record(report))) == 34


def test_boxes_of_several_operators_share_insides(function):
    insides = function["insides"]
    for plan in function["plans"].values():
        for box in plan["boxes"]:
            assert (box["inside"] is None) == (len(box["nodes"]) < 2)
            if box["inside"] is not None:
                assert insides[box["inside"]]["nodes"] == box["nodes"]
    with_bias = [row for row in insides if len(row["nodes"]) == 3]
    assert len(with_bias) == 6, "plans do not share what is inside equal boxes"


def test_ports_stand_at_the_upper_and_lower_side(function):
    for inside in function["insides"]:
        first = len(inside["nodes"])
        comes = set(range(first, first + len(inside["comes"])))
        goes = set(range(first + len(comes), len(inside["x"]))) & set(
            range(first + len(comes) + len(inside["goes"]))
        )
        assert comes <= set(inside["layers"][0]) and goes <= set(inside["layers"][-1])
        assert comes and goes
        assert {edge["source"] for edge in inside["edges"]} >= comes
