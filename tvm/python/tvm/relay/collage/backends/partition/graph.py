# SPDX-License-Identifier: Apache-2.0
"""A partition as a flat list of operations over numbered tensors.

The same structure serves twice: first with Relay's ops (flatten.py), then with a library's
primitives (each backend's lower.py), so that each step of a codegen is a function from graph to
graph. Test: backends/dnnl/test_codegen.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm

from ...exec.arrays import numbers_of

# Axes that a tensor may have: what libraries know.
MAX_RANK = 6


@dataclass
class PostOp:
    """Something done to a primitive's result before it is stored; `input` is a tensor or -1."""

    kind: str
    alpha: float = 0.0
    beta: float = 0.0
    input: int = -1


@dataclass
class Operation:
    """One operation."""

    op: str
    inputs: list[int]
    output: int
    attrs: Any = None  # Relay's attributes before lowering; after it the primitive's
    post_ops: list[PostOp] = field(default_factory=list)
    # whether it stays in the type that it has, where the others are computed in fewer bits
    is_kept: bool = False

    def operands(self) -> list[int]:
        """Return the tensors that the node reads."""
        return self.inputs + [post.input for post in self.post_ops if post.input >= 0]


@dataclass
class Graph:
    """Nodes in execution order."""

    backend: str  # whom errors name
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # by tensor
    dtypes: list[str] = field(default_factory=list)  # by tensor
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    constants: dict = field(default_factory=dict)  # tensor -> NDArray
    nodes: list[Operation] = field(default_factory=list)
    one_thread: bool = False  # whether all of it runs on the calling one
    # tensor -> which of the function's operator calls gives it, by that call's place among them
    calls: dict[int, int] = field(default_factory=dict)

    def new_tensor(self, shape: Sequence[int], dtype: str = "float32") -> int:
        """Add a tensor and return its number."""
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype)
        return len(self.shapes) - 1

    def new_constant(self, array: tvm.nd.NDArray) -> int:
        """Add a constant (an NDArray) and return its tensor."""
        tensor = self.new_tensor(array.shape, str(array.dtype))
        self.constants[tensor] = array
        return tensor

    def flattened(self, tensor: int) -> int:
        """Return a tensor of one axis with the same numbers: itself, or a constant's copy."""
        if len(self.shapes[tensor]) == 1:
            return tensor
        array = self.constants[tensor]
        return self.new_constant(reshaped(array, (math.prod(array.shape),)))

    def scalar(self, tensor: int) -> float | None:
        """Return the value of a constant of one element, or None."""
        array = self.constants.get(tensor)
        if array is None or any(extent != 1 for extent in array.shape):
            return None
        return float(numbers_of(array).reshape(()))

    def users(self) -> dict[int, list[Operation]]:
        """Return the nodes that read each tensor."""
        users: dict[int, list[Operation]] = {}
        for node in self.nodes:
            for tensor in node.operands():
                users.setdefault(tensor, []).append(node)
        return users

    def calls_of_nodes(self) -> list[int | None]:
        """Return the call that each node's result is of: what a lowering made on the way to a
        call's result is that call's. None where the graph knows no call."""
        found: dict[int, int] = {}  # by tensor, of those that are read
        calls = []
        for node in reversed(self.nodes):
            call = self.calls.get(node.output, found.get(node.output))
            calls.append(call)
            if call is not None:
                found.update(dict.fromkeys(node.operands(), call))
        return calls[::-1]

    def remove_unused(self) -> None:
        """Drop nodes whose result nobody reads, and constants likewise."""
        needed = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if node.output in needed:
                kept.append(node)
                needed.update(node.operands())
        self.nodes = kept[::-1]
        self.constants = {t: a for t, a in self.constants.items() if t in needed}


def reshaped(array: tvm.nd.NDArray, shape: Sequence[int]) -> tvm.nd.NDArray:
    """Return a copy of an NDArray in another shape."""
    bits = array.numpy()
    return tvm.nd.empty(shape, array.dtype).copyfrom(bits.reshape(shape))
