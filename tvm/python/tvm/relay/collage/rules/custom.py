# SPDX-License-Identifier: Apache-2.0
"""Rules written in Python (RFC 0062: users may bring their own): by a function of the graph, or by
what is asked of operators and of neighbours.

Test: rules/test_custom.py, backends/test_extend.py.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tvm import relay
from tvm._ffi import get_global_func

from ..options import CollageOptions
from ..process_wide.interrupts import carried
from ..views import DataflowGraph, Node, SubGraph
from .predicates import never_raises
from .rule import PartitionRule, check, check_function

_logger = logging.getLogger(__name__)

OpRule = Callable[[relay.Call], bool | str]
FusionRule = Callable[[relay.Call, relay.Call], bool | str]
Verify = Callable[[SubGraph], bool | str]


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


def PatternRule(
    name: str, op_rule: OpRule, fusion_rule: FusionRule | None = None, verify: Verify | None = None
) -> PartitionRule:
    """Give every connected set of calls that ``op_rule`` takes and ``fusion_rule`` joins.

    op_rule(call): may the operator be in a set at all? fusion_rule(upstream, downstream): may two
    such calls, of which the first feeds the second, be in one set? None: each call stands alone.
    verify(sub_graph): the last word on a set; None takes all. Each answers with a bool, or a text
    that says why not; what it raises means no. Sets are limited by the options ``byoc_max_depth``
    and ``max_candidates_per_node`` (of sets with one exit), which is logged when it cuts.
    """
    check("PatternRule", "name", name, str, "a str")
    if not callable(op_rule):
        raise TypeError(
            f"rule PatternRule: op_rule is a function of a call, got {type(op_rule).__name__}"
        )
    check_function("PatternRule", "fusion_rule", fusion_rule)
    check_function("PatternRule", "verify", verify)

    def find(graph: DataflowGraph) -> Iterator[SubGraph]:
        growth = _Growth(name, graph, op_rule, fusion_rule=fusion_rule)
        is_right = never_raises(f"{name}: verify", verify or (lambda sub_graph: True))
        for nodes in growth.sets():
            sub_graph = graph.sub_graph(sorted(nodes))
            if is_right(sub_graph):
                yield sub_graph

    return Custom(name, find)


class _Growth:
    """The sets of one graph. They grow upwards from the operator whose value is used outside, so
    each has one exit and no value is used both inside and outside."""

    def __init__(
        self, name: str, graph: DataflowGraph, op_rule: OpRule, fusion_rule: FusionRule | None
    ) -> None:
        options = CollageOptions.current().candidates
        self._max_depth, self._most = options.byoc_max_depth, options.max_per_node
        self._name, self._graph = name, graph
        self._joins: Any = fusion_rule and never_raises(f"{name}: fusion_rule", fusion_rule)
        takes = never_raises(f"{name}: op_rule", op_rule)
        self._nodes = {
            node.index: node
            for node in graph
            if node.op and node.is_placeable and takes(graph.expr(node.index))
        }
        self._answers: dict[tuple[int, int], bool] = {}

    def sets(self) -> Iterator[frozenset[int]]:
        for node in self._nodes.values():
            yield from self._sets_of(node)

    def _sets_of(self, exit_node: Node) -> list[frozenset[int]]:
        """Return the sets with that exit, small ones first."""
        depth = {exit_node.index: 1}
        found = [frozenset(depth)]
        known = set(found)
        for current in found:
            for index in self._neighbours(current, exit_node.scope):
                # All that read it are inside, in every set that holds it: so this depth is its own.
                depth[index] = 1 + max(depth[reader] for reader in self._nodes[index].outputs)
                larger = current | {index}
                if depth[index] > self._max_depth or larger in known:
                    continue
                if len(found) == self._most:
                    _logger.warning(
                        "rule %s: more than %d sets end at %s: the larger ones are left out "
                        "(option relay.collage.max_candidates_per_node)",
                        *(self._name, self._most, exit_node.Summary()),
                    )
                    return found
                known.add(larger)
                found.append(larger)
        return found

    def _neighbours(self, inside: frozenset[int], scope: int) -> list[int]:
        """Return the calls that feed the set, and nothing else, and may join all that they feed."""
        if self._joins is None:
            return []
        inputs = {index for node in inside for index in self._nodes[node].inputs}
        return sorted(
            index
            for index in inputs - inside
            if index in self._nodes
            and self._nodes[index].scope == scope
            and not self._nodes[index].is_result
            and all(
                reader in inside and self._may_join(index, reader)
                for reader in self._nodes[index].outputs
            )
        )

    def _may_join(self, upstream: int, downstream: int) -> bool:
        edge = (upstream, downstream)
        if edge not in self._answers:
            self._answers[edge] = self._joins(*map(self._graph.expr, edge))
        return self._answers[edge]
