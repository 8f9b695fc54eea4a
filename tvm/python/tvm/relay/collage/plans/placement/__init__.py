# SPDX-License-Identifier: Apache-2.0
"""Placements: what runs where in a module, saved to a file and replayed without measuring."""

from ...costs.cost import PartCost
from .seen import SeenPlans
from .types import (
    Composite,
    MachineTraits,
    MadeWith,
    PlacedFunction,
    PlacedPart,
    Placement,
    SeenNode,
    Tuning,
    load_placement,
)

__all__ = [
    "Composite",
    "MadeWith",
    "MachineTraits",
    "SeenNode",
    "PartCost",
    "PlacedFunction",
    "PlacedPart",
    "Placement",
    "SeenPlans",
    "Tuning",
    "load_placement",
]
