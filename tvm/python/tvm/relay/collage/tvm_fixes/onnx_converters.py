# SPDX-License-Identifier: Apache-2.0
"""Nodes that TVM's ONNX converters read wrongly, put into the form that they read right.

Each mend changes the inputs and attributes of one node before its converter sees them; where TVM is
right it changes nothing. What is rare becomes an opaque operator instead (importer/opaque.py).
Test: tvm_fixes/test_onnx_converters.py. Docs: docs/import.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import tvm
from onnx import GraphProto, NodeProto
from tvm import relay
from tvm.relay.frontend import onnx

from .table import FIXES


def mend(op: str, inputs: Any, attrs: dict[str, Any]) -> None:
    """Put right a node of that operator, in place."""
    if op in _MENDS:
        _MENDS[op](inputs, attrs)


def leave_empty_out(inputs: Any, type_of: Callable[[Any], Any]) -> None:
    """Remove what has no elements from the inputs of a Concat (the row "operands of Concat")."""

    def is_empty(value: Any) -> bool:
        return any(isinstance(n, tvm.tir.IntImm) and int(n) == 0 for n in type_of(value).shape)

    kept = [each for each in inputs if not is_empty(each)]
    if 0 < len(kept) < len(inputs):
        inputs[:] = kept


def name_what_branches_read(proto: GraphProto, node: NodeProto) -> None:
    """Give inputs of the model that several branches read the name of the node that has these, if
    they have none (the row "inputs of branches")."""
    branches = [set(_read_in(item.g)) for item in node.attribute if item.g.node]
    shared = set.intersection(*branches) if len(branches) > 1 else set()
    names = [name for name in sorted(shared) if isinstance(proto._nodes.get(name), relay.Var)]
    if names:
        source = onnx.get_source_name(node, proto._op_type_dict)
        proto._set_parameter_span(SimpleNamespace(input=names), source)


def _read_in(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from _read_in(attribute.g)


def _predicate(inputs: Any, _attrs: dict[str, Any]) -> None:
    """Give a constant predicate of rank 0 a first element."""
    value = inputs[0]
    if isinstance(value, relay.Constant) and not value.data.shape:
        inputs[0] = relay.const(value.data.numpy().reshape(1))


def _axes(inputs: Any, attrs: dict[str, Any]) -> None:
    """Make axes that are an input an attribute."""
    if len(inputs) < 2 or not isinstance(inputs[1], relay.Constant):
        return
    axes = inputs[1].data.numpy().reshape(-1).tolist()
    if axes:
        attrs["axes"] = tuple(axes)
    elif attrs.get("noop_with_empty_axes", 0):
        return
    attrs.pop("noop_with_empty_axes", None)  # of axes that are an input
    del inputs[1:]


def _axes_unless_one(inputs: Any, attrs: dict[str, Any]) -> None:
    is_constant = len(inputs) > 1 and isinstance(inputs[1], relay.Constant)
    if is_constant and tuple(inputs[1].data.shape) != (1,):
        _axes(inputs, attrs)


def _bounds(inputs: Any, _attrs: dict[str, Any]) -> None:
    """Make bounds that are constants copies of these, unless both are constants."""
    bounds = list(inputs)[1:]
    if len(bounds) < 2 or not all(isinstance(bound, relay.Constant) for bound in bounds):
        for index, bound in enumerate(bounds, start=1):
            if isinstance(bound, relay.Constant):
                inputs[index] = relay.copy(bound)


# By the rows of the table, which name the operators.
_MENDS: dict[str, Callable[[Any, dict[str, Any]], object]] = {
    place.removeprefix("converter:"): mend
    for name, mend in {
        "predicate of If": _predicate,
        "one of several axes": _axes_unless_one,
        "axes that are an input": _axes,
        "bounds of Clip": _bounds,
        "saturation of Cast": lambda _inputs, attrs: attrs.pop("saturate", None),
    }.items()
    for place in FIXES[name].places
}
