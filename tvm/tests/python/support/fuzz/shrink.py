# SPDX-License-Identifier: Apache-2.0
"""The smallest part of a failing graph that still fails: fewer outputs, inputs for computed values.

Test: backends/test_fuzz.py.
"""

from collections.abc import Callable

from .graph import Graph


def shrink(graph: Graph, fails: Callable[[Graph], bool], suspects: list[int]) -> Graph:
    """A graph that fails as this one does. suspects: the outputs to begin with, if any."""
    smallest = graph
    for outputs in [[index] for index in (suspects or graph.outputs)]:
        candidate = graph.reduced(outputs, [])
        if fails(candidate):
            smallest = candidate
            break
    smallest = _earliest(smallest, fails)
    return _cut(smallest, fails)


def _earliest(graph: Graph, fails) -> Graph:
    """The earliest node that is wrong by itself as the only output."""
    for index in graph.calls():
        if [index] != graph.outputs:
            candidate = graph.reduced([index], [])
            if fails(candidate):
                return candidate
    return graph


def _cut(graph: Graph, fails) -> Graph:
    """Inputs in place of all that need not be computed: latest first, which cuts most off."""
    tried: set[int] = set()
    while True:
        rest = [i for i in reversed(graph.calls()) if i not in tried and i not in graph.outputs]
        if not rest:
            return graph
        tried.add(rest[0])
        if graph.wanted()[rest[0]].dtype == "bfloat16":  # no input has this type
            continue
        candidate = graph.reduced(graph.outputs, [rest[0]])
        if fails(candidate):
            graph = candidate
