# SPDX-License-Identifier: Apache-2.0
"""Which plan ships on a noisy machine: seeded trials on made-up timings, no clock, no process."""

from collections import Counter

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm.relay.collage.errors import OptionError
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.race.comparison import best_first, paired_ratio
from tvm.relay.collage.measure.race.rounds import Further, RoundOptions, run_rounds
from tvm.relay.collage.options import CollageOptions
from tvm.relay.collage.plans.graph_search import choose
from tvm.relay.collage.plans.graph_search.decide import (
    AS_GOOD,
    MOST_SLOWER,
    OPEN,
    SLOWER,
    Limits,
    in_question,
    may_ship,
    simplest_first,
    verdict,
)
from tvm.relay.collage.plans.graph_search.guard import GIVE_UP_RATIO

ORDER = ["tvm", "dnnl", "collage"]
ROUNDS = CollageOptions().guarding.rounds
SPREADS = {"quiet": (0.005, 0.01), "busy": (0.03, 0.1), "wild": (0.1, 0.2)}


def timings(seconds, spread, seed):
    """A sample of each plan by its true seconds: noise of a few percent, now and then a sample that
    another process has slowed down, and a machine whose speed drifts by 20 %."""
    generator = np.random.default_rng(seed)
    noise, spikes = spread
    count = 0

    def sample(name):
        nonlocal count
        count += 1
        drift = 1 + 0.2 * np.sin(count / 40 + seed)
        slow = 1 + generator.exponential(1.0) * (generator.random() < spikes)
        return seconds[name] * drift * slow * float(np.exp(generator.normal(0, noise)))

    return sample


def trial(seconds, spread, seed, rounds=ROUNDS):
    """(the plan that ships, samples by name), as the guard goes about it."""
    samples = run_rounds(
        list(seconds),
        timings(seconds, SPREADS[spread], seed),
        lambda name, reason: None,
        RoundOptions(
            rounds=rounds,
            seed=seed,
            give_up_ratio=GIVE_UP_RATIO,
            further=Further(lambda running: in_question(running, ORDER), 1e9),
        ),
    )
    comparisons = [
        Comparison(name, Cost.measured(samples[name]), samples=tuple(samples[name]))
        for name in best_first(samples)
    ]
    return choose(comparisons, ORDER), samples


@pytest.mark.parametrize("spread", ["quiet", "busy"])
def test_of_equal_plans_the_simplest_ships_always(spread):
    equal = dict.fromkeys(ORDER, 1e-3)
    assert Counter(trial(equal, spread, seed)[0] for seed in range(200)) == {"tvm": 200}


@pytest.mark.parametrize("spread", ["quiet", "busy"])
def test_a_plan_that_is_5_percent_faster_is_found(spread):
    faster = {"tvm": 1.05e-3, "dnnl": 1.05e-3, "collage": 1e-3}
    winners = Counter(trial(faster, spread, seed)[0] for seed in range(100))
    assert winners["collage"] >= 98, winners


def test_on_a_quiet_machine_less_will_do():
    faster = {"tvm": 1.3e-3, "dnnl": 1.015e-3, "collage": 1e-3}
    winners = Counter(trial(faster, "quiet", seed)[0] for seed in range(100))
    assert winners["collage"] >= 80, winners


@pytest.mark.parametrize("spread", list(SPREADS))
def test_nothing_ships_that_was_measured_2_percent_behind_the_best(spread):
    """Whatever the noise, and whatever the truth."""
    generator = np.random.default_rng(7)
    for seed in range(25):
        seconds = {name: 1e-3 * generator.uniform(1.0, 1.08) for name in ORDER}
        winner, samples = trial(seconds, spread, seed, rounds=int(generator.integers(3, 40)))
        best = samples[best_first(samples)[0]]
        assert paired_ratio(samples[winner], best).value <= MOST_SLOWER


def test_more_rounds_are_spent_only_where_it_matters():
    apart = {"tvm": 1.2e-3, "dnnl": 1.1e-3, "collage": 1e-3}
    equal = dict.fromkeys(ORDER, 1e-3)
    assert len(trial(apart, "busy", 1)[1]["collage"]) == ROUNDS
    assert len(trial(equal, "quiet", 1)[1]["collage"]) == ROUNDS
    assert max(len(trial(equal, "wild", seed)[1]["tvm"]) for seed in range(5)) > ROUNDS
    close = {"tvm": 1.2e-3, "dnnl": 1.02e-3, "collage": 1e-3}
    counts = [{n: len(s) for n, s in trial(close, "busy", k)[1].items()} for k in range(5)]
    assert any(each["dnnl"] > ROUNDS for each in counts)
    assert all(each["tvm"] < each["dnnl"] for each in counts if each["dnnl"] > ROUNDS)


def test_rounds_end_where_plans_are_within_one_percent():
    """To tell such apart would take most of the guard's time, and what it gains is nothing."""
    close = {"tvm": 1.004e-3, "dnnl": 1e-3}
    counts = [len(trial(close, "busy", seed)[1]["tvm"]) for seed in range(20)]
    assert sorted(counts)[10] == ROUNDS


def test_a_plan_that_is_behind_runs_in_six_rounds():
    behind = {"tvm": 1.1e-3, "dnnl": 1.02e-3, "collage": 1e-3}
    samples = trial(behind, "quiet", 1)[1]
    assert len(samples["tvm"]) == 6
    assert min(len(samples["dnnl"]), len(samples["collage"])) >= ROUNDS


BEST = [1.0] * 30


@pytest.mark.parametrize(
    "plan, expected, ships",
    [
        ([1.0] * 30, AS_GOOD, True),
        ([0.99] * 30, AS_GOOD, True),
        ([1.009] * 30, AS_GOOD, True),  # surely slower, but by no difference
        ([1.015] * 30, SLOWER, False),
        ([1.03] * 30, SLOWER, False),
        ([0.9, 1.1] * 15, AS_GOOD, True),  # nobody knows who is faster, by 1 % at most
        ([0.9, 1.1] * 7, OPEN, True),  # of so few rounds the median says little
        ([0.9, 1.13] * 15, OPEN, True),
        ([0.9, 1.15] * 15, OPEN, False),  # 1.025 in the median
        ([1.5, 0.95] * 15, OPEN, False),
        ([1.03] * 15, SLOWER, False),
        ([1.03] * 14, OPEN, False),  # too few rounds to be sure of anything
        ([1.0] * 5, OPEN, True),
    ],
)
def test_verdicts(plan, expected, ships):
    best = BEST[: len(plan)]
    assert (verdict(plan, best), may_ship(plan, best)) == (expected, ships)


def test_a_slow_spell_that_hit_both_cancels_out():
    spell = [1.0] * 15 + [5.0] * 15
    assert verdict([1.03 * each for each in spell], spell) == SLOWER
    assert verdict([1.005 * each for each in spell], spell) == AS_GOOD


@pytest.mark.parametrize(
    "samples, expected",
    [
        ({"tvm": [1.0] * 30, "dnnl": [1.0] * 30, "collage": [1.0] * 30}, []),
        # tvm is slower and dnnl as good: what collage is does not matter.
        ({"tvm": [1.5] * 30, "dnnl": [1.001] * 30, "collage": [1.0, 1.0] * 15}, []),
        ({"tvm": [1.5] * 30, "dnnl": [0.9, 1.2] * 15, "collage": BEST}, ["dnnl", "collage"]),
        ({"tvm": [0.9, 1.2] * 15, "dnnl": [1.5] * 30, "collage": BEST}, ["tvm", "collage"]),
        ({"collage": BEST}, []),
        # The simplest is the best so far, which may be noise.
        ({"tvm": BEST, "dnnl": [0.9, 1.08] * 15, "collage": [1.5] * 30}, ["tvm", "dnnl"]),
        # Within 1 % nobody needs to know: the simplest ships.
        ({"tvm": BEST, "dnnl": [0.95, 1.055] * 15, "collage": [1.5] * 30}, []),
        ({"tvm": BEST, "dnnl": [1.02, 1.2] * 15, "collage": [1.5] * 30}, []),
    ],
)
def test_who_needs_more_rounds(samples, expected):
    assert in_question(samples, ORDER) == expected


def test_plans_of_no_order_are_an_error():
    with pytest.raises(ValueError, match=r"plans \['x'\] are none of"):
        in_question({"x": BEST}, ORDER)


def test_the_simplest_has_the_fewest_backends_then_parts():
    def module(*compilers):
        mod = parse("def @main(%x: $T) { nn.relu(%x) }")
        for place, name in enumerate(compilers):
            function = mod["main"].with_attr("Compiler", name)
            mod[tvm.relay.GlobalVar(f"part_{place}")] = function
        return mod

    plans = {
        "mixed": module("a", "b"),
        "many": module("a", "a", "a"),
        "few": module("a", "a"),
        "tvm": module(),
        "few again": module("b", "b"),
    }
    assert simplest_first(plans) == ["tvm", "few", "few again", "many", "mixed"]


def plan(name, memory_mb, library_mb, status="measured"):
    cost = Cost.measured([1.0] * 6) if status == "measured" else Cost.failed(status, "no kernel")
    return Comparison(
        name, cost, memory_bytes=int(1e6 * memory_mb), library_bytes=int(1e6 * library_mb)
    )


PLANS = [plan("fast", 300, 90), plan("small", 100, 100), plan("broken", 0, 0, "crashed")]


@pytest.mark.parametrize(
    ("limits", "kept", "message"),
    [
        (Limits(), ["fast", "small"], ""),
        (Limits(memory_mb=300, library_mb=100), ["fast", "small"], ""),
        (
            Limits(memory_mb=299),
            ["small"],
            "it takes 300 MB of memory, more than option relay.collage.guard_memory_mb allows "
            "(299)",
        ),
        (
            Limits(library_mb=99),
            ["fast"],
            "its library has 100 MB, more than option relay.collage.guard_library_mb allows (99)",
        ),
    ],
)
def test_a_plan_over_a_limit_loses_with_its_reason(limits, kept, message):
    found = limits.keep(PLANS)
    assert [item.name for item in found if item.cost.is_usable] == kept
    assert [item.name for item in found][: len(kept)] == kept, "the best first, failures last"
    messages = {item.cost.message for item in found if item.cost.status == "unsupported"}
    assert messages == ({message} if message else set())
    assert found[-1].cost == PLANS[-1].cost


def test_limits_that_no_plan_keeps_are_an_error_and_a_fault_is_none():
    with pytest.raises(OptionError, match="fast: it takes 300 MB.*guard_memory_mb.*raise them"):
        Limits(memory_mb=1).keep(PLANS)
    assert Limits(memory_mb=1).keep(PLANS[-1:]) == PLANS[-1:]
