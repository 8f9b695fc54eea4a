# SPDX-License-Identifier: Apache-2.0
"""What a partitioned module runs where, read from the module itself.
Test: report/test_report.py."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tvm import relay

from ..relay_util.external import is_external_function
from ..relay_util.walk import operator_calls

# Names in a label at most.
_MOST_OPS = 8


def placement_of(mod: Any, host: str) -> list[dict[str, Any]]:
    """Rows of backend, ops, parts and operators, external parts first; equal parts are one row.

    `mod` is a module for the host target whose external parts are functions with a Compiler
    attribute; `host` names what runs the rest, one row for all its operators (parts is None there:
    how many kernels they make is for TVM's fusion to say).
    """
    parts: Counter[tuple[str, str, int]] = Counter()
    rest: list[str] = []
    for _, function in mod.functions_items():
        if not isinstance(function, relay.Function):
            continue
        ops = operators_of(function)
        if is_external_function(function):
            parts[str(function.attrs["Compiler"]), label_of(ops), len(ops)] += 1
        else:
            rest += ops
    rows = [
        {"backend": backend, "ops": ops, "parts": count, "operators": count * size}
        for (backend, ops, size), count in parts.most_common()
    ]
    if rest:
        rows.append({"backend": host, "ops": tally(rest), "parts": None, "operators": len(rest)})
    return rows


def operators_of(function: Any) -> list[str]:
    """Names of the operators called in a function, functions inside it included, inputs first."""
    return [call.op.name for call in operator_calls(function)]


def label_of(names: list[str]) -> str:
    """A part's operators in their order, or tallied when they are many."""
    return ", ".join(names) if len(names) <= _MOST_OPS else tally(names)


def tally(names: list[str]) -> str:
    """Each name with its count, the most frequent first, the end of a long list as a number."""
    counts = Counter(names).most_common()
    shown = [name if count == 1 else f"{name} x{count}" for name, count in counts[:_MOST_OPS]]
    left = sum(count for _, count in counts[_MOST_OPS:])
    return ", ".join(shown) + (f", {left} others" if left else "")
