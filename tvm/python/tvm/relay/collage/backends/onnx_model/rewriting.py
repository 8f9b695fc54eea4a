# SPDX-License-Identifier: Apache-2.0
"""Applies a table of rewrites to an ONNX graph until none applies.
Test: backends/onnx_model/test_rewrites.py.

A table maps an operator to rules, which are tried in order on each node of it. A rule is a function
of a Rewriting and a node; it looks at the old graph, adds nodes to the new one, and returns the new
value of the node's result, a list where it has several, or None where it does not apply. Rules may
thus only state what is equal, whatever else happens to the nodes that they look at: what nobody
uses any more is left out. Most rules are made by `rule` of what a node's inputs are made of.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .builder import GraphBuilder, OnnxNode, Value

# Against rules that undo each other; deep nets need fewer than ten.
_MOST_ROUNDS = 100
# Their two operands match in either order.
_COMMUTATIVE = frozenset(("Add", "Max", "Min", "Mul"))


class Known(NamedTuple):
    """A constant, whose elements a rule gets by this name."""

    name: str


class Number(NamedTuple):
    """A constant of one element, which a rule gets as a number by this name."""

    name: str


class Made:
    """A value that a node of one of some operators gives, whose first inputs match. A rule gets the
    node by the name. is_once: nobody else uses the value."""

    def __init__(
        self, operators: str, *inputs: Pattern, name: str = "", is_once: bool = False
    ) -> None:
        self.operators, self.inputs = operators.split(), inputs
        self.name, self.is_once = name, is_once


# Besides: a text is any value, by which name a rule gets the name of it; a number is a constant
# close to it; a list is one of its patterns. Things of one name are the same.
Pattern: TypeAlias = "Known | Number | Made | str | float | list[Pattern]"


class Rewriting:
    """One walk over a graph: `old` is read, `new` is written; values of the old graph are named."""

    def __init__(self, old: GraphBuilder, results: list[Value]) -> None:
        self.old, self.new = old, old.without_nodes()
        self.nodes = old.needed_nodes(results)
        self._now: dict[str, Value] = {}
        self._uses = Counter(value.name for value in results)
        self._uses.update(name for node in self.nodes for name in node.inputs)

    def __getitem__(self, name: str) -> Value:
        """Return what a value has become in the new graph: inputs and constants stay what they
        are."""
        return self._now[name] if name in self._now else self.old.value_of(name)

    def run(self, table: Table) -> bool:
        """Write the new graph; returns whether any rule applied."""
        applied = False
        for node in self.nodes:
            self.new.call = node.call  # what a rule makes of a node is of the same call
            answers = (rule(self, node) for rule in table.get(node.operator, ()))
            answer = next((value for value in answers if value is not None), None)
            applied |= answer is not None
            if answer is None:
                answer = self._copy(node)
            news = answer if isinstance(answer, list) else [answer]
            self._now.update((was.name, now) for was, now in zip(node.outputs, news, strict=True))
        return applied

    def shape(self, name: str) -> tuple[int, ...]:
        return self.old.value_of(name).shape

    def array(self, name: str) -> np.ndarray | None:
        """Return a constant's elements."""
        return self.old.array_of(self.old.value_of(name)) if name else None

    def number(self, name: str) -> float | None:
        """Return the number of a constant of one element."""
        array = self.array(name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None

    def made(self, name: str, *operators: str) -> OnnxNode | None:
        """Return the node that gives a value, if it is one of these operators."""
        node = self.old.producer(self.old.value_of(name)) if name else None
        return node if node is not None and node.operator in operators else None

    def made_once(self, name: str, *operators: str) -> OnnxNode | None:
        """Return the same where nobody else uses the value, so that the node can go."""
        return self.made(name, *operators) if self._uses[name] == 1 else None

    def matches(
        self, node: OnnxNode, patterns: Sequence[Pattern], found: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return what names of patterns are, for each way in which a node's inputs match them."""
        is_either = node.operator in _COMMUTATIVE
        ways = []
        for inputs in itertools.permutations(node.inputs) if is_either else [node.inputs]:
            some = [found]
            for pattern, name in zip(patterns, inputs):
                some = [more for each in some for more in self._matches(pattern, name, each)]
            ways += some
        return ways

    def _matches(
        self, pattern: Pattern, name: str, found: dict[str, Any]
    ) -> Iterable[dict[str, Any]]:
        value: Any = name
        match pattern:
            case list():
                return [way for each in pattern for way in self._matches(each, name, found)]
            case Made():
                value = (self.made_once if pattern.is_once else self.made)(name, *pattern.operators)
                if value is None or found.get(pattern.name, value) is not value:
                    return []
                named = {pattern.name: value} if pattern.name else {}
                return self.matches(value, pattern.inputs, {**found, **named})
            case str():
                return [{**found, pattern: name}] if found.get(pattern, name) == name else []
            case Known() | Number():
                value = self.array(name) if isinstance(pattern, Known) else self.number(name)
                return [] if value is None else [{**found, pattern.name: value}]
        number = self.number(name)
        return [found] if number is not None and math.isclose(number, pattern, rel_tol=1e-6) else []

    def node(self, operator: str, inputs: list[Value], shape: Sequence[int], **attrs: Any) -> Value:
        """Add a node to the new graph, whose result has the dtype of its first input."""
        return self.new.node(operator, inputs, shape, inputs[0].dtype, **attrs)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value of the new graph in another shape."""
        if tuple(shape) == value.shape:
            return value
        return self.node("Reshape", [value, self.new.ints(shape)], shape)

    def _copy(self, node: OnnxNode) -> list[Value]:
        inputs = [self[name] if name else None for name in node.inputs]
        types = [(value.shape, value.dtype) for value in node.outputs]
        return self.new.nodes(node.operator, inputs, types, **node.attrs)


Rule = Callable[[Rewriting, OnnxNode], "Value | list[Value] | None"]
Table = Mapping[str, Sequence[Rule]]


def rule(*patterns: Pattern) -> Callable[[Callable[[Rewriting, Any], Value | None]], Rule]:
    """Make a rule of a function that gets what the patterns of a node's inputs have found, and the
    `node`: each way in which they match, until it returns a value."""

    def make(build: Callable[[Rewriting, Any], Value | None]) -> Rule:
        @functools.wraps(build)
        def applied(walk: Rewriting, node: OnnxNode) -> Value | None:
            ways = walk.matches(node, patterns, {"node": node})
            values = (build(walk, SimpleNamespace(**way)) for way in ways)
            return next((value for value in values if value is not None), None)

        return applied

    return make


def rewritten(
    graph: GraphBuilder, results: list[Value], stages: Sequence[Table]
) -> tuple[GraphBuilder, list[Value]]:
    """Return an equal graph, to which no rule of the tables applies, and its results: one table
    after the other."""
    for table in stages:
        for _ in range(_MOST_ROUNDS):
            walk = Rewriting(graph, results)
            if not walk.run(table):
                break
            graph, results = walk.new, [walk[value.name] for value in results]
    return graph, results
