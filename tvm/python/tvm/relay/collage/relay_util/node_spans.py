# SPDX-License-Identifier: Apache-2.0
"""The identity of a module's calls, as a Relay span that passes carry along.

Times of a plan are told by what runs, and are asked for by the node of the prepared module: its
place in the graph that the pass reads (a view's index, or a placement's). A span is no part of
structural equality, so stamped functions have the same hashes, and the same kernels. A call that a
pass made anew without a span has no node, and so no time of its own.

Precondition: no function of the module is partitioned yet. Test: relay_util/test_node_spans.py.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from .walk import children_of, is_open_function, key_of, nodes_of, post_order, rebuild

_SOURCE = "collage.node"


def stamp_nodes(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with the node of each call of its main function in the call's span, beside
    what was there: what the model's file calls it."""
    main = mod["main"]
    if not is_open_function(main):
        return mod
    # Nodes are numbered in TVM's own post-dfs order, as C++ numbers them (relay/import_relay.cc).
    number = {key_of(expr): index for index, expr in enumerate(nodes_of(main))}
    source = tvm.ir.base.SourceName(_SOURCE)
    new: dict[int, Any] = {}
    for expr in post_order(main.body):
        old = children_of(expr)
        made = rebuild(expr, old, [new[key_of(child)] for child in old])
        if isinstance(expr, relay.Call):
            line = number[key_of(expr)]
            span = tvm.ir.base.Span(source, line, line, 0, 0)
            if expr.span is not None:
                span = tvm.ir.base.SequentialSpan([span, expr.span])
            made = relay.expr.CallWithFields(made, None, None, None, None, None, span)
        new[key_of(expr)] = made
    result = mod.clone()
    body = new[key_of(main.body)]
    result.update_func(
        mod.get_global_var("main"), relay.function.FunctionWithFields(main, None, body)
    )
    return result


def node_of(expr: relay.Expr) -> int | None:
    """Return the node that an expression was stamped with; None for one that has none. What several
    nodes became is the last of them, which gives its result."""
    spans = [expr.span]
    while spans:
        span = spans.pop()
        if isinstance(span, tvm.ir.base.SequentialSpan):
            spans.extend(span.spans)
        elif span is not None and span.source_name.name == _SOURCE:
            return int(span.line)
    return None
