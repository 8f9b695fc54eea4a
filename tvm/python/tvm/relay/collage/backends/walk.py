# SPDX-License-Identifier: Apache-2.0
"""Evaluates a Relay expression bottom up, without recursion: partitions can be deep.

Precondition: no control flow, no functions but those called on the spot.
Test: backends/onnx_model/test_export.py, backends/dnnl/test_codegen.py.
"""

from collections.abc import Callable

from tvm import relay

from ..relay_util.walk import key_of, operands_of


def evaluate(body, scope: dict, visit: Callable):
    """Return what `visit` gives for body.

    `visit(expr, values)` is called once for each expression, with the values of its operands;
    composites (calls of a function written there) and tuples are seen through. `scope` holds the
    values of the parameters by `key_of`, and is filled with all others.
    """
    stack = [(body, None)]
    while stack:
        expr, children = stack.pop()
        if key_of(expr) in scope:
            continue
        if children is None:
            children = operands_of(expr)
            missing = [child for child in children if key_of(child) not in scope]
            if missing:
                stack.append((expr, children))
                stack.extend((child, None) for child in reversed(missing))
                continue
        values = [scope[key_of(child)] for child in children]
        scope[key_of(expr)] = _value(expr, values, visit)
    return scope[key_of(body)]


def _value(expr, values, visit):
    if isinstance(expr, relay.Tuple):
        return tuple(values)
    if isinstance(expr, relay.TupleGetItem):
        return values[0][expr.index]
    if isinstance(expr, relay.Call) and isinstance(expr.op, relay.Function):
        inner = dict(zip((key_of(param) for param in expr.op.params), values))
        return evaluate(expr.op.body, inner, visit)
    return visit(expr, values)
