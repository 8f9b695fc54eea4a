# SPDX-License-Identifier: Apache-2.0
"""A placement <-> JSON values, and the JSON Schema of them, read off the fields of its class.

Test: plans/placement/test_file.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from ...errors import PlacementError
from ...files.json_schema import describe_class
from ...files.kinds import PLACEMENT_FORMAT
from ...files.records import RecordError, read

# In each file; it changes with the meaning of any field.
VERSION = 1

Data = TypeVar("Data")


def to_json(placement: Any) -> dict[str, Any]:
    """Return a placement as JSON values (tuples are lists there)."""
    return {"format": PLACEMENT_FORMAT, "version": VERSION, **dataclasses.asdict(placement)}


def from_json(cls: type[Data], value: Any) -> Data:
    """Read the placement, of that class, of JSON values; PlacementError says where they are
    none."""
    if not isinstance(value, dict) or value.get("format") != PLACEMENT_FORMAT:
        raise PlacementError(f"it is no placement: its format is not {PLACEMENT_FORMAT!r}", "file")
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
    """Return the JSON Schema (draft 2020-12) of a file that holds a placement of that class."""
    defs: dict[str, Any] = {}
    top = describe_class(cls, defs)
    head = {"format": {"const": PLACEMENT_FORMAT}, "version": {"const": VERSION}}
    top["properties"] = {**head, **top["properties"]}
    top["required"] = [*head, *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A saved placement of Collage",
        **top,
        "$defs": defs,
    }
