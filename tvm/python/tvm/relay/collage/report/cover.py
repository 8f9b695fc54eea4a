# SPDX-License-Identifier: Apache-2.0
"""What operators would cost at least on what was measured of them: the cheapest disjoint candidates
that hold just these. Test: report/test_cover.py.

Assumption: candidates that are disjoint can stand in one plan. Two that each read the other cannot,
which the search looks at and this does not. Transforms of layouts between them are not in their
costs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

# Ways to have begun that are kept, of those with the same operator next: with all of them a net
# with many branches takes minutes, and with so few a chain has them all.
_WIDTH = 16


class Piece(Protocol):
    """A candidate with a cost."""

    @property
    def operators(self) -> frozenset[int]: ...

    @property
    def seconds(self) -> float: ...


AnyPiece = TypeVar("AnyPiece", bound=Piece)


class _State(NamedTuple):
    """Pieces that were taken: the last of them, and the state before it."""

    seconds: float
    piece: Any = None
    before: Any = None

    def pieces(self) -> Iterator[Any]:
        state = self
        while state.piece is not None:
            yield state.piece
            state = state.before


def cheapest_cover(operators: Collection[int], pieces: Iterable[AnyPiece]) -> list[AnyPiece] | None:
    """The pieces that together are just these operators and cost least, in order; None where no
    pieces are."""
    bit_of = {operator: 1 << place for place, operator in enumerate(sorted(operators))}
    cheapest: dict[int, AnyPiece] = {}
    for piece in pieces:
        if piece.operators and piece.operators <= bit_of.keys():
            mask = sum(bit_of[operator] for operator in piece.operators)
            if mask not in cheapest or piece.seconds < cheapest[mask].seconds:
                cheapest[mask] = piece
    by_first: list[list[int]] = [[] for _ in bit_of]
    # What an operator costs at least as its share of any piece: by this, states compare that have
    # taken more or fewer operators beyond the next one.
    share = dict.fromkeys(bit_of, math.inf)
    share_of: dict[int, float] = {}
    for mask, piece in cheapest.items():
        by_first[_lowest(mask)].append(mask)
        for operator in piece.operators:
            share[operator] = min(share[operator], piece.seconds / len(piece.operators))
    if math.inf in share.values():
        return None
    for mask, piece in cheapest.items():
        share_of[mask] = piece.seconds - sum(share[operator] for operator in piece.operators)
    waiting: list[dict[int, tuple[float, _State]]] = [{} for _ in range(len(bit_of) + 1)]
    waiting[0][0] = (0.0, _State(0.0))
    for place, firsts in enumerate(by_first):
        best = sorted(waiting[place].items(), key=lambda item: item[1][0])[:_WIDTH]
        waiting[place] = {}
        for taken, (excess, state) in best:
            for mask in firsts:
                if taken & mask:
                    continue
                after, more = taken | mask, excess + share_of[mask]
                states = waiting[_lowest(~after)]
                if after not in states or more < states[after][0]:
                    piece = cheapest[mask]
                    states[after] = (more, _State(state.seconds + piece.seconds, piece, state))
    found = min(waiting[-1].values(), key=lambda item: item[0], default=None)
    return None if found is None else [*found[1].pieces()][::-1]


def _lowest(mask: int) -> int:
    """The place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1
