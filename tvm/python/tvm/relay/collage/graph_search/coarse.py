# SPDX-License-Identifier: Apache-2.0
"""Plans of fewer parts than the op-level optimum has, whose costs add up to little more.

The search by operators adds up what parts take alone. Each border costs more than that in the
network: threads of two libraries take turns, values leave the caches, a library that would have
fused across it cannot. What a border costs hangs on the network, so no number is charged: a few
plans of fewer parts join the guard, which measures them whole.

Each is the cheapest of those whose parts are charged a price on top of their costs, which is exact
for that price; prices rise by half each time, and the highest counts at which the costs alone still
add up to little more than the optimum's. Test: graph_search/test_coarse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..placement.describe import placed_parts
from .space import Parts, Replans, plan_again

# By how much the costs of a coarse plan may add up to more, by the plan's name.
SLACK: Mapping[str, float] = {"collage-coarse": 0.05, "collage-coarser": 0.2}
# Prices of a part, as shares of what the optimum costs.
_PRICES = [1.5**-k for k in range(24, -1, -1)]


def coarse_plans(replans: Replans) -> dict[str, Parts]:
    """Parts by function of each coarse plan, by its name, finest first. One is left out that is no
    coarser than the one before it, or than the optimum."""
    found: dict[str, Parts] = {}
    last = {name: plan_again(replan) for name, replan in replans.items()}
    for plan, slack in SLACK.items():
        coarse = {name: _coarsest(replan, slack) for name, replan in replans.items()}
        if any(coarse[name]["parts"] != last[name]["parts"] for name in replans):
            found[plan] = {name: placed_parts(each["parts"]) for name, each in coarse.items()}
        last = coarse
    return found


def _coarsest(replan: Callable[[str], Any], slack: float) -> dict[str, Any]:
    """What the replan answers for the highest price at which the plan is within the slack."""
    found = plan_again(replan)
    optimum = found["seconds"]
    for price in _PRICES:
        plan = plan_again(replan, part_seconds=price * optimum)
        if plan["seconds"] > (1 + slack) * optimum:
            break
        found = plan
    return found
