# SPDX-License-Identifier: Apache-2.0
"""End to end: whole plans measured beside each other, since parts measured alone do not add up."""

from .guard import GuardResult, choose, guard
from .libraries import EndToEnd, GuardUnavailable
from .search import GraphSearch, KnownPlans, search_plans
from .space import PlanSpace, coarse_plans

__all__ = [
    "EndToEnd",
    "GraphSearch",
    "GuardResult",
    "GuardUnavailable",
    "PlanSpace",
    "KnownPlans",
    "choose",
    "coarse_plans",
    "guard",
    "search_plans",
]
