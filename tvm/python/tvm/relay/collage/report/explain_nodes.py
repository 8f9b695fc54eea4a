# SPDX-License-Identifier: Apache-2.0
"""What is known of the nodes and parts of one function on each backend, as JSON values; a row that
several of them share is one object. For explain.py. Test: report/test_explain.py.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

from ..errors import FileError
from ..options.named import option
from ..plans.competing import TVM_ALONE
from ..views.function_report import CostedCandidate, FunctionGraph, GraphNode, Reason, Refusal
from .instead import Alternatives
from .layers import Difference, Layers, Part

Row = TypeVar("Row", CostedCandidate, Reason, Refusal)


class NodeFacts:
    """The nodes and parts of a function in `plan`; `ships` names another plan that ships, "" for
    none. `only` is a backend to be told of alone. `is_op_level`: whether `plan` is that of the
    search, which is charged for transitions."""

    def __init__(
        self,
        function: dict[str, Any],
        layers: Layers,
        plan: str,
        ships: str,
        only: str | None,
        is_op_level: bool,
    ) -> None:
        graph = layers.graph
        self._function, self._layers = function["function"], layers
        self._parts = layers.parts(plan)
        charged = function.get("transitions", []) if is_op_level else []
        # A value has a row for each part that reads it.
        transitions: Counter[int] = Counter()
        for row in charged:
            transitions[row["node"]] += row["seconds"]
        self._part_of = _by_node(self._parts)
        self._shipped = _by_node(layers.parts(ships)) if ships else {}
        self._alternatives = Alternatives(graph, self._parts, transitions)
        self._backends = [
            each.name
            for each in graph.backends
            if (each.is_external or each.name == TVM_ALONE) and only in (None, each.name)
        ]
        self._kernels = [node.index for node in graph.nodes if node.is_kernel]
        self._costed = _by_place(graph.costed)
        self._reasons = _by_place(graph.reasons)
        self._refusals = _by_place(graph.refusals)
        self._rows: dict[Hashable, dict[str, Any]] = {}

    def function(self) -> dict[str, Any]:
        return {"function": self._function, "operators": self._kernels}

    def parts(self) -> list[dict[str, Any]]:
        """What runs as one, and what each other backend would cost there."""
        return [self._of_part(part) for part in self._parts]

    def _of_part(self, part: Part) -> dict[str, Any]:
        nodes = sorted(part.nodes.intersection(self._kernels))
        ships = dict.fromkeys(self._shipped[node] for node in nodes if node in self._shipped)
        return {
            "function": self._function,
            "part": self.part(part),
            "nodes": nodes,
            "ops": [self._layers.op_of(node) for node in nodes],
            "is_whole": len(self._parts) == 1,
            "ships": [self.part(each) for each in ships],
            "backends": [
                {
                    "backend": name,
                    "instead": self._instead(name, part.nodes),
                    "reasons": self._reasons_of(name, nodes),
                }
                for name in self._backends
                if name != part.backend
            ],
        }

    def _reasons_of(self, backend: str, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """Why a backend does not have these, each reason with the nodes that it holds for."""
        found: dict[int, tuple[Reason, list[int]]] = {}
        for node in nodes:
            for reason in self._reasons.get((backend, node), [])[:1]:
                found.setdefault(id(reason), (reason, []))[1].append(node)
        return [
            {"reason": self._reason(reason), "nodes": held, "ops": [*map(self._layers.op_of, held)]}
            for reason, held in found.values()
        ]

    def node(self, node: GraphNode, is_full: bool) -> dict[str, Any]:
        """All of a node; `is_full` with what each other backend would cost there."""
        part = self._part_of.get(node.index)
        if part is None and node.is_kernel:
            part = Part(TVM_ALONE, frozenset({node.index}), None)
        return {
            "function": self._function,
            "node": node.index,
            "op": node.op,
            "kind": node.kind,
            "name": node.name,
            "type": node.type,
            "is_kernel": node.is_kernel,
            "attrs": node.attrs,
            # What launches no kernel may be in none.
            "part": self.part(part),
            "ships": self.part(self._shipped.get(node.index)),
            "backends": [self._backend(name, node.index, part, is_full) for name in self._backends],
        }

    def _backend(self, name: str, node: int, part: Part | None, is_full: bool) -> dict[str, Any]:
        place = (name, node)
        costed = self._costed.get(place, [])
        usable = sorted(
            (row for row in costed if row.cost.seconds is not None), key=lambda row: len(row.nodes)
        )
        refused = sorted(self._refusals.get(place, []), key=lambda row: len(row.nodes))
        # Of equal words those about the fewest nodes.
        refusals = {(row.rule, row.reason): row for row in reversed(refused)}
        reasons = self._reasons.get(place, [])
        has_it = part is not None and part.backend == name
        return {
            "backend": name,
            "has_it": has_it,
            "instead": self._instead(name, [node]) if is_full and not has_it else None,
            "candidates": [self._candidate(row) for row in usable],
            "failures": [self._candidate(row) for row in costed if row.cost.seconds is None],
            "reason": self._reason(reasons[0]) if reasons else None,
            "refusals": [self._refusal(row) for row in [*refusals.values()][::-1]],
        }

    def _instead(self, backend: str, nodes: Collection[int]) -> dict[str, Any] | None:
        found = self._alternatives.best(backend, nodes)
        if found is None:
            return None
        rest = None if found.rest is None else [self._candidate(each.row) for each in found.rest]
        return {
            "candidate": self._candidate(found.candidate.row),
            "rest": rest,
            "here": [self.part(part) for part in found.here],
            "rest_seconds": found.rest_seconds,
            "here_seconds": found.here_seconds,
            "more_seconds": found.more,
            "transition_seconds": found.transition_seconds,
        }

    def best_pairs(self, others: Iterable[Part]) -> list[dict[str, Any]]:
        """Where one part is the whole: at which operators alone the backends of another plan's
        parts lose most, and where they gain most; [] where they do neither."""
        [whole] = self._parts
        backends = {part.backend for part in others} - {whole.backend}
        pairs = self._alternatives.same(whole.backend, backends)
        lost = [(here, there) for here, there in pairs[:1] if there.seconds > here.seconds]
        gained = [(here, there) for here, there in pairs[-1:] if there.seconds < here.seconds]
        return [
            {
                "ops": [*map(self._layers.op_of, sorted(here.operators))],
                "nodes": sorted(here.operators),
                "here_candidate": self._candidate(here.row),
                "there_candidate": self._candidate(there.row),
            }
            for here, there in lost + gained
        ]

    def place(self, each: Difference) -> dict[str, Any]:
        """Where two plans differ."""
        return {
            "function": self._function,
            "ops": list(each.ops),
            "nodes": list(each.nodes),
            "there": [self.part(part) for part in each.there],
            "here": [self.part(part) for part in each.here],
        }

    def part(self, part: Part | None) -> dict[str, Any] | None:
        return None if part is None else self._shared(part, _part)

    def _candidate(self, row: CostedCandidate) -> dict[str, Any]:
        return self._shared(id(row), lambda _: _candidate(row))

    def _refusal(self, row: Refusal) -> dict[str, Any]:
        return self._shared(id(row), lambda _: dataclasses.asdict(row))

    def _reason(self, row: Reason) -> dict[str, Any]:
        return self._shared(id(row), lambda _: _reason(row, self._layers.graph))

    def _shared(self, key: Hashable, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """One object for one thing; the graph keeps what goes by its identity."""
        if key not in self._rows:
            self._rows[key] = make(key)
        return self._rows[key]


def _by_node(parts: Iterable[Part]) -> dict[int, Part]:
    """By a node's index, the part that holds it."""
    return {index: part for part in parts for index in part.nodes}


def _by_place(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    """Rows by their backend and each of their nodes."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        for node in row.nodes:
            found.setdefault((row.backend, node), []).append(row)
    return found


def _part(part: Part) -> dict[str, Any]:
    return {
        "backend": part.backend,
        "nodes": sorted(part.nodes),
        "seconds": part.seconds,
        "flags": list(part.flags),
    }


def _candidate(row: CostedCandidate) -> dict[str, Any]:
    return {
        "backend": row.backend,
        "rule": row.rule,
        "nodes": list(row.nodes),
        "status": str(row.cost.status),
        "seconds": row.cost.seconds,
        "flags": list(row.cost.flags),
        "message": row.cost.message,
    }


def _reason(reason: Reason, graph: FunctionGraph) -> dict[str, Any]:
    if reason.candidate is not None and reason.candidate >= len(graph.costed):
        raise FileError(
            f"the report is damaged: a reason names candidate {reason.candidate}, of which "
            f"there are {len(graph.costed)}: build again with "
            + option("report", "the option report")
        )
    return {"why": reason.why, "message": reason.message, "rule": reason.rule}
