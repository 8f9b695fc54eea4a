#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Describe all JSON that C++ and Python tell each other, in one JSON Schema (draft 2020-12):

    python tools/border_schema.py            # print it
    python tools/border_schema.py --write    # into tvm/src/relay/collage/graph/border.schema.json

FROM_CPP and FROM_PYTHON name each text with the record that Python has of it. Python's test sends
and receives every message and checks both sides against the file, and the C++ test reads it too: a
field that one side alone adds, renames or drops fails a test. To change a field, change the record
in Python, write the file anew, then change C++ until both tests pass. Texts that tests alone read
(collage.AttrsSummary, collage.view.CoverProblem) are not part of it.
Test: collage/test_border.py, tvm/tests/cpp/border_test.cc.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

from tvm.relay.collage.backends.partition.description import PartitionDescription
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.costs.shares import OperatorCall
from tvm.relay.collage.estimators.estimator import CostQuestion
from tvm.relay.collage.estimators.profiles import Foresight
from tvm.relay.collage.estimators.work import Work
from tvm.relay.collage.files.records import Attribute
from tvm.relay.collage.inspect.matches import FoundMatch
from tvm.relay.collage.options.groups import PassOptions
from tvm.relay.collage.plans.graph_search.space import PlanRequest, Replanned, Takers
from tvm.relay.collage.plans.placement.types import DescribedFunction, PlacedPart
from tvm.relay.collage.plans.placement.types import SeenNode as DescribedNode
from tvm.relay.collage.rules.rule import CombineLimits, RegionLimits, RuleOptions
from tvm.relay.collage.tvmc.targets import StockTargetKind
from tvm.relay.collage.views.function_report import FunctionGraph, FunctionReport, Refusal
from tvm.relay.collage.views.graph import DataflowGraph, Node, SubGraph, SubGraphConfig
from tvm.relay.collage.views.handle import TensorType
from tvm.relay.collage.views.partition import CandidatePartition, PartitionSpec

FILE = Path(__file__).parent.parent / "tvm/src/relay/collage/graph/border.schema.json"
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

Kind = Any  # a type, or a form of one as list[int] or X | None
Schema = dict[str, Any]


class SkippedFunction(NamedTuple):
    """A function that the pass leaves as it is: a FunctionReport of two fields."""

    function: str
    skipped: str  # why


class TakersRequest(NamedTuple):
    """A request for Takers, which has no fields."""


class PhaseSeconds(NamedTuple):
    """Seconds that a phase of the pass took."""

    wall: float
    cpu: float


class Message(NamedTuple):
    """A text that crosses the border."""

    name: str  # the global function, or the function that is given, and which text of it
    kind: Kind


# What C++ tells Python.
FROM_CPP = (
    Message("collage.DescribeFunction", DescribedFunction),
    Message("collage.FindMatches", list[FoundMatch]),
    Message("collage.LastPhases", dict[str, PhaseSeconds]),
    Message("collage.StockTargetKinds", list[StockTargetKind]),
    Message("collage.TensorTypeJson", TensorType | None),
    Message("collage.WorkOfCalls", list[OperatorCall]),
    Message("collage.WorkOfFunction", Work),
    Message("collage.view.CandidatePartitionFields", CandidatePartition.RECORD),
    Message("collage.view.DataflowGraphFields", DataflowGraph.RECORD),
    Message("collage.view.NodeFields", Node),
    Message("collage.view.PartitionSpecFields", PartitionSpec.RECORD),
    Message("collage.view.Refusals", list[Refusal]),
    Message("collage.view.SubGraphFields", SubGraph.RECORD),
    Message("estimator.bound: questions", list[CostQuestion]),
    Message("estimator.foresee: questions", list[CostQuestion]),
    Message("estimator.observe: report", FunctionReport | SkippedFunction),
    Message("estimator.observe: graph_text", FunctionGraph),
    Message("estimator.price: questions", list[CostQuestion]),
    Message("replan: answer", Replanned | Takers),
)
# What Python tells C++.
FROM_PYTHON = (
    Message("collage.ApplyPlacement", dict[str, list[PlacedPart]]),
    Message("collage.MakeBackendRule", RuleOptions),
    Message("collage.PartModules", dict[str, list[PlacedPart]]),
    Message("collage.onednn.create", PartitionDescription),
    Message("collage.rules.Combine", CombineLimits),
    Message("collage.rules.OnlyValid", SubGraphConfig),
    Message("collage.rules.Region", RegionLimits),
    Message("collage.rules.Tvm", RuleOptions),
    Message("collage.view.WhyInvalid", SubGraphConfig),
    Message("estimator.bound: answer", list[float]),
    Message("estimator.estimate: answer", list[PartCost]),
    Message("estimator.foresee: answer", Foresight),
    Message("estimator.price: answer", list[PartCost]),
    Message("estimator.transition: answer", list[float]),
    Message("replan: request", PlanRequest | TakersRequest),
    Message("tvm.relay.collage.pass_options", PassOptions),
)
# What is in fields that Python reads later, or in part.
READ_LATER: dict[tuple[type, str], Kind] = {
    (CostQuestion, "work"): Work,
    (FunctionReport, "placement"): list[PlacedPart],
    (FunctionReport, "merged"): list[PlacedPart] | None,
    (PlanRequest, "wish"): dict[str, list[int]],
    (Replanned, "parts"): list[PlacedPart],
}


# Names in the schema of records whose own are taken.
NAMES = {DescribedNode: "DescribedNode"}


def border_schema() -> Schema:
    """Return the schema: a property for each message, by its name, and their records."""
    defs: dict[str, Schema] = {}
    properties = {
        message.name: {"description": f"{sender} tells it", **_describe(message.kind, defs)}
        for sender, messages in (("C++", FROM_CPP), ("Python", FROM_PYTHON))
        for message in messages
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What C++ and Python tell each other",
        "description": "Written by tools/border_schema.py, which says how to change it.",
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "additionalProperties": False,
        "$defs": dict(sorted(defs.items())),
    }


def text() -> str:
    """Return the schema as the file holds it."""
    return json.dumps(border_schema(), indent=1) + "\n"


def _describe(kind: Kind, defs: dict[str, Schema]) -> Schema:
    """Return the schema of a kind; records go to `defs`. No record holds one of its own kind."""
    if _is_record(kind):
        name = NAMES.get(kind, kind.__name__)
        record = _describe_record(kind, defs)
        if defs.setdefault(name, record) != record:
            raise ValueError(f"two records are named {name}: give one another name in NAMES")
        return {"$ref": f"#/$defs/{name}"}
    if kind in (Attribute, Any):
        return {}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if _may_lack(kind):
        return _describe(args[0], defs)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_describe(option, defs) for option in args]}
    if origin in (tuple, list):
        return {"type": "array", "items": _describe(args[0], defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _describe(args[1], defs)}
    if issubclass(kind, enum.Enum):
        values = [choice.value for choice in kind]
        return {"type": JSON_TYPES[type(values[0])], "enum": values}
    if issubclass(kind, frozenset):  # IndexSet
        return {"type": "array", "items": {"type": "integer"}}
    return {"type": JSON_TYPES[kind]}


def _may_lack(kind: Kind) -> bool:
    return typing.get_origin(kind) is typing.NotRequired


def _is_record(kind: Kind) -> bool:
    is_named_tuple = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    is_class = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    return is_class or is_named_tuple or typing.is_typeddict(kind)


def _describe_record(kind: type, defs: dict[str, Schema]) -> Schema:
    """Return the schema of a record, which says itself what its fields mean. Of defaults the schema
    knows nothing: both sides tell every field but those that a TypedDict does not require."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else hints
    properties = {
        name: _describe(READ_LATER.get((kind, name), hints[name]), defs) for name in names
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if not _may_lack(hints[name])],
        "additionalProperties": False,
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text(), encoding="utf-8")
    else:
        print(text(), end="")
