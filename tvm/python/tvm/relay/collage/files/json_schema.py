# SPDX-License-Identifier: Apache-2.0
"""JSON Schema (draft 2020-12) of records, read off the classes' fields. Test:
plans/placement/test_file.py, report/test_record.py.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from .records import JSON_TYPES, Attribute, fields_of, required_fields


def describe_class(cls: type, defs: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record each of whose fields has a meaning; classes in it go to
    `defs`."""
    return {
        "description": (cls.__doc__ or "").strip().splitlines()[0],
        "type": "object",
        "properties": {
            name: {"description": limits["meaning"], **_describe(kind, limits, defs)}
            for name, kind, limits in fields_of(cls)
        },
        "required": required_fields(cls),
        "additionalProperties": False,
    }


def _describe(kind: Any, limits: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type that files/records.py reads; classes go to `defs`."""
    limits = {key: limits[key] for key in ("minimum", "pattern", "enum") if key in limits}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind.__name__ not in defs:
            defs[kind.__name__] = {}  # taken, before fields of the same class ask for it
            defs[kind.__name__] = describe_class(kind, defs)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if kind is Attribute:
        own = {"$ref": f"#/$defs/{kind.__name__}"}
        plain = [{"type": "number"}, {"type": "string"}]
        defs[kind.__name__] = {
            "description": "a number, a text or a list of these, mixed and nested as it may be",
            "anyOf": [*plain, {"type": "array", "items": own}],
        }
        return own
    if kind is Any:
        return {}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_describe(option, limits, defs) for option in args]}
    if origin in (tuple, list):
        return {"type": "array", "items": _describe(args[0], limits, defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _describe(args[1], limits, defs)}
    if kind is type(None):
        return {"type": "null"}
    if issubclass(kind, enum.StrEnum):
        return {"type": "string", "enum": [choice.value for choice in kind]}
    if "enum" in limits:
        limits["enum"] = list(limits["enum"])
    return {"type": JSON_TYPES[kind], **limits}
