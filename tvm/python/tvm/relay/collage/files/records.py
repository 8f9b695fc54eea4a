# SPDX-License-Identifier: Apache-2.0
"""JSON values as records, which are dataclasses: what C++ sends, and files. One reader for all.

Test: files/test_records.py, plans/placement/test_file.py.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NewType, TypeVar

Kind = TypeVar("Kind")

# A number, a text or a list of attributes, mixed and nested as it may be.
Attribute = NewType("Attribute", object)

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


class RecordError(ValueError):
    """A value that is none of its kind; `path` says where in the whole."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.path = what, ""

    def inside(self, step: str) -> RecordError:
        """Return the same, seen from what holds the value as its field or item `step`."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{dot}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path or 'it'} {self.what}"


def read_json(kind: type[Kind], text: str | bytes) -> Kind:
    """Read a record that C++ sent as text."""
    return read(kind, json.loads(str(text)))


def read(kind: type[Kind], value: object) -> Kind:
    """Read a JSON value as `kind`: a dataclass, tuple[..], list[..], dict[str, ..] or a plain type.

    RecordError says where it is none. A field's metadata may have limits: minimum, pattern, enum.
    The names in a class's FORMER_FIELDS are those that older files have, and are passed over.
    """
    return _reader(kind, {})(value)


def to_json(record: Any) -> Any:
    """A record as the JSON value that `read` makes it of."""
    if isinstance(record, (str, int, float)) or record is None:
        return record
    if isinstance(record, (list, tuple)):
        return [to_json(item) for item in record]
    if isinstance(record, dict):
        return {key: to_json(value) for key, value in record.items()}
    cls: type = type(record)
    return {name: to_json(getattr(record, name)) for name in _field_names(cls)}


@functools.cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


def described(meaning: str, default: Any = dataclasses.MISSING, **limits: Any) -> Any:
    """Make a dataclass' field with its meaning, for schemas, and limits. `default`: what it is in
    files that were written before it was added."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, **limits})


def fields_of(cls: type) -> list[tuple[str, Any, Mapping[str, Any]]]:
    """(name, type, limits) of each field."""
    hints = typing.get_type_hints(cls)
    return [(field.name, hints[field.name], field.metadata) for field in dataclasses.fields(cls)]


def required_fields(cls: type) -> list[str]:
    """Return the fields that each value has; a later one has a default for older files."""
    none = dataclasses.MISSING
    fields = dataclasses.fields(cls)
    return [f.name for f in fields if f.default is none and f.default_factory is none]


def _reader(kind: Any, limits: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return what makes a `kind` of a JSON value."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _class_reader(kind)
    if kind is Attribute:
        return _read_attribute
    if kind is Any:
        return lambda value: value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # of `kind | None`
        [other] = (option for option in args if option is not type(None))
        read_other = _reader(other, limits)
        return lambda value: None if value is None else read_other(value)
    if origin in (tuple, list):
        return _items_reader(origin, _reader(args[0], limits))
    if origin is dict:
        return _dict_reader(_reader(args[1], limits))
    if issubclass(kind, enum.StrEnum):
        return functools.partial(_read_choice, kind)
    if issubclass(kind, (enum.Enum, frozenset)):
        return kind
    return functools.partial(_read_plain, kind, limits)


@functools.cache
def _class_reader(cls: type) -> Callable[[Any], Any]:
    readers = {name: _reader(kind, limits) for name, kind, limits in fields_of(cls)}
    required = required_fields(cls)
    former: frozenset[str] = getattr(cls, "FORMER_FIELDS", frozenset())

    def read_class(value: object) -> Any:
        if not isinstance(value, dict):
            raise _wrong("an object", value)
        for name in required:
            if name not in value:
                raise RecordError(f"lacks {name!r}")
        if former:
            value = {name: item for name, item in value.items() if name not in former}
        if unknown := value.keys() - readers.keys():
            raise RecordError(f"has an unknown field {min(unknown)!r}")
        return cls(**_read_each(readers.__getitem__, value))

    return read_class


def _dict_reader(read_item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_dict(value: object) -> Any:
        if not isinstance(value, dict):
            raise _wrong("an object", value)
        return _read_each(lambda _: read_item, value)

    return read_dict


def _read_each(
    reader_of: Callable[[str], Callable[[Any], Any]], value: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = ""
    try:
        for name, item in value.items():
            found[name] = reader_of(name)(item)
    except RecordError as error:
        raise error.inside(name) from None
    return found


def _items_reader(origin: type, read_item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_items(value: object) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _wrong("a list", value)
        found: list[Any] = []
        try:
            for item in value:
                found.append(read_item(item))
        except RecordError as error:
            raise error.inside(f"[{len(found)}]") from None
        return found if origin is list else tuple(found)

    return read_items


def _read_attribute(value: object) -> Any:
    if isinstance(value, (list, tuple)):
        return _items_reader(list, _read_attribute)(value)
    if isinstance(value, str) or _is_number(value):
        return value
    raise _wrong("a finite number, a text or a list of these", value)


def _read_plain(kind: type, limits: Mapping[str, Any], value: Any) -> Any:
    is_kind = isinstance(value, kind)  # TVM's texts are of a class of their own
    if kind in (int, float):
        is_kind = _is_number(value) and (is_kind or kind is float)
    if not is_kind:
        raise _wrong(f"a {JSON_TYPES[kind]}", value)
    if "minimum" in limits and not value >= limits["minimum"]:
        raise _wrong(f"{limits['minimum']} or more", value)
    if "pattern" in limits and not re.search(limits["pattern"], value):
        raise _wrong("16 hexadecimal digits", value)
    if "enum" in limits and value not in limits["enum"]:
        raise _wrong("one of " + ", ".join(limits["enum"]), value)
    return kind(value)


def _read_choice(kind: type[enum.StrEnum], value: str) -> Any:
    if value not in tuple(kind):
        raise _wrong("one of " + ", ".join(kind), value)
    return kind(value)


def _is_number(value: object) -> bool:
    """Return whether C++ has such a number: an integer of 64 bits, or a float that is finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and -(2**63) <= value < 2**63


def _wrong(wanted: str, value: object) -> RecordError:
    return RecordError(f"must be {wanted}, not {value!r:.60}")
