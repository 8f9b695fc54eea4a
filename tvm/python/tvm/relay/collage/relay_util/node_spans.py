# SPDX-License-Identifier: Apache-2.0
"""The identity of a module's calls, as a Relay span that passes carry along.

Times of a plan are told by what runs, and are asked for by the node of the prepared module: its
place in the graph that the pass reads (a view's index, or a placement's). A span is no part of
structural equality, so stamped functions have the same hashes, and the same kernels. The node is
in the end of the span, which nothing of TVM's reads or prints: its source and its place in a text
stay what they were. A call that a pass made anew without a span has no node, and so no time of its
own.

Precondition: no function of the module is partitioned yet. Test: relay_util/test_node_spans.py.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from .walk import children_of, is_open_function, key_of, nodes_of, post_order, rebuild

# The column at which no text ends: the line is a node then.
_MARK = -23


def stamp_nodes(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with the node of each call of its main function in the call's span."""
    main = mod["main"]
    if not is_open_function(main):
        return mod
    # Nodes are numbered in TVM's own post-dfs order, as C++ numbers them (relay/import_relay.cc).
    number = {key_of(expr): index for index, expr in enumerate(nodes_of(main))}
    new: dict[int, Any] = {}
    for expr in post_order(main.body):
        old = children_of(expr)
        made = rebuild(expr, old, [new[key_of(child)] for child in old])
        if isinstance(expr, relay.Call):
            span = _stamped(expr.span, number[key_of(expr)])
            made = relay.expr.CallWithFields(made, None, None, None, None, None, span)
        new[key_of(expr)] = made
    result = mod.clone()
    body = new[key_of(main.body)]
    result.update_func(
        mod.get_global_var("main"), relay.function.FunctionWithFields(main, None, body)
    )
    return result


def _stamped(span: Any, node: int) -> Any:
    """Return a call's span with its node. Of what several expressions became the last is told."""
    while isinstance(span, tvm.ir.base.SequentialSpan):
        span = span.spans[-1] if len(span.spans) else None
    if span is None:
        span = tvm.ir.base.Span(tvm.ir.base.SourceName(""), 0, 0, 0, 0)
    return tvm.ir.base.Span(span.source_name, span.line, node, span.column, _MARK)


def node_of(expr: relay.Expr) -> int | None:
    """Return the node that an expression was stamped with; None for one that has none. What several
    nodes became is the last of them, which gives its result."""
    spans = [expr.span]
    while spans:
        span = spans.pop()
        if isinstance(span, tvm.ir.base.SequentialSpan):
            spans.extend(span.spans)
        elif span is not None and span.end_column == _MARK:
            return int(span.end_line)
    return None
