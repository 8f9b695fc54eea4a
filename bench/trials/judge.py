# SPDX-License-Identifier: Apache-2.0
"""Judgement of which plan each column ships, and how fast that is: decided on every other round of
one comparison and told by the rounds between, so that no plan is told by the luck that chose it.

Test: bench/test_mixes.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from harness.sides import ratio_of, row_of
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.measure.race.comparison import best_first
from tvm.relay.collage.plans.graph_search.guard import choose


@dataclasses.dataclass(frozen=True)
class Column:
    """A list of backends: its plans by the names of their libraries, the simplest first; those of
    one backend alone; the op-level optimum, None where TVM is the only backend; those with kernels
    of our own."""

    name: str
    plans: Sequence[str]
    singles: Sequence[str]
    op_level: str | None
    own_kernels: Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Shipped:
    """The plan that Collage's own guard shipped with all backends, by the name of its library,
    which is that of a column's plan where there is an equal one."""

    name: str
    is_single: bool
    has_own_kernels: bool


def compared(columns: Sequence[Column], peers: Sequence[str], ships: Shipped) -> list[str]:
    """Return what ships, and whom the page compares it with. They need all rounds: the ratio of one
    that left for being far slower has no interval, so that its net would count in no figure."""
    singles = (name for column in columns for name in column.singles)
    return [ships.name, *peers, *singles]


def judge(
    comparisons: Sequence[Comparison],
    columns: Sequence[Column],
    peers: Sequence[str],
    ships: Shipped,
    graph_level: str | None,
) -> dict[str, Any]:
    """Return rows of all contestants, and what each column ships.

    The last column has all backends. `graph_level` is the best plan of the search of whole plans. A
    ratio is the time of the fastest backend alone, of the fastest alone without kernels of our own,
    or of the fastest peer, over the plan's own: above 1 where the plan is faster.
    """
    decide, tell = of_rounds(comparisons, 0), of_rounds(comparisons, 1)
    told = {item.name: item for item in tell}
    peer = _fastest(decide, peers)
    singles = {name for column in columns for name in column.singles}
    own = {name for column in columns for name in column.own_kernels}
    last = set(columns[-1].singles)
    if ships.is_single:
        singles, last = singles | {ships.name}, last | {ships.name}
    if ships.has_own_kernels:
        own.add(ships.name)
    single = _fastest(decide, last)
    without = _fastest(decide, singles - own)

    def row(plan: str | None, **more: Any) -> dict[str, Any]:
        item = told.get(plan or "")
        return {
            **more,
            "plan": plan,
            "is_single": plan in singles,
            "over_single": ratio_of(told.get(single or ""), item),
            "over_without_own_kernels": ratio_of(told.get(without or ""), item),
            "over_peer": ratio_of(told.get(peer or ""), item),
        }

    return {
        "rows": [row_of(item, told.get(ships.name)) for item in tell],
        "best_single": single,
        "best_without_own_kernels": without,
        "fastest_peer": peer,
        "columns": [row(_ships(decide, column), name=column.name) for column in columns],
        "op_level": row(columns[-1].op_level),
        "graph_level": row(graph_level),
        "shipped": row(ships.name),
    }


def of_rounds(comparisons: Sequence[Comparison], first: int) -> list[Comparison]:
    """Return comparisons with every other round alone, the best first; what failed, and what left
    too early to have a round of these, comes last."""
    items = {}
    for item in comparisons:
        samples = item.samples[first::2] if item.cost.is_usable else ()
        cost = Cost.measured(samples, by_quartile=False) if samples else item.cost
        if item.cost.is_usable and not samples:
            cost = Cost.failed("timeout", "it left before its second round: it is far slower")
        items[item.name] = dataclasses.replace(item, cost=cost, samples=samples)
    order = best_first({name: item.samples for name, item in items.items() if item.samples})
    return [items[name] for name in order + [name for name in items if name not in order]]


def _fastest(ranked: Sequence[Comparison], names: Collection[str]) -> str | None:
    return next((i.name for i in ranked if i.name in names and i.cost.is_usable), None)


def _ships(ranked: Sequence[Comparison], column: Column) -> str | None:
    """Choose by the guard's own rule; None where no plan of the column ran."""
    mine = [item for item in ranked if item.name in column.plans]
    try:
        return choose(mine, list(column.plans))
    except RuntimeError:
        return None
