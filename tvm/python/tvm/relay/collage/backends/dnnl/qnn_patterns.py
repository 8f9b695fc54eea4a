# SPDX-License-Identifier: Apache-2.0
"""Chains of quantised ops that oneDNN computes in one primitive.

A product of bytes, with a bias or without, back to bytes; with a residual sum or without. The
predicate lowers what was found, as in patterns.py. Test: backends/dnnl/test_qnn.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tvm import ir, relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard

from ..partition.flatten import takes_any
from .extract import lower_calls
from .types import BYTES, is_quantised

PRODUCTS = {"conv2d": "qnn.conv2d", "dense": "qnn.dense"}

# Op of a step -> how many of its operands, the first ones, may be the chain so far.
_STEPS = {"add": 2, "nn.bias_add": 1, "qnn.requantize": 1, "clip": 1, "cast": 1, "qnn.add": 2}
_MAX_STEPS = 8


def qnn_entries() -> list[tuple]:
    """Return (composite name, pattern, predicate) entries, those of more ops first."""
    return [
        (f"dnnl.qnn_{label}{'_sum' * has_sum}", _pattern(op, has_sum), _predicate(op))
        for has_sum in (True, False)
        for label, op in PRODUCTS.items()
    ]


def _pattern(op: str, has_sum: bool) -> DFPattern:
    product = is_op(op)(*[wildcard() for _ in range(6)])
    biased = is_op("add")(product, is_constant()) | is_op("nn.bias_add")(product, is_constant())
    result = is_op("qnn.requantize")(biased | product, *_constants(4))
    result = is_op("clip")(result) | result
    result = is_op("cast")(result) | result
    if has_sum:
        scales = _constants(6)
        add = is_op("qnn.add")
        result = add(result, wildcard(), *scales) | add(wildcard(), result, *scales)
        result = is_op("clip")(result) | result
    return result


def _constants(count: int) -> list[DFPattern]:
    return [is_constant() for _ in range(count)]


def _predicate(op: str) -> Callable[[relay.Expr], bool | str]:
    def accepts(expr: relay.Expr) -> bool | str:
        return takes_any(_chains(expr, op, _MAX_STEPS), lambda calls: _is_primitive(expr, calls))

    return accepts


def _is_primitive(expr: relay.Expr, calls: list[relay.Call]) -> bool:
    graph = lower_calls(expr, calls)
    nodes = graph.nodes
    return (
        len(nodes) == 1 and is_quantised(graph, nodes[0]) and graph.dtypes[nodes[0].output] in BYTES
    )


def _chains(expr: relay.Expr, op: str, steps: int) -> Iterator[list]:
    """Yield each chain as the calls from expr back to one of op."""
    if not isinstance(expr, relay.Call) or not isinstance(expr.op, ir.Op) or steps < 0:
        return
    if expr.op.name == op:
        yield [expr]
        return
    for operand in expr.args[: _STEPS.get(expr.op.name, 0)]:
        for found in _chains(operand, op, steps - 1):
            yield [expr, *found]
