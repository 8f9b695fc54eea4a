# SPDX-License-Identifier: Apache-2.0
"""End to end: whole plans measured beside each other, since parts measured alone do not add up."""

from .coarse import coarse_plans
from .decide import Limits
from .guard import GuardOptions, GuardResult, choose, guard
from .libraries import EndToEnd, GuardUnavailable
from .search import GraphSearch, GraphSearchOptions, search_plans
from .space import PlanSpace

__all__ = [
    "EndToEnd",
    "GraphSearch",
    "GuardOptions",
    "GuardResult",
    "GuardUnavailable",
    "Limits",
    "PlanSpace",
    "GraphSearchOptions",
    "choose",
    "coarse_plans",
    "guard",
    "search_plans",
]
