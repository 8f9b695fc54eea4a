# SPDX-License-Identifier: Apache-2.0
"""As much of JSON Schema (draft 2020-12) as Collage's own schemas use."""

import re

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}
_KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "items",
    "additionalProperties", "const", "enum", "minimum", "pattern", "anyOf",
}  # fmt: skip


def errors(schema, value, root=None, where="$"):
    """Return what is wrong with the value, as texts; [] when it follows the schema."""
    root = root or schema
    assert set(schema) <= _KNOWN, f"the schema says {set(schema) - _KNOWN}, which is not checked"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return errors(root["$defs"][name], value, root, where)
    found = []
    if "anyOf" in schema and all(errors(s, value, root, where) for s in schema["anyOf"]):
        found.append(f"{where}: none of anyOf")
    if "type" in schema and not _is_of_type(schema["type"], value):
        return [f"{where}: not of type {schema['type']}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{where}: not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: not one of {schema['enum']}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: less than {schema['minimum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: does not match {schema['pattern']}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            found += errors(schema["items"], item, root, f"{where}[{index}]")
    if isinstance(value, dict):
        found += _object_errors(schema, value, root, where)
    return found


def _is_of_type(name, value):
    if name in ("integer", "number"):
        kinds = int if name == "integer" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return isinstance(value, _TYPES[name])


def _object_errors(schema, value, root, where):
    properties = schema.get("properties", {})
    found = [f"{where}: lacks {name}" for name in schema.get("required", []) if name not in value]
    others = schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in properties:
            found += errors(properties[key], item, root, f"{where}.{key}")
        elif others is False:
            found.append(f"{where}: unknown {key}")
        elif isinstance(others, dict):
            found += errors(others, item, root, f"{where}.{key}")
    return found
