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
from tvm.target import Target

from ...costs.kernel import KernelChoice
from ...files.records import read, read_json
from ...tuning import TuningRecords, records_in_force
from .made_with import made_with_now, tuning_of
from .types import (
    Composite,
    DescribedFunction,
    Machine,
    PlacedFunction,
    PlacedPart,
    Placement,
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


def make_placement(
    plan: str,
    mod: tvm.IRModule,
    host: Target,
    described: Sequence[PlacedFunction],
    parts: Mapping[str, Sequence[PlacedPart]],
    opt_level: int,
    machine: Machine | None = None,
    records: TuningRecords | None = None,
    kernels: Sequence[KernelChoice] = (),
    one_thread: bool = False,
    is_simplified: bool = True,
    original: str = "",
) -> Placement:
    """Make the placement of `parts` by function of a typed module, here and now.

    `described`: describe_functions(mod), which takes as long as its weights are large. `kernels`:
    by which the steps of its parts run. `machine`: where it was measured, this one by default.
    `records`: with which tuning records, those in force by default. `opt_level` is the
    PassContext's in which the module was prepared, `is_simplified` what `prepare` was told;
    `original` is the hash of a file that runs instead.
    """
    functions = tuple(
        dataclasses.replace(function, parts=tuple(parts.get(function.name, ())))
        for function in described
    )
    used = {p.backend for f in functions for p in f.parts if p.is_compiled} - {host.kind.name}
    tuning = tuning_of(records_in_force(host)[0] if records is None else records, mod)
    made_with = made_with_now(host, used, opt_level, machine, tuning)
    made_with = dataclasses.replace(made_with, is_simplified=is_simplified)
    return Placement(plan, made_with, functions, tuple(kernels), one_thread, original)


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
