# SPDX-License-Identifier: Apache-2.0
"""A placement's file: JSON, written at once or not at all, a node, a part, a kernel a line.

Test: plans/placement/test_file.py.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ...errors import PlacementError
from ...files.text import parse_json, write_whole
from .json_form import Data, from_json, to_json


def save_placement(placement: Any, path: str | os.PathLike) -> None:
    """Write the file; another process sees the old one or the whole new one.

    PlacementError when it cannot be written, and, before anything is written, when the file could
    not be read again: an attribute of a composite may be what no file holds.
    """
    path = os.fspath(path)
    value = to_json(placement)
    try:
        from_json(type(placement), value)
    except PlacementError as error:
        text = f"the placement of plan {placement.plan!r} cannot be saved: {error}"
        raise PlacementError(text, "plan") from None
    try:
        write_whole(path, _text(value))
    except OSError as error:
        raise PlacementError(
            f"placement file {path!r} cannot be written: {error.strerror}", "file"
        ) from None


def read_placement_file(cls: type[Data], path: str | os.PathLike) -> Data:
    """Read the placement, of that class, in a file that `save_placement` wrote; it is never
    changed.

    PlacementError says what is wrong with it.
    """
    path = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            value = parse_json(file.read(), parse_constant=_no_number)
    except OSError as error:
        raise PlacementError(
            f"placement file {path!r} cannot be read: {error.strerror}", "file"
        ) from None
    except ValueError as error:
        raise PlacementError(
            f"placement file {path!r} is cut off or no JSON ({error}): make the placement again",
            "file",
        ) from None
    try:
        return from_json(cls, value)
    except PlacementError as error:
        raise PlacementError(f"placement file {path!r}: {error}", error.kind) from None


def _text(value: dict[str, Any]) -> str:
    rest = dict(value)
    kernels = ",\n".join(f"  {_line(choice)}" for choice in rest.pop("kernels"))
    functions = ",\n".join(_function_text(function) for function in rest.pop("functions"))
    lines = [f" {json.dumps(key)}: {_line(item)}" for key, item in rest.items()]
    lines += [f' "kernels": [\n{kernels}\n ]', f' "functions": [\n{functions}\n ]']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _function_text(function: dict[str, Any]) -> str:
    fields = []
    for name, item in function.items():
        text = _line(item)
        if isinstance(item, (list, tuple)) and item:
            text = "[\n" + ",\n".join(f"    {_line(row)}" for row in item) + "\n   ]"
        fields.append(f'   "{name}": {text}')
    return "  {\n" + ",\n".join(fields) + "\n  }"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")
