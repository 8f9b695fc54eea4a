# SPDX-License-Identifier: Apache-2.0
"""Looks at some calls of a larger module as if they were a partition of their own.

Precondition: types are inferred. Test: test_onednn_patterns.py.
"""

from tvm import ir, relay

from .flatten import Flattener, add_input
from .functions import EVALUABLE_OPS, function_ending_at
from .fuse import fuse
from .graph import Graph
from .lower import lower

_FAR_ENOUGH = 40


def lower_calls(root, calls: list) -> Graph:
    """Return the primitives of these calls, of which root is the result.

    All that they read and that is neither a constant nor one of them is an input.
    """
    graph = Graph()
    inside = set(calls)
    scope = {}
    for call in calls:
        for argument in _operands(call):
            is_known = argument in inside or argument in scope
            if not is_known and not isinstance(argument, relay.Constant):
                scope[argument] = add_input(graph, argument.checked_type, "an operand")
    graph.outputs = [Flattener(graph).run(root, scope)]
    graph = fuse(lower(graph))
    graph.remove_unused()
    return graph


def _operands(call):
    """Return the arguments, those of tuples one by one."""
    for argument in call.args:
        yield from argument.fields if isinstance(argument, relay.Tuple) else [argument]


def find_chain(expr, anchor_op: str | None, chain: list[str]) -> list | None:
    """Return the calls from expr back to the anchor's call, or None when they are no such chain.

    Without an anchor the chain is an activation by itself.
    """
    if not chain:
        if anchor_op is None:
            return []
        return [expr] if _is_call_of(expr, anchor_op) else None
    before, step = chain[:-1], chain[-1]
    if step in ("bias", "sum"):
        if not (_is_call_of(expr, "add") or _is_call_of(expr, "nn.bias_add")):
            return None
        for operand in expr.args if _is_call_of(expr, "add") else expr.args[:1]:
            found = find_chain(operand, anchor_op, before)
            if found:
                return [expr, *found]
        return None
    piece = _function_piece(expr)
    if piece is None:
        return None
    source, calls = piece
    found = find_chain(source, anchor_op, before)
    return None if found is None else [*calls, *found]


def _is_call_of(expr, op: str) -> bool:
    return isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op) and expr.op.name == op


def _function_piece(expr):
    """Return (variable, calls) of the largest elementwise function of one variable at expr."""
    graph, scope, call_of = Graph(), {}, {}
    reached, frontier = [], [expr]
    while frontier and len(reached) < _FAR_ENOUGH:
        each = frontier.pop(0)
        is_elementwise = (
            isinstance(each, relay.Call)
            and isinstance(each.op, ir.Op)
            and each.op.name in EVALUABLE_OPS
        )
        if is_elementwise and each not in reached:
            reached.append(each)
            frontier.extend(each.args)
    if not reached:
        return None
    inside = set(reached)
    for call in reached:
        for argument in call.args:
            if argument in inside or argument in scope or isinstance(argument, relay.Constant):
                continue
            scope[argument] = add_input(graph, argument.checked_type, "an operand")
    flattener = Flattener(graph)
    graph.outputs = [flattener.run(expr, scope)]
    call_of = {tensor: each for each, tensor in scope.items()}
    found = function_ending_at(graph, graph.nodes[-1])
    if found is None:
        return None
    _, source, piece = found
    return call_of[source], [call_of[node.output] for node in piece]
