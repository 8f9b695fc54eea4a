# SPDX-License-Identifier: Apache-2.0
"""Whole plans of a module as genomes, and a genome as the parts of a plan.

A gene is a group of nodes that TVM would run as one kernel, by the op-level costs, and that more
than one backend can take; its allele says who should run it. The last gene says whether neighbours
of one backend are joined. The cover search of the pass itself makes a plan of a genome (Replan in
plan/replan.h): the cheapest cover that follows it as far as any does. So every genome is a plan
that can run, with regions as large as the backends make them, and nothing needs repair.
Test: plans/graph_search/test_space.py, plans/graph_search/test_coarse.py.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..names import COARSE, COARSER
from ..placement import PlacedPart
from ..placement.replay import placed_parts
from .genomes import Genome

# Whoever is cheapest by the op-level costs.
ANY = "any"
APART, JOINED = "apart", "joined"
# By how much the costs of a coarse plan may add up to more, by the plan's name.
SLACK: Mapping[str, float] = {COARSE: 0.05, COARSER: 0.2}
# Prices of a part, as shares of what the optimum costs.
_PRICES = [1.5**-k for k in range(24, -1, -1)]

# By function.
Parts = dict[str, list[PlacedPart]]
# What the pass gives for each function: a request for another plan -> the plan, both as JSON.
Replans = Mapping[str, Callable[[str], Any]]


class PlanRequest(NamedTuple):
    """A request for another plan of a function (border.schema.json); no fields ask for Takers."""

    wish: Mapping[str, Sequence[int]]  # by backend, nodes that it should run
    join: bool  # all neighbours of one backend
    part_seconds: float  # what each part of an external backend is charged


class Takers(NamedTuple):
    """The backends that can be wished for."""

    takers: list[list[str]]  # by node


class Replanned(NamedTuple):
    """A plan that was asked for."""

    parts: list[dict[str, Any]]  # JSON values of PlacedPart
    seconds: float  # their costs and transitions


class Gene(NamedTuple):
    """Nodes of a function that one allele is for."""

    function: str
    nodes: tuple[int, ...]
    alleles: tuple[str, ...]


class PlanSpace:
    """The plans of a module's functions that genomes stand for.

    `host` is the kind of the host target, by which TVM's own parts go. `plans` are those that are
    known without a search: TVM alone has no parts.
    """

    def __init__(self, replans: Replans, host: str, plans: Iterable[Parts] = ()) -> None:
        self._replans, self._host, self._plans = replans, host, list(plans)
        self.genes: list[Gene] = []
        for function, replan in replans.items():
            takers = Takers(**json.loads(str(replan("{}")))).takers
            on_host = {host: [node for node, names in enumerate(takers) if host in names]}
            for row in sorted(plan_again(replan, on_host).parts, key=lambda row: row["nodes"]):
                # Everything else is no kernel, and free.
                is_kernel = row["backend"] == host or row["cost"]["status"] == "unknown"
                names = sorted({name for node in row["nodes"] for name in takers[node]})
                if is_kernel and len(names) > 1:
                    self.genes.append(Gene(function, tuple(row["nodes"]), (ANY, *names)))
        self.choices = [gene.alleles for gene in self.genes]
        if self.genes:
            self.choices.append((APART, JOINED))

    def seeds(self) -> list[Genome]:
        """Return the op-level optimum, the same joined, and what is nearest to the known plans: who
        runs which gene, with parts as large as the costs make them."""
        if not self.genes:
            return []
        plain = [ANY] * len(self.genes)
        return [(*plain, APART), (*plain, JOINED), *map(self._genome_of, self._plans)]

    def _genome_of(self, parts: Parts) -> Genome:
        """Give each gene the backend that runs its first node; what no part has is the host's."""
        runs = {
            (function, node): part.backend
            for function, found in parts.items()
            for part in found
            if part.is_compiled
            for node in part.nodes
        }
        backends = [runs.get((gene.function, gene.nodes[0]), self._host) for gene in self.genes]
        wishes = [
            name if name in gene.alleles else ANY
            for name, gene in zip(backends, self.genes, strict=True)
        ]
        return (*wishes, APART)

    def parts_of(self, genome: Genome) -> Parts:
        """Return the plan's parts by function."""
        wishes: dict[str, dict[str, list[int]]] = {name: {} for name in self._replans}
        for gene, allele in zip(self.genes, genome[:-1], strict=True):
            if allele != ANY:
                wishes[gene.function].setdefault(allele, []).extend(gene.nodes)
        return {
            name: placed_parts(plan_again(replan, wishes[name], genome[-1] == JOINED).parts)
            for name, replan in self._replans.items()
        }

    def key_of(self, parts: Parts) -> str:
        """16 hex digits, equal for plans that are the same module: what TVM is left with, it fuses
        by itself."""
        rows = sorted(
            (
                name,
                part.backend,
                part.nodes,
                part.is_primitive,
                sorted((composite.name, composite.nodes) for composite in part.composites),
            )
            for name, part in self._external(parts)
        )
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def label_of(self, parts: Parts) -> str:
        """Name the plan for people, e.g. "3 dnnl, 1 openvino"."""
        counts = Counter(part.backend for _, part in self._external(parts))
        return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "tvm"

    def _external(self, parts: Parts) -> list[tuple[str, PlacedPart]]:
        return [
            (name, part)
            for name, found in parts.items()
            for part in found
            if part.is_compiled and part.backend != self._host
        ]


def plan_again(
    replan: Callable[[str], Any],
    wish: Mapping[str, Sequence[int]] | None = None,
    join: bool = False,
    part_seconds: float = 0.0,
) -> Replanned:
    """Plan by nodes of which a backend should run each, and by what each part of an external
    backend is charged; return the "parts" and the "seconds"."""
    request = PlanRequest(wish or {}, join, part_seconds)
    return Replanned(**json.loads(str(replan(json.dumps(request._asdict())))))


def coarse_plans(replans: Replans) -> dict[str, Parts]:
    """Return the parts by function of plans of fewer parts than the optimum, by their names, finest
    first. One is left out that is no coarser than the one before it, or than the optimum.

    The op-level search adds up what parts take alone. Each border costs more than that in the
    network: threads of two libraries take turns, values leave the caches, a library that would have
    fused across it cannot. What a border costs hangs on the network, so no number is charged: a few
    plans of fewer parts join the guard, which measures them whole.
    """
    found: dict[str, Parts] = {}
    rows = {name: list(_coarsest(replan)) for name, replan in replans.items()}
    for k, plan in enumerate(SLACK, 1):
        if any(each[k] != each[k - 1] for each in rows.values()):
            found[plan] = {name: placed_parts(each[k]) for name, each in rows.items()}
    return found


def _coarsest(replan: Callable[[str], Any]) -> Iterator[list[Any]]:
    """Yield the optimum's rows of parts, then for each slack those for the highest price of a part
    at which the costs alone are within it: the plan is the cheapest for that price. Prices rise by
    half each time."""
    rows, seconds = plan_again(replan)
    yield rows
    plans = (plan_again(replan, part_seconds=price * seconds) for price in _PRICES)
    plan = next(plans, None)
    for slack in SLACK.values():
        while plan and plan.seconds <= (1 + slack) * seconds:
            rows, plan = plan.parts, next(plans, None)
        yield rows
