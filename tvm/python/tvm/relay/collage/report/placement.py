# SPDX-License-Identifier: Apache-2.0
"""What a partitioned module runs where, read from the module itself. Test: test_report.py."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
from tvm import relay

# Operators listed by name in a label; a longer part shows how many more there are.
_MOST_OPS = 8


def placement_of(mod: Any, host: str) -> list[dict[str, Any]]:
    """Rows of backend, ops and count, external parts first; equal parts are one row.

    `mod` is a module for the host target whose external parts are functions with a Compiler
    attribute; `host` names what runs the rest, one row for all its operators.
    """
    parts: Counter[tuple[str, str]] = Counter()
    rest: Counter[str] = Counter()
    for _, function in mod.functions_items():
        if not isinstance(function, relay.Function):
            continue
        compiler = function.attrs["Compiler"] if _is_external(function) else None
        ops = operators_of(function)
        if compiler is None:
            rest.update(ops)
        else:
            parts[str(compiler), label_of(ops)] += 1
    rows = [
        {"backend": backend, "ops": ops, "count": count}
        for (backend, ops), count in parts.most_common()
    ]
    if rest:
        named = [name if n == 1 else f"{name} x{n}" for name, n in rest.most_common()]
        rows.append({"backend": host, "ops": label_of(named), "count": sum(rest.values())})
    return rows


def operators_of(function: Any) -> list[str]:
    """Names of the operators called in a function, functions inside it included, inputs first."""
    names = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op):
            names.append(node.op.name)

    relay.analysis.post_order_visit(function.body, visit)
    return names


def label_of(names: list[str]) -> str:
    """The names in one line, the end of a long list as a number."""
    text = ", ".join(names[:_MOST_OPS])
    left = len(names) - _MOST_OPS
    return f"{text}, ... {left} more" if left > 0 else text


def _is_external(function: Any) -> bool:
    return function.attrs is not None and "Compiler" in function.attrs
