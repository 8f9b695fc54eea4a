# SPDX-License-Identifier: Apache-2.0
"""A module's functions as a placement knows them, without parts yet; placements from what ships.

Test: plans/placement/test_replay.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm._ffi import get_global_func

from ...files.records import read, read_json
from .types import (
    Composite,
    DescribedFunction,
    PlacedFunction,
    PlacedPart,
)


def describe_functions(mod: tvm.IRModule) -> list[PlacedFunction]:
    """Describe the functions of a typed module that can be partitioned, by name, with keys."""
    can_be_partitioned = get_global_func("collage.view.CanBePartitioned")
    found = []
    for var, function in mod.functions_items():
        if not can_be_partitioned(function):
            continue
        text = get_global_func("collage.DescribeFunction")(function)
        described = read_json(DescribedFunction, text)
        found.append(PlacedFunction(str(var.name_hint), **vars(described), parts=()))
    return sorted(found, key=lambda function: function.name)


def with_parts(
    described: Sequence[PlacedFunction], parts: Mapping[str, Sequence[PlacedPart]]
) -> tuple[PlacedFunction, ...]:
    """Return what describe_functions gave with parts by the names of functions."""
    return tuple(
        dataclasses.replace(function, parts=tuple(parts.get(function.name, ())))
        for function in described
    )


def placed_parts(rows: Sequence[Any]) -> list[PlacedPart]:
    """Return the parts of a FunctionReport's `placement` or `merged`. Attributes stay as they are:
    one that no file holds is refused when it is saved."""
    parts = []
    for row in rows:
        composites = tuple(
            Composite(item["name"], tuple(item["nodes"]), item["attrs"])
            for item in row["composites"]
        )
        part = read(PlacedPart, {**row, "composites": ()})
        parts.append(dataclasses.replace(part, composites=composites))
    return parts
