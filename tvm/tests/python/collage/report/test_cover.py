# SPDX-License-Identifier: Apache-2.0
"""The cheapest candidates that hold given operators."""

import random

import pytest
from tvm.relay.collage.report import alternatives
from tvm.relay.collage.report.alternatives import Candidate, cheapest_cover


def made(*rows):
    return [Candidate(frozenset(operators), seconds, None) for operators, seconds in rows]


def seconds_of(found):
    return None if found is None else round(sum(each.seconds for each in found), 6)


def least_seconds(operators, known):
    """By all sets of operators that candidates can hold: after n operators, all that hold the n
    lowest of them."""
    least = {frozenset(): 0.0}
    for operator in sorted(operators):
        after = {held: cost for held, cost in least.items() if operator in held}
        for held in least.keys() - after.keys():
            for each in known:
                if operator in each.operators and not held & each.operators:
                    whole, cost = held | each.operators, least[held] + each.seconds
                    after[whole] = min(cost, after.get(whole, cost))
        least = after
    return round(min(least.values()), 6) if least else None


def drawn(draw, operators, count, most, has_singles):
    """So many candidates of at most so many operators."""
    sizes = (draw.randint(1 if has_singles else 2, most) for _ in range(count))
    return made(*((draw.sample(range(operators), n), n * draw.uniform(0.5, 1.5)) for n in sizes))


def test_the_cheapest_that_are_disjoint_are_found():
    known = made(({1}, 5), ({2}, 5), ({3}, 5), ({1, 2}, 6), ({2, 3}, 3), ({1, 3, 9}, 1))
    assert cheapest_cover({1, 2, 3}, known) == made(({1}, 5), ({2, 3}, 3))
    assert cheapest_cover(set(), known) == []


def test_what_no_candidates_hold_has_no_cover():
    assert cheapest_cover({1, 2}, made(({1}, 5))) is None
    assert cheapest_cover({1, 2, 3}, made(({1, 2}, 5), ({2, 3}, 5))) is None


@pytest.mark.parametrize(("operators", "count", "has_singles"), [(6, 10, True), (14, 70, False)])
def test_of_few_operators_no_other_cover_costs_less(operators, count, has_singles):
    draw = random.Random(0)
    for _ in range(10):
        known = drawn(draw, operators, count, 4, has_singles)
        found = cheapest_cover(range(operators), known)
        assert seconds_of(found) == least_seconds(range(operators), known)


def test_of_many_ways_a_cover_is_found_that_holds_all_operators(monkeypatch):
    monkeypatch.setattr(alternatives, "MOST_STEPS", 0)
    known = drawn(random.Random(0), 14, 70, 4, has_singles=True)
    known += made(*(({k}, 1.0) for k in range(14)))
    found = cheapest_cover(range(14), known)
    assert sorted(n for each in found for n in each.operators) == [*range(14)]
    assert seconds_of(found) <= 14


def test_a_chain_of_hundreds_costs_least():
    known = made(*(((k, k + 1), 1.5) for k in range(600)), *(((k,), 1.0) for k in range(601)))
    assert seconds_of(cheapest_cover(range(601), known)) == 300 * 1.5 + 1
