# SPDX-License-Identifier: Apache-2.0
"""In which order the axes of each tensor lie in memory: images with their channels last.

Every node is arranged to read and write tensors as they lie, so that one is transposed only where
a node, or a caller, needs another order than it was made in: mostly at the borders of the part. A
transpose of the model is another name for the same memory.
Test: backends/xnnpack/test_axis_orders.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

from ...exec.arrays import numbers_of
from ..partition.graph import Graph, Operation

# `order[i]` is the axis that lies at place i.
Order = tuple[int, ...]


def arrange(graph: Graph) -> Graph:
    """Return the graph with shapes and axes as tensors lie in memory, and transposes between;
    inputs and outputs lie as callers have them."""
    return _Arranger(graph).run()


class _Arranger:
    def __init__(self, graph: Graph) -> None:
        self._given, self._made = graph, Graph(graph.backend)
        # By tensor of the given graph: its tensors of the new one, the first as it was made.
        self._forms: dict[int, dict[Order, int]] = {}

    def run(self) -> Graph:
        given, made = self._given, self._made
        for tensor in given.inputs:
            made.inputs.append(self._new(tensor, _plain(self._rank(tensor))))
        for tensor, array in given.constants.items():
            self._forms[tensor] = {_plain(self._rank(tensor)): made.new_constant(array)}
        for node in given.nodes:
            if node.op == "transpose":
                self._rename(node)
            else:
                _ARRANGE.get(node.op, _plainly)(self, node)
        made.outputs = [self.read(tensor) for tensor in given.outputs]
        made.remove_unused()
        return made

    def order_of(self, tensor: int) -> Order:
        """Return the order in which a tensor was made."""
        return next(iter(self._forms[tensor]))

    def read(self, tensor: int, order: Order | None = None) -> int:
        """Return the tensor in that order, by default the caller's, transposed if need be."""
        order = order or _plain(self._rank(tensor))
        forms = self._forms[tensor]
        if order not in forms:
            source = self.order_of(tensor)
            axes = [source.index(axis) for axis in order]
            if tensor in self._given.constants:
                array = numbers_of(self._given.constants[tensor]).transpose(order)
                array = tvm.nd.array(np.ascontiguousarray(array))
                forms[order] = self._made.new_constant(array)
            else:
                result = self._new(tensor, order)
                self._add(Operation("transpose", [forms[source]], result, attrs=_ints(axes=axes)))
        return forms[order]

    def read_beside(self, tensor: int, rank: int, order: Order) -> int:
        """Return an operand that broadcasts to a tensor of that rank, which lies in that order."""
        shape = self._given.shapes[tensor]
        if order == _plain(rank) or all(extent == 1 for extent in shape):
            return self.read(tensor)
        if len(shape) == rank:
            return self.read(tensor, order)
        lines = (1,) * (rank - len(shape)) + tuple(shape)
        if tensor in self._given.constants:
            array = numbers_of(self._given.constants[tensor]).reshape(lines).transpose(order)
            return self._made.new_constant(tvm.nd.array(np.ascontiguousarray(array)))
        whole = self._made.new_tensor(lines)
        self._add(Operation("reshape", [self.read(tensor)], whole, attrs={}))
        moved = self._made.new_tensor([lines[axis] for axis in order])
        self._add(Operation("transpose", [whole], moved, attrs=_ints(axes=list(order))))
        return moved

    def write(self, node: Operation, inputs: list[int], order: Order, **ints: list[int]) -> None:
        """Add a node that reads these and whose result lies in that order; `ints` take the place of
        attributes of that name."""
        attrs = {**node.attrs}
        if ints:
            attrs["ints"] = {**attrs.get("ints", {}), **ints}
        result = self._new(node.output, order)
        self._add(dataclasses.replace(node, inputs=inputs, output=result, attrs=attrs))

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self._given.shapes[tensor]

    def _rank(self, tensor: int) -> int:
        return len(self._given.shapes[tensor])

    def _new(self, tensor: int, order: Order) -> int:
        made = self._made.new_tensor([self.shape(tensor)[axis] for axis in order])
        self._forms.setdefault(tensor, {})[order] = made
        if (call := self._given.calls.get(tensor)) is not None:
            self._made.calls[made] = call
        return made

    def _add(self, node: Operation) -> None:
        self._made.nodes.append(node)

    def _rename(self, node: Operation) -> None:
        """Give the result of a transpose the memory of what it reads."""
        axes = node.attrs["ints"]["axes"]
        renamed = {axis: i for i, axis in enumerate(axes)}
        forms = self._forms[node.inputs[0]]
        self._forms[node.output] = {
            tuple(renamed[axis] for axis in order): made for order, made in forms.items()
        }


def _plain(rank: int) -> Order:
    return tuple(range(rank))


def _ints(**values: list[int]) -> dict[str, Any]:
    return {"ints": values}


def _plainly(to: _Arranger, node: Operation) -> None:
    """Arrange a node that wants its operands as callers have them."""
    rank = len(to.shape(node.output))
    to.write(node, [to.read(tensor) for tensor in node.inputs], _plain(rank))


def _image(to: _Arranger, node: Operation) -> None:
    """Arrange a node whose windows slide over an image; weights and bias stay as they are."""
    layout = node.attrs["strings"]["layout"]
    order = tuple(layout.index(letter) for letter in "NHWC")
    data, *others = node.inputs
    to.write(node, [to.read(data, order), *map(to.read, others)], order)


def _elementwise(to: _Arranger, node: Operation) -> None:
    """Arrange a node by the order of an operand as large as the result."""
    shape = to.shape(node.output)
    large = [tensor for tensor in node.inputs if to.shape(tensor) == shape]
    orders = [to.order_of(tensor) for tensor in large]
    # An order that was chosen is that of more nodes than the caller's.
    order = next((each for each in orders if each != _plain(len(shape))), _plain(len(shape)))
    inputs = [to.read_beside(tensor, len(shape), order) for tensor in node.inputs]
    to.write(node, inputs, order)


def _concat(to: _Arranger, node: Operation) -> None:
    plain = _plain(len(to.shape(node.output)))
    order = next((o for o in map(to.order_of, node.inputs) if o != plain), plain)
    (axis,) = node.attrs["ints"]["axis"]
    inputs = [to.read(tensor, order) for tensor in node.inputs]
    to.write(node, inputs, order, axis=[order.index(axis)])


def _box(*names: str) -> Callable[[_Arranger, Operation], None]:
    """Return what arranges a node whose attributes of these names have a number for each axis."""

    def arrange(to: _Arranger, node: Operation) -> None:
        (source,) = node.inputs
        order = to.order_of(source)
        ints = node.attrs["ints"]
        moved = {name: [ints[name][axis] for axis in order] for name in names}
        to.write(node, [to.read(source, order)], order, **moved)

    return arrange


def _softmax(to: _Arranger, node: Operation) -> None:
    """Arrange a node along one axis, which is the last one in memory."""
    (source,), (axis,) = node.inputs, node.attrs["ints"]["axis"]
    order = to.order_of(source)
    if order[-1] != axis:
        order = (*(each for each in order if each != axis), axis)
    to.write(dataclasses.replace(node, attrs={}), [to.read(source, order)], order)


def _mean(to: _Arranger, node: Operation) -> None:
    (source,) = node.inputs
    ints = node.attrs["ints"]
    order = to.order_of(source)
    axes = sorted(order.index(axis) for axis in ints["axes"])
    result = order
    if not ints["keep_dims"][0]:
        kept = [axis for axis in order if axis not in ints["axes"]]
        result = tuple(sorted(kept).index(axis) for axis in kept)
    to.write(node, [to.read(source, order)], result, axes=axes)


def _reshape(to: _Arranger, node: Operation) -> None:
    """Arrange a reshape: one of an image of a single pixel needs no transpose."""
    (source,) = node.inputs
    shape, order = to.shape(source), to.order_of(source)
    long = [axis for axis in order if shape[axis] > 1]
    lies_so = order if long == sorted(long) else _plain(len(shape))
    to.write(node, [to.read(source, lies_so)], _plain(len(to.shape(node.output))))


_ELEMENTWISE = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "prelu", "clamp", "elu"),
    *("leaky_relu", "ceil", "floor", "gelu", "hardswish"),
    *("sigmoid", "square", "tanh"),
)
# Others are arranged plainly.
_ARRANGE: dict[str, Callable[[_Arranger, Operation], None]] = {
    **dict.fromkeys(("conv", "deconv", "pool"), _image),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "concat": _concat,
    "slice": _box("begin"),
    "pad": _box("before", "behind"),
    "softmax": _softmax,
    "mean": _mean,
    "reshape": _reshape,
}
