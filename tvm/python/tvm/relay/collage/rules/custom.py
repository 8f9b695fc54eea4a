# SPDX-License-Identifier: Apache-2.0
"""Rules written in Python (RFC 0062: users may bring their own). Test: rules/test_custom.py."""

import logging
import operator
from collections.abc import Callable, Iterable

from tvm._ffi import get_global_func

from ..process_wide.interrupts import carried
from ..views import DataflowGraph, SubGraph
from .rule import PartitionRule, check

_logger = logging.getLogger(__name__)


def Custom(
    name: str, find: Callable[[DataflowGraph], Iterable[SubGraph | Iterable[int]]]
) -> PartitionRule:
    """Make a rule of one's own: ``find`` looks at a function's graph and gives what could be
    candidates.

    Each is a set of node indexes, or a ``graph.sub_graph(indexes, composites={label: indexes})``.
    One that is not convex, or crosses a function's border, is refused. What ``find`` raises is a
    refusal too, with a warning: the rule then gives nothing. TypeError or ValueError, naming rule
    and backend, when it gives anything else. Wrap the rule in ``Primitive`` for a backend that
    compiles its parts.
    """
    check("Custom", "name", name, str, "a str")
    if not callable(find):
        raise TypeError(f"rule Custom: find is a function, got {type(find).__name__}")

    @carried
    def ask(graph: DataflowGraph, backend: str) -> list[SubGraph] | str:
        whose = f"rule {name} of backend {backend}"
        try:
            found = find(graph)
            if isinstance(found, Iterable) and not isinstance(found, str):
                found = list(found)  # a generator raises only now
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code may raise
            _logger.warning("%s gives no candidates: it raised %r", whose, error)
            return f"unsupported: it raised {error!r}"
        if not isinstance(found, list):
            raise TypeError(f"{whose} gave {found!r}: give a list of candidates, empty for none")
        return [_sub_graph(graph, whose, item) for item in found]

    return get_global_func("collage.rules.Custom")(name, ask)


def _sub_graph(graph: DataflowGraph, whose: str, item: SubGraph | Iterable[int]) -> SubGraph:
    if isinstance(item, SubGraph):
        return item
    if isinstance(item, str) or not isinstance(item, Iterable):
        raise TypeError(f"{whose} gave {item!r}: a candidate is a set of ints or a SubGraph")
    nodes = [_node(whose, node) for node in item]
    try:
        return graph.sub_graph(nodes)
    except ValueError as error:
        raise ValueError(f"{whose}: {error}") from None


def _node(whose: str, node: int) -> int:
    """Return it as an int; NumPy's integers are nodes too, booleans are none."""
    try:
        if not isinstance(node, bool):
            return operator.index(node)
    except TypeError:
        pass
    raise TypeError(f"{whose} gave {node!r} as a node: nodes are ints")
