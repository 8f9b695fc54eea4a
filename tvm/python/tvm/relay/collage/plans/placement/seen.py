# SPDX-License-Identifier: Apache-2.0
"""The placements of all plans of one module together, each function and each distinct part once:
what a report holds of them, so that any can be drawn, saved and replayed.

Test: plans/placement/test_seen.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ...costs.kernel import KernelChoice
from ...errors import PlacementError, UnknownPlanError
from ...files.records import described
from ...options.named import option
from .types import MadeWith, PlacedFunction, PlacedPart, Placement, from_json

Part = TypeVar("Part")  # a record, or its JSON value


@dataclasses.dataclass(frozen=True)
class SeenFunction(PlacedFunction):
    """A global function, and the parts that plans have of it."""

    parts: tuple[PlacedPart, ...] = described("of all plans, each once")


@dataclasses.dataclass(frozen=True)
class SeenPlan:
    """A plan by the places of its parts."""

    plan: str = described("its name, as in the table of plans; trial-N: of the graph search")
    made_with: MadeWith = described("checked when the placement is replayed")
    kernels: tuple[KernelChoice, ...] = described("by which kernel steps of its parts run")
    parts: dict[str, tuple[int, ...]] = described("by function, positions in its parts", minimum=0)
    one_thread: bool = described("as of a placement", default=False)
    original: str = described("as of a placement", default="")
    kept: tuple[int, ...] = described("as of a placement", default=(), minimum=0)


@dataclasses.dataclass(frozen=True)
class SeenPlans:
    """Plans of one module; `placement` gives each back."""

    functions: tuple[SeenFunction, ...] = described("by name", default=())
    plans: tuple[SeenPlan, ...] = described("in the order in which they were made", default=())

    @classmethod
    def of(cls, placements: Mapping[str, Placement]) -> SeenPlans:
        """Placements of one module by the names of their plans."""
        if not placements:
            return cls()
        first = next(iter(placements.values()))
        # By function, each part by all that is in it, which may hold lists.
        tables: dict[str, dict[str, tuple[int, PlacedPart]]] = {f.name: {} for f in first.functions}

        def place_of(function: str, part: PlacedPart) -> int:
            table = tables[function]
            return table.setdefault(repr(part), (len(table), part))[0]

        plans = [
            SeenPlan(
                name,
                made.made_with,
                made.kernels,
                parts={
                    f.name: tuple(place_of(f.name, part) for part in f.parts)
                    for f in made.functions
                },
                one_thread=made.one_thread,
                original=made.original,
                kept=made.kept,
            )
            for name, made in placements.items()
        ]
        functions = [
            SeenFunction(**{**vars(f), "parts": tuple(part for _, part in tables[f.name].values())})
            for f in first.functions
        ]
        return cls(tuple(functions), tuple(plans))

    def names(self) -> list[str]:
        return [plan.plan for plan in self.plans]

    def placement(self, name: str) -> Placement:
        """UnknownPlanError where there is no plan of that name."""
        found = next((plan for plan in self.plans if plan.plan == name), None)
        if found is None:
            known = ", ".join(self.names()) or "none"
            raise UnknownPlanError(f"there is no plan {name!r}: the plans are {known}")
        functions = []
        for function in self.functions:
            places = found.parts.get(function.name, ())
            parts = parts_at(function.parts, places, name, name=function.name)
            functions.append(PlacedFunction(**{**vars(function), "parts": tuple(parts)}))
        return Placement(
            name,
            found.made_with,
            tuple(functions),
            found.kernels,
            one_thread=found.one_thread,
            original=found.original,
            kept=found.kept,
        )


def parts_at(parts: Sequence[Part], places: Iterable[int], plan: str, name: str) -> list[Part]:
    """Return the parts of a function that a plan has. PlacementError for a place where none
    stands."""
    places = list(places)
    wrong = [place for place in places if not 0 <= place < len(parts)]
    if wrong:
        raise PlacementError(
            f"the report is damaged: plan {plan!r} has part {wrong[0]} of @{name}, of which there "
            f"are {len(parts)}: build again with " + option("report", "the option report"),
            "file",
        )
    return [parts[place] for place in places]


def can_be_saved(placement: Placement) -> bool:
    """Return whether a file can hold it: an attribute of a composite may be what none holds. Nodes,
    the same of all plans, are not looked at: a search of whole plans may have tried hundreds."""
    functions = tuple(dataclasses.replace(f, nodes=()) for f in placement.functions)
    with contextlib.suppress(PlacementError):
        from_json(dataclasses.replace(placement, functions=functions).to_json())
        return True
    return False
