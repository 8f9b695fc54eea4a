# SPDX-License-Identifier: Apache-2.0
"""Dataclasses <-> JSON values, and the JSON Schema of them, all read off the classes' fields.

Test: placement/test_file.py.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from typing import Any

from ..errors import PlacementError
from .types import Attribute, Placement

# What a file says that it is; the version changes with the meaning of any field.
FORMAT = "tvm-collage-placement"
VERSION = 1

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def to_json(placement: Placement) -> dict[str, Any]:
    """A placement as JSON values (tuples are lists there)."""
    return {"format": FORMAT, "version": VERSION, **dataclasses.asdict(placement)}


def from_json(value: Any) -> Placement:
    """The placement of JSON values; PlacementError says where they are none."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise PlacementError(f"it is no placement: its format is not {FORMAT!r}", "file")
    if value.get("version") != VERSION:
        raise PlacementError(
            f"its schema version is {value.get('version')!r}, this tvm-collage reads version "
            f"{VERSION}: make the placement again",
            "file",
        )
    rest = {name: item for name, item in value.items() if name not in ("format", "version")}
    return _read(Placement, {}, rest, "")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a file."""
    defs: dict[str, Any] = {}
    top = _describe_class(Placement, defs)
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    top["properties"] = {**head, **top["properties"]}
    top["required"] = [*head, *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A saved placement of Collage",
        **top,
        "$defs": defs,
    }


def _fields_of(cls: type) -> list[tuple[str, Any, dict[str, Any]]]:
    """(name, type, limits) of each field."""
    hints = typing.get_type_hints(cls)
    return [(field.name, hints[field.name], field.metadata) for field in dataclasses.fields(cls)]


def _read(kind: Any, limits: Any, value: Any, where: str) -> Any:
    """`value` as an instance of a type of types.py; `where` is its path in the file."""
    if dataclasses.is_dataclass(kind):
        return _read_class(kind, value, where)
    if kind is Attribute:
        return _read_attribute(value, where)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _read_optional(args, limits, value, where)
    if origin in (tuple, list):
        if not isinstance(value, (list, tuple)):
            raise _wrong(where, "a list", value)
        return origin(_read(args[0], limits, v, f"{where}[{k}]") for k, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {key: _read(args[1], limits, item, f"{where}.{key}") for key, item in value.items()}
    return _read_plain(kind, limits, value, where)


def _read_class(cls: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    fields = _fields_of(cls)
    missing = [name for name in _required(cls) if name not in value]
    unknown = sorted(set(value) - {name for name, _, _ in fields})
    for names, what in ((missing, "lacks"), (unknown, "has an unknown field")):
        if names:
            raise PlacementError(f"{where or 'it'} {what} {names[0]!r}", "file")
    dot = f"{where}." if where else ""
    given = [field for field in fields if field[0] in value]
    return cls(**{name: _read(kind, rest, value[name], dot + name) for name, kind, rest in given})


def _required(cls: type) -> list[str]:
    """The fields that each file has; a later one has a default for older files."""
    return [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]


def _read_optional(options: Any, limits: Any, value: Any, where: str) -> Any:
    """Of `kind | None`."""
    [kind] = (option for option in options if option is not type(None))
    return None if value is None else _read(kind, limits, value, where)


def _read_attribute(value: Any, where: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_read_attribute(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, str) or _is_number(value):
        return value
    raise _wrong(where, "a finite number, a text or a list of these", value)


def _read_plain(kind: type, limits: Any, value: Any, where: str) -> Any:
    is_kind = isinstance(value, kind)  # TVM's texts are of a class of their own
    if kind in (int, float):
        is_kind = _is_number(value) and (is_kind or kind is float)
    if not is_kind:
        raise _wrong(where, f"a {_JSON_TYPES[kind]}", value)
    if "minimum" in limits and not value >= limits["minimum"]:
        raise _wrong(where, f"{limits['minimum']} or more", value)
    if "pattern" in limits and not re.search(limits["pattern"], value):
        raise _wrong(where, "16 hexadecimal digits", value)
    if "enum" in limits and value not in limits["enum"]:
        raise _wrong(where, "one of " + ", ".join(limits["enum"]), value)
    return kind(value)


def _is_number(value: Any) -> bool:
    """Whether C++ has such a number: an integer of 64 bits, or a float that is finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and -(2**63) <= value < 2**63


def _wrong(where: str, wanted: str, value: Any) -> PlacementError:
    return PlacementError(f"{where or 'it'} must be {wanted}, not {value!r:.60}", "file")


def _describe(kind: Any, limits: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type of types.py; classes go to `defs`."""
    limits = {key: limits[key] for key in ("minimum", "pattern", "enum") if key in limits}
    if dataclasses.is_dataclass(kind):
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
    if "enum" in limits:
        limits["enum"] = list(limits["enum"])
    return {"type": _JSON_TYPES[kind], **limits}


def _describe_class(cls: type, defs: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": (cls.__doc__ or "").strip().splitlines()[0],
        "type": "object",
        "properties": {
            name: {"description": limits["meaning"], **_describe(kind, limits, defs)}
            for name, kind, limits in _fields_of(cls)
        },
        "required": _required(cls),
        "additionalProperties": False,
    }
