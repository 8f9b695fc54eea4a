# SPDX-License-Identifier: Apache-2.0
"""Which plan each column ships, and how fast that is: decided on every other round of one
comparison and told by the rounds between, so that no plan is told by the luck that chose it.

Test: bench/test_ablation.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from harness.sides import ratio_of, row_of
from tvm.relay.collage.graph_search.guard import choose
from tvm.relay.collage.measure import Comparison, Cost
from tvm.relay.collage.timing.comparison import best_first


@dataclasses.dataclass(frozen=True)
class Column:
    """A list of backends: its plans by the names of their libraries, the simplest first; those of
    one backend alone; the op-level optimum, None where TVM is the only backend; whether what it has
    beyond the column before are kernels of our own, in plans that are not of that one."""

    name: str
    plans: Sequence[str]
    singles: Sequence[str]
    op_level: str | None
    adds_own_kernels: bool = False


def judge(
    comparisons: Sequence[Comparison],
    columns: Sequence[Column],
    peers: Sequence[str],
    ships: str,
    graph_level: str | None,
) -> dict[str, Any]:
    """Rows of all contestants, and what each column ships.

    The last column has all backends. `ships` is what Collage's own guard shipped with these,
    `graph_level` the best plan of the search of whole plans. A ratio is the time of the fastest
    backend alone, of the fastest that is alone without kernels of our own too, or of the fastest
    peer, over the plan's own: above 1 where the plan is faster.
    """
    decide, tell = _of_rounds(comparisons, 0), _of_rounds(comparisons, 1)
    told = {item.name: item for item in tell}
    single = _fastest(decide, columns[-1].singles)
    peer = _fastest(decide, peers)
    singles = {name for column in columns for name in column.singles}
    library = _fastest(decide, singles - _with_own_kernels(columns))

    def row(plan: str | None, **more: Any) -> dict[str, Any]:
        item = told.get(plan or "")
        return {
            **more,
            "plan": plan,
            "is_single": plan in singles,
            "over_single": ratio_of(told.get(single or ""), item),
            "over_library": ratio_of(told.get(library or ""), item),
            "over_peer": ratio_of(told.get(peer or ""), item),
        }

    return {
        "rows": [row_of(item, told.get(ships)) for item in tell],
        "best_single": single,
        "best_library": library,
        "fastest_peer": peer,
        "columns": [row(_ships(decide, column), name=column.name) for column in columns],
        "op_level": row(columns[-1].op_level),
        "graph_level": row(graph_level),
        "shipped": row(ships),
    }


def _with_own_kernels(columns: Sequence[Column]) -> set[str]:
    """The plans of one backend that came with a column of kernels of our own."""
    known: set[str] = set()
    found: set[str] = set()
    for column in columns:
        if column.adds_own_kernels:
            found |= set(column.singles) - known
        known |= set(column.singles)
    return found


def _of_rounds(comparisons: Sequence[Comparison], first: int) -> list[Comparison]:
    """With every other round alone, the best first; what failed, and what left too early to have a
    round of these, comes last."""
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
    """By the guard's own rule; None where no plan of the column ran."""
    mine = [item for item in ranked if item.name in column.plans]
    try:
        return choose(mine, list(column.plans))
    except RuntimeError:
        return None
