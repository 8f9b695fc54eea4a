# SPDX-License-Identifier: Apache-2.0
"""Some calls of a larger module as if they were a partition of their own: what predicates ask.

Precondition: types are inferred.
Test: backends/dnnl/test_patterns.py, backends/blas/test_patterns.py.
"""

from collections.abc import Callable, Iterable

from tvm import relay

from ..errors import UnsupportedOpError
from ..walk import key_of
from .flatten import Flattener, add_input
from .graph import Graph


def flatten_calls(backend: str, root, calls: list) -> Graph:
    """Return the graph of these calls, of which root is the result.

    All that they read and that is neither a constant nor one of them is an input.
    UnsupportedOpError as from flatten().
    """
    graph = Graph(backend)
    inside = {key_of(call) for call in calls}
    scope = {}
    for call in calls:
        for argument in _operands(call):
            key = key_of(argument)
            is_known = key in inside or key in scope
            if not is_known and not isinstance(argument, relay.Constant):
                scope[key] = add_input(graph, argument.checked_type, "an operand")
    graph.outputs = [Flattener(graph).run(root, scope)]
    return graph


def _operands(call):
    """Return the arguments, those of tuples one by one."""
    for argument in call.args:
        yield from argument.fields if isinstance(argument, relay.Tuple) else [argument]


def takes_any(chains: Iterable[list], is_one_primitive: Callable[[list], bool]) -> bool | str:
    """Answer as a predicate does: True if one of these lists of calls is one primitive.

    Otherwise the reason: the last UnsupportedOpError of is_one_primitive, if there was any.
    """
    reason = "its calls are not one primitive of the library"
    try:
        for calls in chains:
            try:
                if is_one_primitive(calls):
                    return True
            except UnsupportedOpError as error:
                reason = str(error)
    except UnsupportedOpError as error:  # while chains were looked for
        reason = str(error)
    return reason
