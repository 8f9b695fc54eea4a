# SPDX-License-Identifier: Apache-2.0
"""An ONNX graph under construction: values are names, equal nodes one. Test: test_onnx_export.py.

Key of that: operator, inputs and attributes; all operators that we use are pure. Equal constants
are one too: weights that each step of a recurrence transposes by itself would otherwise be in
memory, and fight for the caches, once a step.
"""

import dataclasses
import hashlib
import json

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17
# Runtimes refuse files of a newer format than they know; 8 came with opset 17.
IR_VERSION = 8


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph: its name, static shape and numpy dtype name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)


class GraphBuilder:
    """Nodes, constants and inputs, added in the order of execution."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._outputs_of: dict[str, list[str]] = {}
        self._made_by: dict[str, onnx.NodeProto] = {}
        self._values: dict[str, Value] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._equal_constants: dict[tuple, Value] = {}
        self.input_values: list[Value] = []

    def value_of(self, name: str) -> Value:
        """Return the result of a node by its name."""
        return self._values[name]

    def input(self, shape, dtype: str) -> Value:
        """Add an input of the model."""
        value = Value(f"input_{len(self.input_values)}", tuple(shape), dtype)
        self.input_values.append(value)
        return value

    def constant(self, array) -> Value:
        """Add a constant (an array, or what numpy makes one of), or find it."""
        array = np.asarray(array)
        key = _key(array)
        if key not in self._equal_constants:
            name = f"const_{len(self._constants)}"
            self._constants[name] = array
            self._equal_constants[key] = Value(name, array.shape, str(array.dtype))
        return self._equal_constants[key]

    def scalar(self, number, like: Value) -> Value:
        """Add a constant of rank 0 with the dtype of another value."""
        return self.constant(np.array(number, like.dtype))

    def ints(self, numbers) -> Value:
        """Add a constant vector of int64, as ONNX has shapes, axes and pads."""
        return self.constant(np.array(list(numbers), "int64"))

    def array_of(self, value: Value) -> np.ndarray | None:
        """Return a constant's elements; None for other values."""
        return self._constants.get(value.name)

    def producer(self, value: Value) -> onnx.NodeProto | None:
        """Return the node that computes a value; None for inputs and constants."""
        return self._made_by.get(value.name)

    def node(self, operator: str, inputs: list[Value], shape, dtype: str, **attrs) -> Value:
        """Add a node with one result of that shape and dtype; None as an input leaves it out."""
        return self.nodes(operator, inputs, [(shape, dtype)], **attrs)[0]

    def nodes(self, operator, inputs, types, **attrs) -> list[Value]:
        """Add a node with results of those (shape, dtype)."""
        names = [value.name if value is not None else "" for value in inputs]
        key = json.dumps([operator, names, sorted(attrs.items())])
        if key not in self._outputs_of:
            outputs = [f"value_{len(self._made_by) + i}" for i in range(len(types))]
            node = helper.make_node(operator, names, outputs, **attrs)
            self._nodes.append(node)
            self._outputs_of[key] = outputs
            self._made_by.update((name, node) for name in outputs)
            typed = zip(outputs, types)
            self._values.update((n, Value(n, tuple(shape), dtype)) for n, (shape, dtype) in typed)
        return [self._values[name] for name in self._outputs_of[key]]

    def model(self, outputs: list[Value]) -> onnx.ModelProto:
        """Return the model with these results, named output_0, output_1, ...; unused nodes go."""
        named = []
        for index, value in enumerate(outputs):
            name = f"output_{index}"
            self._nodes.append(helper.make_node("Identity", [value.name], [name]))
            named.append(dataclasses.replace(value, name=name))
        nodes, used = self._needed({value.name for value in named})
        graph = helper.make_graph(
            nodes,
            "collage",
            [_info(value) for value in self.input_values],
            [_info(value) for value in named],
            [numpy_helper.from_array(a, n) for n, a in self._constants.items() if n in used],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        return model

    def _needed(self, names):
        kept = []
        for node in reversed(self._nodes):
            if names.intersection(node.output):
                kept.append(node)
                names.update(node.input)
        return kept[::-1], names


def _key(array):
    """Equal for arrays of equal elements, bit for bit. A view that repeats one element stands for
    weights that nobody looks at, and may be large: its elements are not written out."""
    is_repeated = array.ndim > 0 and not any(array.strides)
    content = np.ascontiguousarray(array.reshape(-1)[:1] if is_repeated else array)
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return array.shape, str(array.dtype), is_repeated, digest


def _info(value):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, kind, value.shape)
