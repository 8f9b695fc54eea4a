# SPDX-License-Identifier: Apache-2.0
"""The cheapest candidates that hold given operators."""

import itertools
import random
from typing import NamedTuple

from tvm.relay.collage.report.cover import cheapest_cover


class Piece(NamedTuple):
    operators: frozenset
    seconds: float


def pieces(*rows):
    return [Piece(frozenset(operators), seconds) for operators, seconds in rows]


def seconds_of(found):
    return None if found is None else round(sum(piece.seconds for piece in found), 6)


def by_trying_all(operators, known):
    costs = [
        sum(piece.seconds for piece in chosen)
        for count in range(len(operators) + 1)
        for chosen in itertools.combinations(known, count)
        if sorted(n for piece in chosen for n in piece.operators) == sorted(operators)
    ]
    return round(min(costs), 6) if costs else None


def test_the_cheapest_that_are_disjoint_are_found():
    known = pieces(({1}, 5), ({2}, 5), ({3}, 5), ({1, 2}, 6), ({2, 3}, 3), ({1, 3, 9}, 1))
    assert cheapest_cover({1, 2, 3}, known) == pieces(({1}, 5), ({2, 3}, 3))
    assert cheapest_cover(set(), known) == []


def test_what_no_pieces_hold_has_no_cover():
    assert cheapest_cover({1, 2}, pieces(({1}, 5))) is None
    assert cheapest_cover({1, 2, 3}, pieces(({1, 2}, 5), ({2, 3}, 5))) is None


def test_it_costs_what_trying_all_finds():
    draw = random.Random(0)
    for _ in range(30):
        known = pieces(
            *(
                (draw.sample(range(6), draw.randint(1, 3)), draw.randint(1, 9) / 7)
                for _ in range(10)
            )
        )
        assert seconds_of(cheapest_cover(range(6), known)) == by_trying_all(range(6), known)


def test_a_chain_of_hundreds_is_quick():
    known = pieces(*(((k, k + 1), 1.5) for k in range(600)), *(((k,), 1.0) for k in range(601)))
    assert seconds_of(cheapest_cover(range(601), known)) == 300 * 1.5 + 1
