# SPDX-License-Identifier: Apache-2.0
"""Functions of elements as models spell them in Relay: patterns of some, and the calls of any.

Test: backends/dnnl/test_patterns.py, backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

from tvm import ir, relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_op

from ...relay_util.walk import key_of
from .flatten import Flattener, add_input
from .functions import EVALUABLE_OPS, function_ending_at
from .graph import Graph

# Elementwise ops that are looked at for one function.
_FAR_ENOUGH = 40


def gelu(x: DFPattern) -> DFPattern:
    """Return the pattern of x * (1 + erf(x / sqrt(2))) / 2, in the orders in which exporters write
    it."""
    scaled = is_op("divide")(x, is_constant()) | is_op("multiply")(x, is_constant())
    half = is_constant()
    one_plus = is_op("add")(is_op("erf")(scaled), is_constant())
    return (
        is_op("multiply")(is_op("multiply")(x, one_plus), half)
        | is_op("multiply")(is_op("multiply")(x, half), one_plus)
        | is_op("multiply")(x, is_op("multiply")(one_plus, half))
        | is_op("multiply")(x, is_op("add")(is_op("multiply")(is_op("erf")(scaled), half), half))
    )


def elu(x: DFPattern) -> DFPattern:
    """Return the pattern of max(x, 0) - alpha * max(1 - exp(x), 0), as TVM's importers write it."""
    relu = is_op("nn.relu")
    below = relu(is_op("subtract")(is_constant(), is_op("exp")(x)))
    return is_op("add")(is_op("multiply")(is_constant(), below), relu(x))


def op_of(expr: relay.Expr) -> str:
    """Return the name of the operator that it calls; "" where it calls none."""
    is_call = isinstance(expr, relay.Call) and isinstance(expr.op, ir.Op)
    return str(expr.op.name) if is_call else ""


def function_piece(backend: str, expr: relay.Expr) -> tuple[relay.Expr, list[relay.Call]] | None:
    """Return (variable, calls) of the largest elementwise function of one variable at expr."""
    graph, scope = Graph(backend), {}
    reached: dict[int, list[relay.Expr]] = {}
    frontier, expr_of = [expr], {}
    while frontier and len(reached) < _FAR_ENOUGH:
        each = frontier.pop(0)
        expr_of[key_of(each)] = each
        if op_of(each) in EVALUABLE_OPS and key_of(each) not in reached:
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
