# SPDX-License-Identifier: Apache-2.0
"""The three lines of a report."""

import pytest
from tvm.relay.collage.report.head import MORE, head_lines


def ratio_of(value):
    return value and {"value": value, "low": value - 0.05, "high": value + 0.05}


def plan(name, seconds, *, single=False, chosen=False, ratio=None, takes=None, same_as=""):
    return {
        "name": name,
        "seconds": seconds,
        "is_single_backend": single,
        "is_chosen": chosen,
        "same_as": same_as,
        "ratio_to_best_single": ratio_of(ratio),
        "ratio_to_chosen": ratio_of(takes),
    }


def report(*plans, chosen="collage", **changes):
    placement = [
        {"backend": "tvm", "operators": 2},
        {"backend": "dnnl", "operators": 5},
        {"backend": "dnnl", "operators": 1},
    ]
    plain = {"plan": chosen, "placement": placement, "guard_skipped": "", "costs": {}}
    return {**plain, "plans": list(plans), **changes}


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
    best = plan("dnnl", 2e-3, single=True, ratio=1.0, takes=2.0) | {"flags": ["noisy"]}
    ships = plan("collage", 1e-3, chosen=True, ratio=2.0) | {"flags": ["busy"]}
    _, latency, advice = head_lines(report(best, ships))
    assert latency.startswith("It takes 1 ms (busy) a run, ")
    assert latency.endswith(" dnnl with 2 ms (noisy).")
    assert advice == (
        "Doubtful: the plans were measured while other work left no core free; search again when "
        "`collage doctor` finds the machine quiet."
    )


def test_too_few_rounds_are_told_within_the_sentence():
    alone = plan("dnnl", 2e-3, single=True, ratio=1.0, takes=2.0)
    chosen = plan("collage", 1e-3, chosen=True, ratio=1.2)
    for row in (alone, chosen):
        for ratio in (row["ratio_to_best_single"], row["ratio_to_chosen"]):
            if ratio:
                ratio.update(low=0.0, high=None)
    assert head_lines(report(alone, chosen))[1] == (
        "It takes 1 ms a run, 1.200 x (too few rounds to be sure) as fast as the best backend "
        "alone, dnnl with 2 ms."
    )
    chosen["ratio_to_best_single"] = None
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


def test_what_is_not_known_is_said():
    [_, latency, _] = head_lines(report(guard_skipped="if is not supported"))
    assert latency == "How fast it is was not measured: if is not supported."
    [_, latency, _] = head_lines(report(plan("collage", None, chosen=True)))
    assert (
        latency
        == "How fast it is was not measured: the guard, which measures whole plans, was off."
    )
    alone = plan("tvm", 1e-3, single=True, chosen=True)
    ships, latency, _ = head_lines(report(alone, chosen="tvm", placement=[]))
    assert ships == "Plan tvm ships."
    assert latency == "It takes 1 ms a run; there was no other plan to compare with."
    [_, _, last] = head_lines(report(alone, costs={"busy": 3}))
    assert last.startswith("Doubtful: 3 costs measured while other work left no core free; search")
    assert "when `collage doctor` finds the machine quiet" in last
