# SPDX-License-Identifier: Apache-2.0
"""An explanation as a record: the form of `collage explain --json`. Docs: docs/report.md.

Rows that several nodes and parts share are one object; in a file each stands once, in a table.
Test: report/test_explain_made.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..costs.compared import Ratio
from ..costs.cost import CostStatus
from ..files.records import Attribute, to_json
from ..views.function_report import CostedCandidate, Refusal
from .net import Difference, Part


@dataclasses.dataclass(frozen=True)
class CandidateRow:
    """A candidate whose cost was asked for."""

    backend: str  # that would run it
    rule: str  # the partition rules that made it
    nodes: tuple[int, ...]
    status: CostStatus
    seconds: float | None  # alone; None without a cost
    flags: tuple[str, ...]  # what makes the seconds doubtful
    message: str  # why there is no cost

    @classmethod
    def of(cls, row: CostedCandidate) -> CandidateRow:
        """Return the row of a report's candidate."""
        return cls(row.backend, row.rule, row.nodes, **vars(row.cost))


@dataclasses.dataclass(frozen=True)
class Why:
    """A reason for which a backend does not have nodes."""

    why: str  # as docs/report.md has it
    message: str  # the backend's own words
    rule: str  # that found or refused them


@dataclasses.dataclass(frozen=True)
class HeldWhy:
    """A reason, and the nodes of a part that it holds for."""

    reason: Why
    nodes: tuple[int, ...]
    ops: tuple[str, ...]  # of these nodes


@dataclasses.dataclass(frozen=True)
class InsteadRow:
    """A backend's candidate in place of parts of the plan."""

    candidate: CandidateRow
    rest: tuple[CandidateRow, ...] | None  # for their other operators; None: not all measured
    here: tuple[Part, ...]  # the parts
    rest_seconds: float | None  # None where not all were measured
    here_seconds: float | None  # None where not all were measured alone
    more_seconds: float | None  # in all; None where a cost is not known
    transition_seconds: float  # that the plan is charged there


@dataclasses.dataclass(frozen=True)
class PartBackend:
    """A backend that does not run a part."""

    backend: str
    instead: InsteadRow | None  # what it would cost there; None where it has no candidate
    reasons: tuple[HeldWhy, ...]  # why it does not have some of it


@dataclasses.dataclass(frozen=True)
class PartRow:
    """A part, which runs as one in a plan."""

    function: str
    part: Part
    nodes: tuple[int, ...]  # its kernels
    ops: tuple[str, ...]  # of these
    is_whole: bool  # the plan has no other part
    ships: tuple[Part, ...]  # what the plan that ships has there, where that is another
    backends: tuple[PartBackend, ...]  # each other one


@dataclasses.dataclass(frozen=True)
class NodeBackend:
    """The facts of a node on one backend."""

    backend: str
    has_it: bool  # runs it in the plan
    instead: InsteadRow | None  # what it would cost there, where that was asked for
    candidates: tuple[CandidateRow, ...]  # with a cost, the smallest first
    failures: tuple[CandidateRow, ...]  # without one
    reason: Why | None  # why it does not have the node in the op-level plan
    refusals: tuple[Refusal, ...]  # matches that were refused


@dataclasses.dataclass(frozen=True)
class NodeRow:
    """A node with all that is known of it."""

    function: str
    node: int
    op: str
    kind: str
    name: str
    type: str
    is_kernel: bool
    attrs: dict[str, Attribute]
    part: Part | None  # that holds it; what launches no kernel may be in none
    ships: Part | None  # that holds it in the plan that ships, where that is another
    backends: tuple[NodeBackend, ...]


@dataclasses.dataclass(frozen=True)
class OtherPlan:
    """The reason why another plan does not ship."""

    plan: str
    text: str  # one sentence
    ratio: Ratio | None  # of its time to that of what ships
    is_slower: bool
    places: tuple[Difference, ...] = ()  # where its parts lose, the dearest first
    loss_seconds: float | None = 0.0  # the sum of all differences; None where one is not known
    remark: str = ""  # where that is another loss than it has end to end


@dataclasses.dataclass(frozen=True)
class Pair:
    """Equal operators on two backends, each started alone."""

    ops: tuple[str, ...]
    nodes: tuple[int, ...]
    here_candidate: CandidateRow
    there_candidate: CandidateRow


@dataclasses.dataclass(frozen=True)
class SecondPlan:
    """The next best plan."""

    plan: str | None
    pairs: tuple[Pair, ...]  # where one part is all: at what it loses most, and gains most


@dataclasses.dataclass(frozen=True)
class FunctionOperators:
    """A function that was searched."""

    function: str
    operators: tuple[int, ...]  # nodes that launch kernels


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The reasons why each part runs where it does, and why this plan and not another."""

    head: tuple[str, ...]  # lines for people
    doubt: str  # likewise; "" for none
    ships: str
    plan: str  # that is explained
    is_op_level: bool  # it is what the op-level search found
    is_optimal: bool  # no plan of its candidates can cost less
    plans: tuple[OtherPlan, ...]
    second: SecondPlan
    remarks: tuple[str, ...]  # lines for people
    backend: str | None  # that alone is told of; None for all
    nearest_calls: tuple[int, ...]  # to a node that was asked for
    functions: tuple[FunctionOperators, ...]
    parts: tuple[PartRow, ...]  # unless nodes were asked for
    nodes: tuple[NodeRow, ...]

    def once(self) -> dict[str, Any]:
        """Return JSON values for a file: each part, candidate, reason and refusal stands once, in
        `tables`, and wherever else it stood is its place there."""
        tables = _Tables()
        return {**tables.without_rows(self), "tables": tables.rows}


class _Tables:
    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in _TABLE_OF.values()}
        self._place_of: dict[Any, int] = {}  # by row

    def without_rows(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self.without_rows(each) for each in value]
        if table := _TABLE_OF.get(type(value)):
            place = self._place_of.setdefault(value, len(self.rows[table]))
            if place == len(self.rows[table]):
                self.rows[table].append(to_json(value))
            return place
        if not dataclasses.is_dataclass(value) or isinstance(value, (type, Ratio)):
            return to_json(value)
        return {
            field.name: self.without_rows(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }


# Tables of an explanation in a file, by the class of their rows.
_TABLE_OF: dict[type, str] = {
    CandidateRow: "candidates",
    Part: "parts",
    Why: "reasons",
    Refusal: "refusals",
}
