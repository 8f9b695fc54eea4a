# SPDX-License-Identifier: Apache-2.0
"""A quantised ONNX model whose layers can each stay in float: which layers there are, the model
with some of them in 8 bits, and one with switches for the precision of each.

A layer is a convolution or a product. Where it stays in float, its operands are those of the float
model again: values before they were quantised, weights as they were. Other operators that read
quantised values (an addition, a pool) do so as long as a layer in 8 bits reads the same values.
Precondition: nodes of both models give values of the same names, and the quantised one has all
nodes of the float one. Test: precision/test_layers.py.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import onnx
from onnx import TensorProto, helper

from ..ops.onnx_names import captured

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"
# Operators of models that compute in fewer bits by themselves.
_QUANTISED = {
    *(_QUANTISE, _DEQUANTISE, "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QGemm"),
    *("ConvInteger", "MatMulInteger", "MatMulNBits"),
}
# Operators that leave numbers as they are: what reads their results reads quantised ones.
_MOVES = (
    *("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split"),
    *("Gather", "Concat", "Identity", "DepthToSpace", "SpaceToDepth", "Expand", "Pad", "Tile"),
)
_FLOAT, _SWITCH = "collage_float_", "collage_switch_"
INT8 = "int8"
# Shorter floats that a switch can round to, by the names that backends have of them.
SHORT_FLOATS = {"bfloat16": TensorProto.BFLOAT16, "float16": TensorProto.FLOAT16}
# Operands of a layer that are multiplied: its bias is added in more bits.
_MULTIPLIED = 2


@dataclasses.dataclass(frozen=True)
class Layer:
    """A convolution or a product."""

    name: str  # the value that it gives, which no other one does
    op: str


@dataclasses.dataclass(frozen=True)
class _Operand:
    """An operand of a node that is another one in the float model."""

    node: int  # in the quantised model
    place: int
    quantised: str
    float: str


@dataclasses.dataclass(frozen=True)
class _Switch:
    """Operands that are quantised together: always (`layers` empty: as long as all layers are), or
    as long as one of the layers is."""

    operands: tuple[_Operand, ...]
    layers: frozenset[str]

    def is_on(self, chosen: Collection[str], is_all: bool) -> bool:
        return not self.layers.isdisjoint(chosen) if self.layers else is_all


class _Forms:
    """A layer of the quantised model that computes in the precision of the switches that are on, by
    branches of which one runs."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self._node = node
        self._plain, self._quantised = list(node.input), list(node.input)
        self._bytes = self._short = ""  # switches
        self._to: int = TensorProto.FLOAT
        self._is_constant: Callable[[str], bool] = bool

    def add_bytes(self, switch: str, place: int, of_float: str) -> None:
        """Have an operand be the one of the float model unless that switch is on."""
        self._bytes = switch
        self._plain[place] = of_float

    def add_short(self, switch: str, to: int, constants: Callable[[str], bool]) -> None:
        """Have what is multiplied be rounded to short floats where that switch is on and no other;
        `constants`: which names are weights."""
        self._short, self._to, self._is_constant = switch, to, constants

    def nodes(self) -> list[onnx.NodeProto]:
        """Return the nodes that stand for it. Weights are rounded outside of branches, once."""
        outside: list[onnx.NodeProto] = []
        branch = [self._computed(self._plain)]
        if self._short:
            inside: list[onnx.NodeProto] = []
            rounded = list(self._plain)
            for place, name in enumerate(self._plain[:_MULTIPLIED]):
                where = outside if self._is_constant(name) else inside
                rounded[place] = self._rounded(name, place, where)
            branch = [self._chosen(self._short, [*inside, self._computed(rounded)], branch)]
        if self._bytes:
            branch = [self._chosen(self._bytes, [self._computed(self._quantised)], branch)]
        return [*outside, *branch]

    def _rounded(self, name: str, place: int, nodes: list[onnx.NodeProto]) -> str:
        short, result = (f"{_SWITCH}{kind}_{place}_{self._result}" for kind in ("short", "rounded"))
        nodes.append(helper.make_node("Cast", [name], [short], to=self._to))
        nodes.append(helper.make_node("Cast", [short], [result], to=TensorProto.FLOAT))
        return result

    def _computed(self, inputs: list[str]) -> onnx.NodeProto:
        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        del node.input[:]
        node.input.extend(inputs)
        return node

    def _chosen(
        self, switch: str, then: list[onnx.NodeProto], otherwise: list[onnx.NodeProto]
    ) -> onnx.NodeProto:
        """Return the node that runs one of two branches, whose last nodes give the layer's value.
        A value has one name in one place."""
        graphs = []
        for kind, nodes in (("then", then), ("else", otherwise)):
            result = f"{_SWITCH}{kind}_{switch}"
            last = onnx.NodeProto()
            last.CopyFrom(nodes[-1])
            last.output[0] = result
            value = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
            graphs.append(helper.make_graph([*nodes[:-1], last], result, [], [value]))
        branches = dict(zip(("then_branch", "else_branch"), graphs, strict=True))
        return helper.make_node("If", [switch], [self._result], **branches)

    @property
    def _result(self) -> str:
        return str(self._node.output[0])


class Quantised:
    """Both forms of a model."""

    def __init__(self, model: onnx.ModelProto, quantised: onnx.ModelProto) -> None:
        self._model, self._quantised = model, quantised
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._changed, self._missing = self._compared_weights()
        self._givers = {name: n for n in quantised.graph.node for name in n.output}
        self._operands = self._different_operands()
        self._readers = self._layers_by_value()
        nodes = quantised.graph.node
        self.layers = [
            Layer(nodes[node].output[0], nodes[node].op_type) for node in self._nodes_of_layers()
        ]
        self._switches = self._find_switches()

    def model_with(self, chosen: Collection[str]) -> onnx.ModelProto:
        """Return the model with the layers of these names in 8 bits and all others in float.
        ValueError for a name that no layer has."""
        self._check(chosen)
        made = onnx.ModelProto()
        made.CopyFrom(self._quantised)
        is_all = 0 < len(set(chosen)) == len(self.layers)
        used = set()
        for switch in self._switches:
            if not switch.is_on(chosen, is_all):
                for operand in switch.operands:
                    made.graph.node[operand.node].input[operand.place] = operand.float
                    used.add(operand.float)
        made.graph.initializer.extend(self._float_weights(used))
        _remove_unused(made.graph)
        return made

    def switched(self, short: str = "") -> tuple[onnx.ModelProto, list[str]]:
        """Return the model with inputs of one bool each, by which parts of it change from float32
        to 8 bits, and layers to the `short` floats of that name, if any; and the names of these
        inputs, in the order of `states`. A layer computes in one precision alone: all of them take
        far longer."""
        made = onnx.ModelProto()
        made.CopyFrom(self._quantised)
        graph = made.graph
        names: list[str] = []

        def new_switch() -> str:
            names.append(f"{_SWITCH}{len(names)}")
            graph.input.append(helper.make_tensor_value_info(names[-1], TensorProto.BOOL, []))
            return names[-1]

        layers = self._nodes_of_layers()
        forms = {node: _Forms(graph.node[node]) for node in layers}
        for node in layers if short else ():
            forms[node].add_short(new_switch(), SHORT_FLOATS[short], constants=self._is_constant)
        before: defaultdict[int, list[onnx.NodeProto]] = defaultdict(list)
        for each in self._switches:
            switch = new_switch()
            for operand in each.operands:
                node, place = operand.node, operand.place
                if node in forms:
                    forms[node].add_bytes(switch, place, of_float=operand.float)
                    continue
                value = f"{_SWITCH}value_{node}_{place}"
                given = [switch, operand.quantised, operand.float]
                before[node].append(helper.make_node("Where", given, [value]))
                graph.node[node].input[place] = value
        nodes = [
            each
            for index, node in enumerate(graph.node)
            for each in (*before[index], *(forms[index].nodes() if index in forms else [node]))
        ]
        floats = {o.float for each in self._switches for o in each.operands}
        graph.initializer.extend(self._float_weights(floats))
        ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(ordered)
        return made, names

    def _is_constant(self, name: str) -> bool:
        return name.removeprefix(_FLOAT) in self._weights

    def states(self, chosen: Mapping[str, str], short: str = "") -> list[bool]:
        """Return the states of the inputs of `switched` with the layers of these names in these
        precisions, and all others in float32."""
        bytes_of = [name for name, precision in chosen.items() if precision == INT8]
        self._check(chosen)
        is_all = 0 < len(bytes_of) == len(self.layers)
        shorts = [chosen.get(layer.name) == short for layer in self.layers] if short else []
        return [*shorts, *(switch.is_on(bytes_of, is_all) for switch in self._switches)]

    def _nodes_of_layers(self) -> list[int]:
        """Return the nodes that read quantised values, through others that move them as well."""
        readers = set().union(*self._readers.values())
        return [
            index
            for index, node in enumerate(self._quantised.graph.node)
            if node.op_type in _LAYERS and (index in self._operands or node.output[0] in readers)
        ]

    def _check(self, chosen: Collection[str]) -> None:
        if others := set(chosen) - {layer.name for layer in self.layers}:
            raise ValueError(f"no layer is called {sorted(others)[0]!r}")

    def _compared_weights(self) -> tuple[set[str], set[str]]:
        """Return the names of weights of the float model by which the quantised one has others, as
        biases that were corrected, and those of weights that it has no more."""
        own = {tensor.name: tensor for tensor in self._quantised.graph.initializer}
        changed = {
            name
            for name, tensor in self._weights.items()
            if name in own and own[name].SerializeToString() != tensor.SerializeToString()
        }
        return changed, self._weights.keys() - own.keys()

    def _different_operands(self) -> dict[int, list[_Operand]]:
        """Return the operands that differ by node of the quantised model, in order."""
        of_float = {result_of(node): node for node in self._model.graph.node}
        found: dict[int, list[_Operand]] = {}
        for index, node in enumerate(self._quantised.graph.node):
            original = of_float.get(result_of(node))
            if original is None or node.op_type != original.op_type:
                continue
            operands = [
                _Operand(index, place, own, self._float_name(was))
                for place, (own, was) in enumerate(zip(node.input, original.input, strict=False))
                if own != self._float_name(was)
            ]
            if operands:
                found[index] = operands
        return found

    def _float_name(self, name: str) -> str:
        return f"{_FLOAT}{name}" if name in self._changed else name

    def _float_weights(self, names: Iterable[str]) -> list[TensorProto]:
        found = []
        for name in sorted(set(names)):
            plain = name.removeprefix(_FLOAT)
            if name in self._missing or (plain != name and plain in self._changed):
                tensor = TensorProto()
                tensor.CopyFrom(self._weights[plain])
                tensor.name = name
                found.append(tensor)
        return found

    def _find_switches(self) -> list[_Switch]:
        found = []
        for index, operands in self._operands.items():
            node = self._quantised.graph.node[index]
            if node.op_type in _LAYERS:
                found.append(_Switch(tuple(operands), frozenset([node.output[0]])))
                continue
            for operand in operands:
                value = self._quantised_value(operand.quantised)
                found.append(_Switch((operand,), frozenset(self._readers.get(value, ()))))
        return found

    def _layers_by_value(self) -> dict[str, set[str]]:
        """Return the layers that read each quantised value, by the value of 8 bits."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        holds: dict[
            str, str
        ] = {}  # by value in float: the one of 8 bits that it has the numbers of
        for node in self._quantised.graph.node:
            if node.op_type == _DEQUANTISE:
                holds[node.output[0]] = node.input[0]
            elif node.op_type in _LAYERS:
                for name in node.input:
                    if name in holds:
                        found[holds[name]].add(node.output[0])
            elif node.op_type in _MOVES and node.input and node.input[0] in holds:
                holds.update(dict.fromkeys(node.output, holds[node.input[0]]))
        return found

    def _quantised_value(self, name: str) -> str:
        giver = self._givers.get(name)
        is_pair = giver is not None and giver.op_type == _DEQUANTISE
        return giver.input[0] if giver is not None and is_pair else name


def is_quantised(model: onnx.ModelProto) -> bool:
    """Return whether a model computes in 8 bits by itself."""
    return bool(_QUANTISED & {node.op_type for node in _all_nodes(model.graph)})


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of those inside its nodes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _all_nodes(inner)


def result_of(node: onnx.NodeProto) -> str:
    """Return the first value that a node gives, by which it is known; others may be left out."""
    return next(filter(None, node.output), "")


def _remove_unused(graph: onnx.GraphProto) -> None:
    """Remove nodes and weights that no output needs."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(filter(None, node.output)):
            kept.append(node)
            needed.update(node.input)
            needed.update(captured(node))
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, values in (("node", kept[::-1]), ("initializer", weights)):
        copies = [type(each).FromString(each.SerializeToString()) for each in values]
        del getattr(graph, field)[:]
        getattr(graph, field).extend(copies)
