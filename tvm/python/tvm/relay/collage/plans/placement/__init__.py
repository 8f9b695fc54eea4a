# SPDX-License-Identifier: Apache-2.0
"""Placements: what runs where in a module, saved to a file and replayed without measuring."""

from ...costs.cost import PartCost
from .seen import SeenPlans
from .types import (
    Composite,
    MachineTraits,
    PlacedFunction,
    PlacedPart,
    Placement,
    load_placement,
)

__all__ = [
    "Composite",
    "MachineTraits",
    "PartCost",
    "PlacedFunction",
    "PlacedPart",
    "Placement",
    "SeenPlans",
    "load_placement",
]
