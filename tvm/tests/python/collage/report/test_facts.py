# SPDX-License-Identifier: Apache-2.0
"""What is said of a report: the three lines, names, shapes, shares."""

import dataclasses

import pytest
from made_reports import made
from tvm.relay.collage.costs.compared import ComparedPlan, Ratio
from tvm.relay.collage.report import head_lines
from tvm.relay.collage.report.facts import MORE, label_of, ratio_text, shape_text, share_text
from tvm.relay.collage.report.record import CostCounts, PlacedOps


def ratio_of(value):
    return value and Ratio(value, value - 0.05, value + 0.05)


def plan(name, seconds, *, single=False, chosen=False, ratio=None, takes=None, **more):
    status = "measured" if seconds else "crashed"
    return ComparedPlan(
        *(name, single, chosen, status, seconds, None, None, 30),
        ratio_to_best_single=ratio_of(ratio),
        ratio_to_chosen=ratio_of(takes),
        **more,
    )


def report(*plans, chosen="collage", **changes):
    rows = [("tvm", 2), ("dnnl", 5), ("dnnl", 1)]
    placement = tuple(PlacedOps(name, "", 1, count) for name, count in rows)
    plain = {"plan": chosen, "placement": placement, "costs": CostCounts(), "plans": plans}
    return dataclasses.replace(made(1), **{**plain, **changes})


def test_a_mix_that_wins_is_told_beside_the_best_backend():
    ships, latency, more = head_lines(
        report(
            plan("tvm", 4e-3, single=True, ratio=0.5),
            plan("dnnl", 2e-3, single=True, ratio=1.0),
            plan("collage", 1e-3, chosen=True, ratio=2.0),
        )
    )
    assert ships == "Plan collage ships: operators 6 on dnnl, 2 on tvm."
    assert latency == (
        "It takes 1 ms a run, 2.000 [1.950, 2.050] x as fast as the best backend alone, dnnl "
        "with 2 ms."
    )
    assert more == MORE


def test_doubtful_times_of_plans_are_marked_and_say_what_to_do():
    best = plan("dnnl", 2e-3, single=True, ratio=1.0, takes=2.0, flags=("noisy",))
    ships = plan("collage", 1e-3, chosen=True, ratio=2.0, flags=("busy",))
    _, latency, advice = head_lines(report(best, ships))
    assert latency.startswith("It takes 1 ms (busy) a run, ")
    assert latency.endswith(" dnnl with 2 ms (noisy).")
    assert advice == (
        "Doubtful: the plans were measured while other work left no core free; search again when "
        "`collage doctor` finds the machine quiet."
    )


def test_too_few_rounds_are_told_within_the_sentence():
    few = {"low": 0.0, "high": None}
    alone = plan("dnnl", 2e-3, single=True)
    alone = dataclasses.replace(
        alone, ratio_to_best_single=Ratio(1.0, **few), ratio_to_chosen=Ratio(2.0, **few)
    )
    ratio = Ratio(1.2, **few)
    chosen = dataclasses.replace(plan("collage", 1e-3, chosen=True), ratio_to_best_single=ratio)
    assert head_lines(report(alone, chosen))[1] == (
        "It takes 1 ms a run, 1.200 x (too few rounds to be sure) as fast as the best backend "
        "alone, dnnl with 2 ms."
    )
    chosen = dataclasses.replace(chosen, ratio_to_best_single=None)
    assert head_lines(report(alone, chosen))[1] == (
        "It takes 1 ms a run; the next plan, dnnl, takes 2.00 times that (too few rounds to be "
        "sure)."
    )


@pytest.mark.parametrize("same_as", ["", "dnnl"])
def test_a_backend_that_wins_is_told_beside_the_next_plan(same_as):
    """Whether it ships under its own name or under that of an equal plan."""
    named = "collage" if same_as else "dnnl"
    plans = [plan("dnnl", 2e-3, single=True, chosen=not same_as, ratio=1.0)]
    if same_as:
        plans.append(plan("collage", 2e-3, chosen=True, ratio=1.0, same_as="dnnl"))
    # By the rounds that both ran, also where the medians of each alone are in another order.
    plans += [plan("openvino", 1.9e-3, single=True, ratio=0.6, takes=1.6)]
    plans += [plan("collage-merged", 3e-3, ratio=0.67, takes=1.5), plan("tvm", None, single=True)]
    _, latency, _ = head_lines(report(*plans, chosen=named))
    assert latency == (
        "It takes 2 ms a run; the next plan, collage-merged, takes 1.50 [1.45, 1.55] times that."
    )


def test_a_mix_that_lost_is_told_where_a_backend_ships():
    plans = [
        plan("dnnl", 2e-3, single=True, chosen=True, ratio=1.0, takes=1.0),
        plan("openvino", 2.2e-3, single=True, ratio=0.9, takes=1.1),
        plan("collage-merged", 2.8e-3, ratio=0.7, takes=1.4),
        plan("collage", 2.4e-3, ratio=0.8, takes=1.2),
    ]
    _, latency, _ = head_lines(report(*plans, chosen="dnnl"))
    assert latency == (
        "It takes 2 ms a run; the next plan, openvino, takes 1.10 [1.05, 1.15] times that. No mix "
        "was clearly faster: collage takes 1.20 [1.15, 1.25] times what ships."
    )
    # The simplest plan ships of those that are as fast.
    level = dataclasses.replace(plans[3], ratio_to_chosen=ratio_of(0.98))
    _, latency, _ = head_lines(report(*plans[:2], level, chosen="dnnl"))
    assert "the next plan, collage, takes 0.98" in latency and "No mix" not in latency
    # Not where a mix ships, nor of a plan that is a backend's by another name.
    ships = dataclasses.replace(plans[3], is_chosen=True, ratio_to_chosen=None)
    _, latency, _ = head_lines(report(*plans[1:3], ships, chosen="collage"))
    assert "No mix" not in latency
    same = [dataclasses.replace(row, same_as="openvino") for row in plans[2:]]
    assert "No mix" not in head_lines(report(*plans[:2], *same, chosen="dnnl"))[1]


def test_what_is_not_known_is_said():
    [_, latency, _] = head_lines(report(guard_skipped="if is not supported"))
    assert latency == "How fast it is was not measured: if is not supported."
    [_, latency, _] = head_lines(report(plan("collage", None, chosen=True)))
    assert (
        latency
        == "How fast it is was not measured: the guard, which measures whole plans, was off."
    )
    alone = plan("tvm", 1e-3, single=True, chosen=True)
    ships, latency, _ = head_lines(report(alone, chosen="tvm", placement=()))
    assert ships == "Plan tvm ships."
    assert latency == "It takes 1 ms a run; there was no other plan to compare with."
    [_, _, last] = head_lines(report(alone, costs=CostCounts(busy=3)))
    assert last.startswith("Doubtful: 3 costs measured while other work left no core free; search")
    assert "when `collage doctor` finds the machine quiet" in last


def test_a_ratio_has_its_interval_but_beside_itself():
    def text(*ratio):
        row = dataclasses.replace(plan("dnnl", 1.0), ratio_to_best_single=Ratio(*ratio))
        return ratio_text(row)

    assert text(1.0, 0.9, 1.2) == "1.000 [0.900, 1.200] x"
    assert text(1.0, 1.0, 1.0) == "1.000 x"
    assert text(0.5, 0.0, None) == "0.500 x (too few rounds to be sure)"
    assert ratio_text(plan("dnnl", 1.0)) == "-"


def test_long_labels_are_tallied():
    assert label_of(["add", "exp"]) == "add, exp"
    names = ["add"] * 5 + [f"op{k}" for k in range(9)]
    assert label_of(names).startswith("add x5, op0, ") and label_of(names).endswith(", 2 others")


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ("float32[1, 3]", "1x3"),
        ("float32[]", "scalar"),
        ("int8[2, ?]", "int8 2x?"),
        ("float32[1, 3] int64[2]", "1x3 int64 2"),
        ("", ""),
    ],
)
def test_shapes_are_short(types, text):
    assert shape_text(types) == text


def test_no_share_is_nothing():
    assert share_text(1e-5) == "under 0.1%" and share_text(0.0) == "0.0%"
    assert share_text(0.123) == "12.3%"
