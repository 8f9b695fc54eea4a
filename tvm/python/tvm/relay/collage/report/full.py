# SPDX-License-Identifier: Apache-2.0
"""The whole report of a Result: facts.result_to_json with what pictures and explanations need, and
the JSON Schema of that. Docs: docs/report.md. Test: report/test_full.py.
"""

from __future__ import annotations

from typing import Any

from ..compile.built import tensors_of
from ..files.json_schema import describe_class
from ..files.records import to_json
from ..plans.competing import TVM_ALONE
from ..plans.placement import SeenPlans
from ..views.function_report import FunctionGraph
from .facts import result_to_json
from .picture.palette import declared_colours

# The other fields of a report; those of a partitioned function.
_TOP = {
    "summary": ("string", "one line"),
    "plan": ("string", "what ships"),
    "host": ("string", "the host target"),
    "executor": ("string", "by which TVM runs it: graph, aot or vm"),
    "guard_skipped": ("string", "why nothing was measured end to end; empty where it was"),
    "unverified": ("string", "why outputs were not compared with TVM's; empty where they were"),
    "plans": ("array", "what each plan took end to end, beside the best backend alone"),
    "placement": ("array", "what ships, by backend and kind of part"),
    "seconds": ("object", "time spent by phase"),
    "costs": ("object", "how many costs came from where"),
    "kernels": ("array", "by which kernel each step runs that has several"),
    "schedules": ("object", "how many tuning records TVM's kernels may have, by who found them"),
    "transfers": ("object", "how many schedules of other kernels were tried, by what came of it"),
    "tensors": ("object", "name, shape and type of what it takes (inputs) and gives (outputs)"),
    "colours": ("object", "by backend, those that backends declare, so that pictures are alike"),
}
# Those of the report that a replay is of which are about its measurements.
_DECISION = ("plan", "guard_skipped", "plans", "costs")
_ORIGINAL = {
    "by": ("string", "the runtime that ran the file, with its version; empty where none did"),
    "error": (["number", "null"], "max|a-b| / max|b|; null where nothing was compared"),
    "why": ("string", "what kept it from that, or what is to be known of a large error"),
    "summary": ("string", "one line"),
}
_FUNCTION = {
    "function": ("string", "the global function"),
    "nodes": ("integer", "how many its graph has"),
    "candidates": ("integer", "how many there were to choose from"),
    "costs": ("object", "how many costs were asked for"),
    "seconds": ("number", "of the op-level plan, as a sum of its parts and transitions"),
    "transitions": ("array", "changes of layout that it is charged, by the value's node"),
    "is_optimal": ("boolean", "whether no plan of these candidates can cost less"),
    "search": ("string", "how the search went"),
    "cuts": ("array", "limits that cut candidates"),
    "parts": ("array", "of the op-level plan, equal ones together"),
    "backends": ("array", "the same by backend"),
    "failures": ("array", "candidates without a cost, equal ones together"),
    "unplaced": ("array", "why operators on TVM are on no other backend"),
    "skipped": ("string", "why it was left as it was; empty where it was not"),
}


def full_report(result: Any) -> dict[str, Any]:
    """All that is known of a Result, as JSON values.

    Beside the fields of result_to_json: `graph` of each function (FunctionGraph), in which TVM goes
    by "tvm", `tensors` that main takes and gives, which of a VM's library nothing else tells,
    `colours` that backends declare, and `placements` (SeenPlans) of every plan that was
    seen, as a placement file has them: there TVM goes by the kind of the host target.
    """
    report = result_to_json(result)
    host = result.host.kind.name
    for row, function in zip(report["functions"], result.partitioned, strict=True):
        row["graph"] = _graph(function.graph, host)
    rest = {
        "tensors": tensors_of(result.mod),
        "colours": declared_colours(),
        "decision": None,
    }
    return {**report, **rest, "placements": to_json(result.placements)}


def with_search_of(report: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """The report of a replay, which searched and measured nothing, with what the report that its
    placement is of tells: by that it is explained and drawn. What was measured end to end stands
    apart in `decision`, since it is of that build and of what that one shipped."""
    shared = {name: source[name] for name in ("functions", "placements")}
    measured = source.get("decision") or {name: source[name] for name in _DECISION}
    colours = {**report["colours"], **source.get("colours", {})}
    return {**report, **shared, "colours": colours, "decision": measured}


def _graph(graph: FunctionGraph, host: str) -> dict[str, Any]:
    values = to_json(graph)
    for row in values["backends"]:
        row["name"] = TVM_ALONE if row["name"] == host else row["name"]
    for kind in ("costed", "reasons", "refusals"):
        for row in values[kind]:
            row["backend"] = TVM_ALONE if row["backend"] == host else row["backend"]
    return values


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report's file."""
    defs: dict[str, Any] = {}
    for record in (FunctionGraph, SeenPlans):
        defs[record.__name__] = describe_class(record, defs)
    defs["Function"] = {
        "description": "What the search decided for one function.",
        "type": "object",
        "properties": {**_described(_FUNCTION), "graph": {"$ref": "#/$defs/FunctionGraph"}},
        "required": [*_FUNCTION, "graph"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What Collage decided for a module, and why",
        "type": "object",
        "properties": {
            **_described(_TOP),
            "functions": {
                "description": "one a function of the module",
                "type": "array",
                "items": {"$ref": "#/$defs/Function"},
            },
            "graph_search": {
                "description": "what the search of whole plans tried; null without one",
                "anyOf": [{"type": "object"}, {"type": "null"}],
            },
            "original": {
                "description": "how outputs agree with those of the model's file; null for none",
                "anyOf": [_object(_ORIGINAL), {"type": "null"}],
            },
            "decision": {
                "description": "of a replay what was measured for its decision; else null",
                "anyOf": [
                    _object({name: _TOP[name] for name in _DECISION}),
                    {"type": "null"},
                ],
            },
            "placements": {"$ref": "#/$defs/SeenPlans"},
        },
        "required": [*_TOP, "functions", "graph_search", "original", "decision", "placements"],
        "additionalProperties": False,
        "$defs": defs,
    }


def _object(fields: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": _described(fields),
        "required": [*fields],
        "additionalProperties": False,
    }


def _described(fields: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    return {
        name: {"description": meaning, "type": kind} for name, (kind, meaning) in fields.items()
    }
