# SPDX-License-Identifier: Apache-2.0
"""Names of plans, as reports, placements and options have them. A backend alone has its own name.

Test: plans/graph_search/test_coarse.py.
"""

from __future__ import annotations

# TVM alone, and the op-level optimum.
TVM_ALONE = "tvm"
OP_LEVEL = "collage"
# The op-level optimum with neighbouring parts of one backend joined, which its sum cannot judge.
MERGED = "collage-merged"
# The same with TVM's default schedules: tuning records that do not pay end to end do not ship.
UNTUNED = {TVM_ALONE: "tvm-untuned", OP_LEVEL: "collage-untuned"}
# The op-level optimum of the backends that do not trade accuracy, where it is another: it can ship
# when that of all backends is over the budget.
EXACT = "collage-exact"
# Plans of fewer parts, whose costs add up to little more; the finest first.
COARSE, COARSER = "collage-coarse", "collage-coarser"
# Behind the name of a backend: it runs the model's file as a whole.
ORIGINAL = "-original"
# Behind the name of a plan of a small net: the same on the calling thread alone, without the time
# that it takes to wake others.
ONE_THREAD = "-one-thread"
# The best new plans of a search of whole plans, by their ranks: graph-1, graph-2, ...
SEARCHED = "graph-"

_OF_SEVERAL = frozenset({OP_LEVEL, MERGED, EXACT, UNTUNED[OP_LEVEL], COARSE, COARSER})


def is_single(plan: str) -> bool:
    """Return whether a plan is one backend (and TVM for what it cannot take), nothing searched."""
    return plan.removesuffix(ONE_THREAD) not in _OF_SEVERAL and not is_searched(plan)


def is_searched(plan: str) -> bool:
    """Return whether a plan comes of a search of whole plans."""
    return plan.startswith(SEARCHED)
