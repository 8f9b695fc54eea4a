# SPDX-License-Identifier: Apache-2.0
"""Looks at some calls of a larger module as if they were a partition of their own.

Precondition: types are inferred. Test: backends/dnnl/test_patterns.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import ir, relay
from tvm._ffi import get_global_func

from ...relay_util.walk import key_of
from ..partition.flatten import Flattener, add_input, flatten_calls
from ..partition.graph import Graph
from .functions import EVALUABLE_OPS, function_ending_at
from .fuse import fuse
from .lower import lower
from .types import check_types

_FAR_ENOUGH = 40
_tensor_type_json = get_global_func("collage.TensorTypeJson")


def lower_calls(root: relay.Expr, calls: list) -> Graph:
    """Return the primitives of these calls, of which root is the result."""
    graph = fuse(lower(flatten_calls("dnnl", root, calls)))
    graph.remove_unused()
    return check_types(graph)


def find_chains(expr: relay.Expr, anchor_op: str | None, chain: list[str]) -> Iterator[list]:
    """Yield each such chain as the calls from expr back to the anchor's; none when there is none.

    A sum of two anchors ends two of them. Without an anchor the chain is an activation by itself.
    """
    if not chain:
        if anchor_op is None:
            yield []
        elif _is_call_of(expr, anchor_op):
            yield [expr]
        return
    before, step = chain[:-1], chain[-1]
    if step in ("bias", "sum"):
        operands = []
        if _is_call_of(expr, "add"):
            operands = expr.args
        elif _is_call_of(expr, "nn.bias_add"):
            operands = expr.args[:1]
        if operands and step == "sum" and not _are_alike(expr.args):
            return
        for operand in operands:
            for found in find_chains(operand, anchor_op, before):
                yield [expr, *found]
        return
    if step == "prelu":
        piece = (expr.args[0], [expr]) if _is_call_of(expr, "nn.prelu") else None
    else:
        piece = _function_piece(expr)
    if piece is None:
        return
    source, calls = piece
    for found in find_chains(source, anchor_op, before):
        yield [*calls, *found]


def _are_alike(operands: Sequence[relay.Expr]) -> bool:
    """Tell whether a post-op sum can be meant: it broadcasts nothing. Spares lowering biases."""
    first, second = (_tensor_type_json(operand.checked_type) for operand in operands)
    return first == second


def _is_call_of(expr: relay.Expr, op: str) -> bool:
    return isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op) and expr.op.name == op


def _function_piece(expr: relay.Expr) -> tuple[relay.Expr, list[relay.Call]] | None:
    """Return (variable, calls) of the largest elementwise function of one variable at expr."""
    graph, scope = Graph("dnnl"), {}
    reached: dict[int, list[relay.Expr]] = {}
    frontier, expr_of = [expr], {}
    while frontier and len(reached) < _FAR_ENOUGH:
        each = frontier.pop(0)
        expr_of[key_of(each)] = each
        is_elementwise = (
            isinstance(each, relay.Call)
            and isinstance(each.op, ir.Op)
            and each.op.name in EVALUABLE_OPS
        )
        if is_elementwise and key_of(each) not in reached:
            reached[key_of(each)] = list(each.args)
            frontier.extend(reached[key_of(each)])
    if not reached:
        return None
    for arguments in reached.values():
        for argument in arguments:
            key = key_of(argument)
            expr_of[key] = argument
            if key in reached or key in scope or isinstance(argument, relay.Constant):
                continue
            scope[key] = add_input(graph, argument.checked_type, "an operand")
    flattener = Flattener(graph)
    graph.outputs = [flattener.run(expr, scope)]
    call_of = {tensor: expr_of[key] for key, tensor in scope.items() if key in expr_of}
    found = function_ending_at(graph, graph.nodes[-1])
    if found is None:
        return None
    _, source, piece = found
    return call_of[source], [call_of[node.output] for node in piece]
