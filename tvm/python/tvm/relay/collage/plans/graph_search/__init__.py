# SPDX-License-Identifier: Apache-2.0
"""End to end: whole plans measured beside each other, since parts measured alone do not add up."""

from .coarse import coarse_plans
from .guard import GuardResult, choose, guard
from .libraries import EndToEnd, GuardUnavailable
from .search import GraphSearch, search_plans
from .space import PlanSpace

__all__ = [
    "EndToEnd",
    "GraphSearch",
    "GuardResult",
    "GuardUnavailable",
    "PlanSpace",
    "choose",
    "coarse_plans",
    "guard",
    "search_plans",
]
