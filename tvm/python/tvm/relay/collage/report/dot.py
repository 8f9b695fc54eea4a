# SPDX-License-Identifier: Apache-2.0
"""A partitioned module as a picture in Graphviz's DOT: parts and operators, coloured by backend.

Test: report/test_dot.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from ..relay_util.external import is_external_function
from ..relay_util.walk import nodes_of, operands_of
from .facts import label_of
from .looks import Look, mixed
from .make import operators_of

# How much of a backend's colour a box has, so that its text is read.
_TINT = 0.45
_LABEL_WIDTH = 32
# Nodes that only pass values on: what they take is drawn as if it came from there.
_TRANSPARENT = (relay.Tuple, relay.TupleGetItem, relay.Let)
_OTHERS = (relay.If, relay.Match, relay.RefCreate, relay.RefRead, relay.RefWrite)


def to_dot(mod: tvm.IRModule, host: str, looks: Mapping[str, Look]) -> str:
    """Return the graph of `mod`, made for the host target, whose external parts are functions with
    a Compiler attribute; `host` names what runs the other operators; `looks` those of all backends
    (looks.report_looks). Constants are left out.

    Each function that is no part is a cluster, main the first. `dot -Tsvg` makes a picture of it.
    """
    functions = [(var.name_hint, function) for var, function in mod.functions_items()]
    functions = [item for item in functions if isinstance(item[1], relay.Function)]
    parts = {name: function for name, function in functions if is_external_function(function)}
    lines = ["digraph placement {", "  node [shape=box, style=filled]"]
    drawing = _Drawing(parts, host, looks)
    for name, function in sorted(functions, key=lambda item: (item[0] != "main", item[0])):
        if name not in parts:
            lines += [f"  subgraph {_quoted('cluster_' + name)} {{", f"    label={_quoted(name)}"]
            lines += [f"    {line}" for line in drawing.draw(function)]
            lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


class _Drawing:
    """Numbers of nodes over all functions of a module."""

    def __init__(
        self, parts: dict[str, relay.Function], host: str, looks: Mapping[str, Look]
    ) -> None:
        self._parts, self._host, self._looks = parts, host, looks
        self._count = 0

    def draw(self, function: relay.Function) -> list[str]:
        """Return lines for the nodes of one function and their edges."""
        lines: list[str] = []
        ids: dict[Any, str] = {}
        nodes = nodes_of(function.body)  # children first, so that what one takes stands before it
        bound = {node.var: node.value for node in nodes if isinstance(node, relay.Let)}

        def sources(value: Any) -> list[str]:
            """Return the drawn nodes whose values reach `value`, through tuples and bindings."""
            found: list[str] = []
            waiting = [value]
            while waiting:
                node = waiting.pop()
                if node in ids:
                    found.append(ids[node])
                elif node in bound:
                    waiting.append(bound[node])
                elif isinstance(node, _TRANSPARENT):
                    waiting += reversed(_taken(node))
            return list(dict.fromkeys(found))

        def add(node: Any, attributes: str) -> None:
            arrows = [source for taken in _taken(node) for source in sources(taken)]
            ids[node] = f"n{self._count}"
            self._count += 1
            lines.append(f"{ids[node]} [{attributes}]")
            lines.extend(f"{source} -> {ids[node]}" for source in dict.fromkeys(arrows))

        for parameter in function.params:
            add(parameter, f"label={_quoted(parameter.name_hint)}, shape=ellipse, fillcolor=white")
        for node in nodes:
            if isinstance(node, relay.Call):
                add(node, self._call(node))
            elif isinstance(node, _OTHERS):
                add(node, f"label={_quoted(type(node).__name__)}, fillcolor=white")
        for source in sources(function.body):
            lines.append(f"{source} -> out{self._count}")
        lines.append(f'out{self._count} [label="output", shape=ellipse, fillcolor=white]')
        return lines

    def _call(self, call: relay.Call) -> str:
        name = call.op.name_hint if isinstance(call.op, relay.GlobalVar) else None
        if name in self._parts:
            part = self._parts[name]
            backend = str(part.attrs["Compiler"])
            text = textwrap.fill(label_of(operators_of(part)), _LABEL_WIDTH)
            label, colour = f"{backend}\n{text}", mixed(self._looks[backend].colour, _TINT)
        elif isinstance(call.op, tvm.ir.Op):
            label, colour = f"{self._host}\n{call.op.name}", "gray92"
        else:
            label, colour = f"call of {name or type(call.op).__name__}", "white"
        return f"label={_quoted(label)}, fillcolor={_quoted(colour)}"


def _taken(node: Any) -> list[Any]:
    """Return what a node computes from."""
    if isinstance(node, relay.Let):
        return [node.body]
    if isinstance(node, relay.If):
        return [node.cond, node.true_branch, node.false_branch]
    if isinstance(node, relay.Match):
        return [node.data, *(clause.rhs for clause in node.clauses)]
    if isinstance(node, relay.RefCreate):
        return [node.value]
    if isinstance(node, relay.RefRead):
        return [node.ref]
    if isinstance(node, relay.RefWrite):
        return [node.ref, node.value]
    return operands_of(node)


def _quoted(text: str) -> str:
    """Return a string of DOT; a line break stays one."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
