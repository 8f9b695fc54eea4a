# SPDX-License-Identifier: Apache-2.0
"""Knowledge of the nodes and parts of one function on each backend; a row that several of them
share is one object. For explain.py. Test: report/test_explain.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from ..errors import FileError
from ..options.named import option
from ..plans.names import TVM_ALONE
from ..views.function_report import GraphNode, Reason, Refusal
from .alternatives import Alternatives
from .explanation import (
    CandidateRow,
    FunctionOperators,
    HeldWhy,
    NodeBackend,
    NodeRow,
    Pair,
    PartBackend,
    PartRow,
    Why,
)
from .net import Part, PlanParts
from .record import SearchedFunction

Row = TypeVar("Row", CandidateRow, Reason, Refusal)


class NodeFacts:
    """The facts of the nodes and parts of a function in a plan."""

    def __init__(
        self,
        function: SearchedFunction,
        plan_parts: PlanParts,
        plan: str,
        *,
        ships: str,
        only: str | None,
        is_op_level: bool,
    ) -> None:
        """`ships` names another plan that ships, "" for none; `only` a backend to be told of alone.
        `is_op_level`: whether `plan` is that of the search, which is charged for transitions."""
        graph = plan_parts.graph
        self.plan_parts, self._ops = plan_parts, plan_parts.ops_of
        self._parts = plan_parts.parts(plan)
        # A value has a row for each part that reads it.
        transitions: Counter[int] = Counter()
        for row in function.transitions if is_op_level else ():
            transitions[row.node] += row.seconds  # type: ignore[assignment]
        self._part_of = _by_node(self._parts)
        self._shipped = _by_node(plan_parts.parts(ships)) if ships else {}
        self._backends = [
            each.name
            for each in graph.backends
            if (each.is_external or each.name == TVM_ALONE) and only in (None, each.name)
        ]
        rows = [CandidateRow.of(row) for row in graph.costed]
        self._alternatives = Alternatives(graph, rows, self._parts, transitions=transitions)
        self._costed = _by_place(rows)
        self._reasons = _by_place(graph.reasons)
        self._refusals = _by_place(graph.refusals)

    def function(self) -> FunctionOperators:
        """Return the function with its kernels."""
        return FunctionOperators(self.plan_parts.function, tuple(sorted(self.plan_parts.kernels)))

    @property
    def has_parts(self) -> bool:
        """Tell whether any kernel of it runs."""
        return bool(self._parts)

    def parts(self) -> list[PartRow]:
        """Return what runs as one, and what each other backend would cost there."""
        return [self._of_part(part) for part in self._parts]

    def _of_part(self, part: Part) -> PartRow:
        nodes = tuple(node for node in part.nodes if node in self.plan_parts.kernels)
        ships = dict.fromkeys(self._shipped[node] for node in nodes if node in self._shipped)
        best, reasons = self._alternatives.best, self._reasons_of
        return PartRow(
            function=self.plan_parts.function,
            part=part,
            nodes=nodes,
            ops=self._ops(nodes),
            is_whole=len(self._parts) == 1,
            ships=tuple(ships),
            backends=tuple(
                PartBackend(name, best(name, part.nodes), reasons(name, nodes))
                for name in self._backends
                if name != part.backend
            ),
        )

    def _reasons_of(self, backend: str, nodes: Iterable[int]) -> tuple[HeldWhy, ...]:
        """Return why a backend does not have these, each reason with the nodes that it holds
        for."""
        found: dict[int, tuple[Reason, list[int]]] = {}
        for node in nodes:
            for reason in self._reasons.get((backend, node), [])[:1]:
                found.setdefault(id(reason), (reason, []))[1].append(node)
        return tuple(
            HeldWhy(self._why(reason), tuple(held), self._ops(held))
            for reason, held in found.values()
        )

    def node(self, node: GraphNode, is_full: bool) -> NodeRow:
        """Return all of a node; `is_full` with what each other backend would cost there."""
        part = self._part_of.get(node.index)
        if part is None and node.is_kernel:
            part = Part(TVM_ALONE, (node.index,), None)
        return NodeRow(
            function=self.plan_parts.function,
            node=node.index,
            op=node.op,
            kind=node.kind,
            name=node.name,
            type=node.type,
            is_kernel=node.is_kernel,
            attrs=node.attrs,
            part=part,
            ships=self._shipped.get(node.index),
            backends=tuple(
                self._backend(name, node.index, part, is_full=is_full) for name in self._backends
            ),
        )

    def _backend(self, name: str, node: int, part: Part | None, *, is_full: bool) -> NodeBackend:
        place = (name, node)
        costed = self._costed.get(place, [])
        usable = [row for row in costed if row.seconds is not None]
        refused = sorted(self._refusals.get(place, []), key=lambda row: len(row.nodes))
        # Of equal words those about the fewest nodes.
        refusals = {(row.rule, row.reason): row for row in reversed(refused)}
        reasons = self._reasons.get(place, [])
        has_it = part is not None and part.backend == name
        return NodeBackend(
            backend=name,
            has_it=has_it,
            instead=self._alternatives.best(name, [node]) if is_full and not has_it else None,
            candidates=tuple(sorted(usable, key=lambda row: len(row.nodes))),
            failures=tuple(row for row in costed if row.seconds is None),
            reason=self._why(reasons[0]) if reasons else None,
            refusals=tuple([*refusals.values()][::-1]),
        )

    def best_pairs(self, others: Iterable[Part]) -> list[Pair]:
        """Return, where one part is the whole, at which operators alone the backends of another
        plan's parts lose most, and where they gain most; [] where they do neither."""
        [whole] = self._parts
        backends = {part.backend for part in others} - {whole.backend}
        pairs = self._alternatives.same(whole.backend, backends)
        lost = [(here, there) for here, there in pairs[:1] if there.seconds > here.seconds]
        gained = [(here, there) for here, there in pairs[-1:] if there.seconds < here.seconds]
        found = []
        for here, there in lost + gained:
            nodes = tuple(sorted(here.operators))
            rows = {"here_candidate": here.row, "there_candidate": there.row}
            found.append(Pair(self._ops(nodes), nodes, **rows))
        return found

    def _why(self, reason: Reason) -> Why:
        count = len(self.plan_parts.graph.costed)
        if reason.candidate is not None and reason.candidate >= count:
            raise FileError(
                f"the report is damaged: a reason names candidate {reason.candidate}, of which "
                f"there are {count}: build again with " + option("report", "the option report")
            )
        return Why(reason.why, reason.message, reason.rule)


def _by_node(parts: Iterable[Part]) -> dict[int, Part]:
    """Return by a node's index the part that holds it."""
    return {index: part for part in parts for index in part.nodes}


def _by_place(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    """Return rows by their backend and each of their nodes."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        for node in row.nodes:
            found.setdefault((row.backend, node), []).append(row)
    return found
