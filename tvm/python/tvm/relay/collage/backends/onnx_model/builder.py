# SPDX-License-Identifier: Apache-2.0
"""An ONNX graph under construction: values are names, equal nodes one.
Test: backends/onnx_model/test_export.py.

A value's name says which of the part's calls it is a step of, where that is known: libraries carry
names along, so that their profiles name calls.

Key of equal nodes: operator, inputs and attributes; all operators that we use are pure. Equal
constants are one too: weights that each step of a recurrence transposes by itself would otherwise
be in memory, and fight for the caches, once a step.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...ops.onnx_names import captured, renamed

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


# Operators whose axes are an input from version 18 on; until then we write them as an attribute.
_AXES_AS_INPUT = frozenset(
    f"Reduce{name}"
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
# What a node of the original model is called until the part is written.
_OPAQUE = "collage.Opaque"
# Bytes of a constant; most that are alike by chance, as shapes and scales, have fewer.
_LARGE = 1 << 12


@dataclasses.dataclass(frozen=True)
class OnnxNode:
    """An operator on values, "" for one that is left out, and what it gives."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[Value, ...]
    attrs: dict[str, Any]
    call: int | None = None  # which of the part's operator calls it is a step of

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of its first output."""
        return self.outputs[0].shape

    @property
    def opset(self) -> int:
        """Return the oldest version of ONNX, from OPSET on, that has it."""
        return int(self.attrs.get("opset", OPSET))

    def protos(self, opset: int) -> list[onnx.NodeProto]:
        """Return the nodes that it is in a version of ONNX."""
        outputs = [value.name for value in self.outputs]
        if self.operator == _OPAQUE:
            return self._opaque_protos(outputs)
        attrs, inputs = dict(self.attrs), self.inputs
        if opset < 18 or self.operator not in _AXES_AS_INPUT or "axes" not in attrs:
            return [helper.make_node(self.operator, inputs, outputs, name=outputs[0], **attrs)]
        axes = f"{outputs[0]}.axes"
        constant = helper.make_node("Constant", [], [axes], axes, value_ints=attrs.pop("axes"))
        node = helper.make_node(self.operator, [*inputs, axes], outputs, outputs[0], **attrs)
        return [constant, node]

    def _opaque_protos(self, outputs: Sequence[str]) -> list[onnx.NodeProto]:
        graph = onnx.ModelProto.FromString(bytes.fromhex(self.attrs["model"])).graph
        names = [value.name for value in (*graph.input, *graph.initializer)]
        new = dict(zip(names, self.inputs, strict=True))
        new.update(zip((value.name for value in graph.output), outputs, strict=True))
        nodes = [
            renamed(node, lambda name: new.get(name, f"{outputs[0]}.{name}")) for node in graph.node
        ]
        for place, node in enumerate(nodes):
            node.name = f"{outputs[0]}.{place}"
        return nodes


class GraphBuilder:
    """Nodes, constants and inputs, added in the order of execution."""

    def __init__(self) -> None:
        self._nodes: list[OnnxNode] = []
        self._node_of: dict[str, OnnxNode] = {}
        self._made_by: dict[str, OnnxNode] = {}
        self._values: dict[str, Value] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._equal_constants: dict[tuple, Value] = {}
        self.input_values: list[Value] = []
        # Which of the part's operator calls nodes that are added now are steps of.
        self.call: int | None = None

    def value_of(self, name: str) -> Value:
        """Return an input, a constant or the result of a node by its name."""
        return self._values[name]

    def input(self, shape: Sequence[int], dtype: str) -> Value:
        """Add an input of the model."""
        value = Value(f"input_{len(self.input_values)}", tuple(shape), dtype)
        self.input_values.append(value)
        self._values[value.name] = value
        return value

    def without_nodes(self) -> GraphBuilder:
        """Return a graph of the same inputs and constants."""
        graph = GraphBuilder()
        graph.input_values = self.input_values
        graph._constants, graph._equal_constants = self._constants, self._equal_constants
        graph._values = {
            name: self._values[name] for name in self._values if name not in self._made_by
        }
        return graph

    def constant(self, array: Any) -> Value:
        """Add a constant (an array, or what numpy makes one of), or find it."""
        array = np.asarray(array)
        key = _key(array)
        if key not in self._equal_constants:
            name = f"const_{len(self._constants)}"
            self._constants[name] = array
            self._equal_constants[key] = Value(name, array.shape, str(array.dtype))
        value = self._equal_constants[key]
        self._values[value.name] = value
        return value

    def scalar(self, number: Any, like: Value) -> Value:
        """Add a constant of rank 0 with the dtype of another value."""
        return self.constant(np.array(number, like.dtype))

    def ints(self, numbers: Iterable[int]) -> Value:
        """Add a constant vector of int64, as ONNX has shapes, axes and pads."""
        return self.constant(np.array(list(numbers), "int64"))

    def array_of(self, value: Value) -> np.ndarray | None:
        """Return a constant's elements; None for other values."""
        return self._constants.get(value.name)

    def producer(self, value: Value) -> OnnxNode | None:
        """Return the node that computes a value; None for inputs and constants."""
        return self._made_by.get(value.name)

    def node(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: str,
        **attrs: Any,
    ) -> Value:
        """Add a node with one result of that shape and dtype; None as an input leaves it out."""
        return self.nodes(operator, inputs, [(shape, dtype)], **attrs)[0]

    def nodes(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        types: Iterable[tuple[Sequence[int], str]],
        **attrs: Any,
    ) -> list[Value]:
        """Add a node with results of those (shape, dtype)."""
        names = tuple(value.name if value is not None else "" for value in inputs)
        key = json.dumps([operator, names, sorted(attrs.items())])
        if key not in self._node_of:
            first = len(self._made_by)
            suffix = "" if self.call is None else f".call_{self.call}"
            outputs = tuple(
                Value(f"value_{first + i}{suffix}", tuple(shape), dtype)
                for i, (shape, dtype) in enumerate(types)
            )
            node = OnnxNode(operator, names, outputs, attrs=attrs, call=self.call)
            self._nodes.append(node)
            self._node_of[key] = node
            for value in outputs:
                self._made_by[value.name] = node
                self._values[value.name] = value
        return list(self._node_of[key].outputs)

    def opaque(
        self,
        model: onnx.ModelProto,
        inputs: Sequence[Value],
        types: Iterable[tuple[Sequence[int], str]],
        opset: int,
    ) -> list[Value]:
        """Add the nodes of a model; `inputs` are its inputs, then its constants. `opset` is the
        oldest version from OPSET on that has them."""
        text = model.SerializeToString(deterministic=True).hex()
        others = [[each.domain, each.version] for each in model.opset_import if each.domain]
        return self.nodes(_OPAQUE, inputs, types, model=text, opset=opset, others=others)

    def needed_nodes(self, results: list[Value]) -> list[OnnxNode]:
        """Return the nodes that these values are computed by, in order."""
        kept, names = [], {value.name for value in results}
        for node in reversed(self._nodes):
            if any(value.name in names for value in node.outputs):
                kept.append(node)
                names.update(node.inputs)
        return kept[::-1]

    def model(self, results: list[Value]) -> onnx.ModelProto:
        """Return the model with these results, named output_0, output_1, ...; unused nodes go."""
        named = [dataclasses.replace(value, name=f"output_{i}") for i, value in enumerate(results)]
        needed = self.needed_nodes(results)
        opset = max((node.opset for node in needed), default=OPSET)
        nodes = [proto for node in needed for proto in node.protos(opset)]
        for value, output in zip(results, named):
            nodes.append(helper.make_node("Identity", [value.name], [output.name], output.name))
        used = {name for node in nodes for name in (*node.input, *captured(node))}
        graph = helper.make_graph(
            nodes,
            "collage",
            [_info(value) for value in self.input_values],
            [_info(value) for value in named],
        )
        domains = dict(each for node in needed for each in node.attrs.get("others", ()))
        opsets = [helper.make_opsetid(*each) for each in [("", opset), *domains.items()]]
        model = helper.make_model(graph, opset_imports=opsets)
        for name, array in self._constants.items():
            if name in used:
                _add_weight(model.graph, name, array)
        model.ir_version = max(IR_VERSION, helper.find_min_ir_version_for(opsets, True))
        return model


def _key(array: np.ndarray) -> tuple:
    """Return a key that is equal for small arrays of equal elements, bit for bit, and for large
    ones that lie in the same memory.

    The graph keeps the memory of all that have a key. To lay out and hash weights in each step that
    turns them takes longer than all else. A view that repeats one element stands for weights that
    nobody looks at, and counts as that one.
    """
    kind = array.shape, str(array.dtype)
    is_repeated = array.ndim > 0 and not any(array.strides)
    if array.nbytes > _LARGE and not is_repeated:
        return *kind, array.strides, array.__array_interface__["data"][0]
    content = np.ascontiguousarray(array.reshape(-1)[:1] if is_repeated else array)
    digest = hashlib.sha256(content).digest()  # type: ignore[arg-type]
    return *kind, is_repeated, digest


def _add_weight(graph: onnx.GraphProto, name: str, array: np.ndarray) -> None:
    """Add a constant to the model's graph, where it is filled: a tensor that is made apart is
    copied."""
    if array.dtype.kind not in "iuf" or sys.byteorder != "little":
        graph.initializer.append(numpy_helper.from_array(array, name))
        return
    tensor = graph.initializer.add()
    tensor.name, tensor.data_type = name, helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.dims.extend(array.shape)
    tensor.raw_data = array.tobytes()


def _info(value: Any) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, kind, value.shape)
