# SPDX-License-Identifier: Apache-2.0
"""A random graph: nodes that know how they are written in Relay and what they must compute.

Same seed and profile, same graph. Test: backends/test_fuzz.py.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import tvm
from tvm import relay

from .values import FLOATS, Value, exact

Builder = Callable[..., relay.Expr]
Reference = Callable[..., Value]


@dataclasses.dataclass
class Node:
    """One operator call, or a leaf: `array` is an input's or a constant's."""

    op: str
    args: list[int]
    relay: Builder | None = None
    reference: Reference | None = None
    array: np.ndarray | None = None

    @property
    def is_leaf(self) -> bool:
        return self.array is not None


@dataclasses.dataclass
class Graph:
    """Nodes in the order of execution; `outputs` are indexes of nodes."""

    nodes: list[Node]
    outputs: list[int]

    def needed(self) -> list[int]:
        """The nodes that outputs depend on, in order."""
        found, waiting = set(), list(self.outputs)
        while waiting:
            index = waiting.pop()
            if index not in found:
                found.add(index)
                waiting += self.nodes[index].args
        return sorted(found)

    def calls(self) -> list[int]:
        """Those that are no leaves."""
        return [index for index in self.needed() if not self.nodes[index].is_leaf]

    def module(self) -> tvm.IRModule:
        """The typed module, its results a tuple."""
        exprs: dict[int, relay.Expr] = {}
        params = []
        for index in self.needed():
            node = self.nodes[index]
            if node.op == "input":
                array = node.array
                exprs[index] = relay.var(f"x{index}", shape=array.shape, dtype=str(array.dtype))
                params.append(exprs[index])
            elif node.is_leaf:
                exprs[index] = relay.const(node.array, str(node.array.dtype))
            else:
                exprs[index] = node.relay(*(exprs[arg] for arg in node.args))
        body = relay.Tuple([exprs[index] for index in self.outputs])
        mod = tvm.IRModule.from_expr(relay.Function(params, body))
        return relay.transform.InferType()(mod)

    def inputs(self) -> dict[str, np.ndarray]:
        return {
            f"x{index}": self.nodes[index].array
            for index in self.needed()
            if self.nodes[index].op == "input"
        }

    def reduced(self, outputs: list[int], cuts: Iterable[int]) -> "Graph":
        """Only these outputs, and inputs in place of the nodes in `cuts`."""
        wanted, nodes = self.wanted(), list(self.nodes)
        for index in cuts:
            if index in wanted and not nodes[index].is_leaf:
                nodes[index] = Node("input", [], array=wanted[index].array())
        return Graph(nodes, outputs)

    def wanted(self, winograd: bool = False) -> dict[int, Value]:
        """What each needed node must be; winograd: convolutions may use that algorithm."""
        values: dict[int, Value] = {}
        for index in self.needed():
            node = self.nodes[index]
            operands = [values[arg] for arg in node.args]
            values[index] = evaluate(node, operands, winograd)
        return values


def evaluate(node: Node, operands: list[Value], winograd: bool = False) -> Value:
    """What the node must be."""
    if node.is_leaf:
        return exact(node.array)
    more = {"winograd": True} if winograd and node.op in ("nn.conv2d", "nn.conv3d") else {}
    operands = [each.asked() for each in operands]
    with np.errstate(all="ignore"):
        value = node.reference(*operands, **more)
    assert value.error.shape == value.value.shape, node.op
    return value


class Grower:
    """Draws for the operators' makers, and holds what has been made."""

    def __init__(self, seed: int, has_specials: bool = False):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        # Infinities, NaN, denormals, large and small numbers in some of the inputs.
        self.has_specials = has_specials
        # What the next operator reads, if it can.
        self.next: int | None = None
        self.extents = [1, 2, 3, 4, 5, 7, 8, 9, 16]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def int(self, low: int, high: int) -> int:
        """Both ends are possible."""
        return int(self.rng.integers(low, high + 1))

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def pick(self, items):
        items = list(items)
        return items[self.int(0, len(items) - 1)]

    def shape(self, rank: int) -> list[int]:
        """Small extents, odd ones, ones, and some that fill a vector."""
        return [self.pick(self.extents) for _ in range(rank)]

    def input(self, shape, dtype: str = "float32") -> int:
        return self.input_of(self._array(shape, dtype))

    def input_of(self, array: np.ndarray) -> int:
        return self._leaf("input", array)

    def constant(self, array: np.ndarray) -> int:
        return self._leaf("constant", array)

    def weight(self, shape, scale: float = 1.0, dtype: str = "float32") -> int:
        """Mostly a constant, sometimes an input; finite."""
        array = (self.rng.standard_normal(shape) * scale).astype(dtype)
        return self._leaf("input" if self.chance(0.1) else "constant", array)

    def data(self, rank=None, dtype: str = "float32", most: int = 3000) -> int:
        """A recent value of that rank (or of one of these), or a new input."""
        ranks = [rank] if isinstance(rank, int) else list(rank or range(1, 7))
        if self.next is not None:
            following = self.values[self.next]
            if following.rank in ranks and following.dtype == dtype:
                return self.next
        fit = [
            index
            for index, value in enumerate(self.values)
            if value.rank in ranks
            and value.dtype == dtype
            and value.value.size <= most
            and self.nodes[index].op != "constant"
        ]
        if fit and self.chance(0.85):
            return fit[-1 - min(int(self.rng.exponential(1.0)), len(fit) - 1)]
        return self.input(self.shape(self.pick(ranks[:5])), dtype)

    def call(self, op: str, args, build: Builder, reference: Reference) -> int:
        """Add an operator; returns its index."""
        node = Node(op, list(args), build, reference)
        self.nodes.append(node)
        self.values.append(evaluate(node, [self.values[arg] for arg in args]))
        return len(self.nodes) - 1

    def value(self, index: int) -> Value:
        return self.values[index]

    def graph(self) -> Graph:
        """The graph of what has been made: results are what nobody reads, and some more."""
        read = {arg for node in self.nodes for arg in node.args}
        calls = [index for index, node in enumerate(self.nodes) if not node.is_leaf]
        outputs = [index for index in calls if index not in read or self.chance(0.1)]
        return Graph(self.nodes, outputs)

    def _leaf(self, op, array) -> int:
        self.nodes.append(Node(op, [], array=array))
        self.values.append(exact(array))
        return len(self.nodes) - 1

    def _array(self, shape, dtype) -> np.ndarray:
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype not in FLOATS:
            limits = np.iinfo(dtype)
            if dtype in ("int8", "uint8"):
                low, high = limits.min, limits.max
                if self.chance(0.3):  # nothing but the extremes
                    return self.rng.choice([low, high], shape).astype(dtype)
            else:
                low, high = -1000, 1000
            return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)
        values = self.rng.standard_normal(shape)
        if self.has_specials:
            values *= self.pick([1, 1, 1, 1e-3, 100.0, 1e15, 1e-15, 1e30, 1e-36])
            special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-42, 3e38, 1e-30, 88.0, -104.0]
            places = self.rng.random(shape) < self.pick([0, 0.02, 0.1])
            values = np.where(places, self.rng.choice(special, shape), values)
        elif self.chance(0.1):
            values = np.round(values)  # ties
        return values.astype(dtype)
