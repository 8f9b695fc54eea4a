# SPDX-License-Identifier: Apache-2.0
"""A placement <-> JSON values, and the JSON Schema of them, read off the fields of its class.

Test: placement/test_file.py.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, TypeVar

from ..errors import PlacementError
from ..records import JSON_TYPES, Attribute, RecordError, fields_of, read, required_fields

# What a file says that it is; the version changes with the meaning of any field.
FORMAT = "tvm-collage-placement"
VERSION = 1

Data = TypeVar("Data")


def to_json(placement: Any) -> dict[str, Any]:
    """A placement as JSON values (tuples are lists there)."""
    return {"format": FORMAT, "version": VERSION, **dataclasses.asdict(placement)}


def from_json(cls: type[Data], value: Any) -> Data:
    """The placement, of that class, of JSON values; PlacementError says where they are none."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise PlacementError(f"it is no placement: its format is not {FORMAT!r}", "file")
    if value.get("version") != VERSION:
        raise PlacementError(
            f"its schema version is {value.get('version')!r}, this tvm-collage reads version "
            f"{VERSION}: make the placement again",
            "file",
        )
    rest = {name: item for name, item in value.items() if name not in ("format", "version")}
    try:
        return read(cls, rest)
    except RecordError as error:
        raise PlacementError(str(error), "file") from None


def schema(cls: type) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a file that holds a placement of that class."""
    defs: dict[str, Any] = {}
    top = _describe_class(cls, defs)
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    top["properties"] = {**head, **top["properties"]}
    top["required"] = [*head, *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A saved placement of Collage",
        **top,
        "$defs": defs,
    }


def _describe(kind: Any, limits: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type of types.py; classes go to `defs`."""
    limits = {key: limits[key] for key in ("minimum", "pattern", "enum") if key in limits}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind.__name__ not in defs:
            defs[kind.__name__] = {}  # taken, before fields of the same class ask for it
            defs[kind.__name__] = _describe_class(kind, defs)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if kind is Attribute:
        own = {"$ref": f"#/$defs/{kind.__name__}"}
        plain = [{"type": "number"}, {"type": "string"}]
        defs[kind.__name__] = {
            "description": "a number, a text or a list of these, mixed and nested as it may be",
            "anyOf": [*plain, {"type": "array", "items": own}],
        }
        return own
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


def _describe_class(cls: type, defs: dict[str, Any]) -> dict[str, Any]:
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
