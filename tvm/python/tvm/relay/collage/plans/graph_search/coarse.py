# SPDX-License-Identifier: Apache-2.0
"""Plans of fewer parts than the op-level optimum has, whose costs add up to little more.

The op-level search adds up what parts take alone. Each border costs more than that in the
network: threads of two libraries take turns, values leave the caches, a library that would have
fused across it cannot. What a border costs hangs on the network, so no number is charged: a few
plans of fewer parts join the guard, which measures them whole.

Each is the cheapest of those whose parts are charged a price on top of their costs, which is exact
for that price; prices rise by half each time, and the highest counts at which the costs alone still
add up to little more than the optimum's. Test: plans/graph_search/test_coarse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..names import COARSE, COARSER
from ..placement.describe import placed_parts
from .space import Parts, Replans, plan_again

# By how much the costs of a coarse plan may add up to more, by the plan's name.
SLACK: Mapping[str, float] = {COARSE: 0.05, COARSER: 0.2}
# Prices of a part, as shares of what the optimum costs.
_PRICES = [1.5**-k for k in range(24, -1, -1)]


def coarse_plans(replans: Replans) -> dict[str, Parts]:
    """Return the parts by function of each coarse plan, by its name, finest first. One is left out
    that is no coarser than the one before it, or than the optimum."""
    found: dict[str, Parts] = {}
    rows = {name: list(_coarsest(replan)) for name, replan in replans.items()}
    for k, plan in enumerate(SLACK, 1):
        if any(each[k] != each[k - 1] for each in rows.values()):
            found[plan] = {name: placed_parts(each[k]) for name, each in rows.items()}
    return found


def _coarsest(replan: Callable[[str], Any]) -> Iterator[list[Any]]:
    """Yield the optimum's rows of parts, then for each slack those for the highest price at which
    the plan is within it."""
    optimum = plan_again(replan)
    rows, seconds = optimum
    yield rows
    plans = (plan_again(replan, part_seconds=price * seconds) for price in _PRICES)
    plan = next(plans, None)
    for slack in SLACK.values():
        while plan and plan.seconds <= (1 + slack) * seconds:
            rows, plan = plan.parts, next(plans, None)
        yield rows
