# SPDX-License-Identifier: Apache-2.0
"""Any image net in 8 bits (QDQ, as quantisers write it), in float16, any net in bfloat16. Test:
test_low_precision.py.

The weights are random, so nothing is said of a classifier's accuracy: these nets are there to run
the operators, and to compare outputs with onnxruntime's on the same model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .count import infer_shapes
from .net import Net, random_inputs
from .relay_import import MIXED_PRECISION

# Seven bits: without VNNI onnxruntime adds pairs of products of 8 bits in 16, which overflows.
_MOST_WEIGHT = 63
LOW_PRECISION = ("int8", "fp16", "bf16")


def in_low_precision(net: Net, kind: str) -> Net:
    """The net in one of LOW_PRECISION, called "<net>_<kind>"; ranges are those of random inputs."""

    def build(batch: int) -> onnx.ModelProto:
        model = net.build(batch)
        if kind == "int8":
            return quantise(model, random_inputs(net, model))
        return halve(model) if kind == "fp16" else in_bfloat16(model)

    return dataclasses.replace(net, name=f"{net.name}_{kind}", build=build)


def quantise(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with each activation in uint8 and the weights of Conv and Gemm in int8.

    Ranges are those of a run on `inputs` in onnxruntime. Batch norms behind convolutions are folded
    into these first. Activations have a scale and a zero point a tensor, weights a scale a channel,
    biases are int32.
    """
    folded = _without_norms(model)
    ranges = _ranges(folded, inputs)
    graph = folded.graph
    weights = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    scales = {name: _activation_scale(low, high) for name, (low, high) in ranges.items()}
    made = _Quantised(weights, scales)
    results = {info.name for info in graph.output}
    for info in graph.input:
        made.round_activation(info.name, info.name)
    for node in graph.node:
        made.add(node, results)
    return _model(folded, made.nodes, made.initializers, graph.input, graph.output)


def halve(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float16 inside; its inputs and outputs stay float32."""
    graph = model.graph
    floats = {info.name for info in graph.input if _element_type(info) == TensorProto.FLOAT}
    results = {info.name for info in graph.output}
    nodes = [
        helper.make_node("Cast", [name], [f"{name}_half"], to=TensorProto.FLOAT16)
        for name in sorted(floats)
    ]
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [f"{name}_half" if name in floats else name for name in node.input]
        copy.output[:] = [f"{name}_half" if name in results else name for name in node.output]
        nodes.append(copy)
    nodes += [
        helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT)
        for name in sorted(results)
    ]
    weights = [_half(item) for item in graph.initializer]
    return _model(model, nodes, weights, graph.input, graph.output)


def in_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in float32, as onnxruntime's CPU provider has no bfloat16, marked for to_relay,
    which has TVM's ToMixedPrecision make it."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    helper.set_model_props(marked, {MIXED_PRECISION: "bfloat16"})
    return marked


class _Quantised:
    """Nodes and initializers of a quantised graph, in the making."""

    def __init__(self, weights: dict[str, np.ndarray], scales: dict[str, tuple[float, int]]):
        self._weights, self._scales = weights, scales
        self.nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._read_as: dict[str, str] = {}  # tensor -> what reads it takes instead

    def add(self, node: onnx.NodeProto, results: set[str]) -> None:
        """The node on rounded operands, and its result rounded."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self._read_as.get(name, name) for name in node.input]
        if node.op_type in ("Conv", "Gemm"):
            self._round_weights(node, copy)
        else:
            for name in node.input:
                if name in self._weights:
                    self.constant(name, self._weights[name])
        (output,) = node.output
        copy.output[:] = [f"{output}_exact"]
        self.nodes.append(copy)
        self.round_activation(f"{output}_exact", output, output in results)

    def round_activation(self, exact: str, name: str, is_result: bool = False) -> None:
        """Rounds `exact`; whoever reads `name` gets it rounded."""
        scale, zero = self._scales[name]
        rounded = name if is_result else f"{name}_rounded"
        self._pair(exact, rounded, np.float32(scale), np.uint8(zero))
        self._read_as[name] = rounded

    def _pair(self, exact: str, rounded: str, scale: Any, zero: Any) -> None:
        inner = [self.constant(f"{rounded}_scale", scale), self.constant(f"{rounded}_zero", zero)]
        self.nodes.append(
            helper.make_node("QuantizeLinear", [exact, *inner], [f"{rounded}_8bit"]),
        )
        self.nodes.append(
            helper.make_node("DequantizeLinear", [f"{rounded}_8bit", *inner], [rounded])
        )

    def _round_weights(self, node: onnx.NodeProto, copy: onnx.NodeProto) -> None:
        """The weights as int8, one scale a channel of the output (axis 0), the bias as int32."""
        name = node.input[1]
        weight = self._weights[name]
        largest = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
        scale = (np.maximum(largest, 1e-8) / _MOST_WEIGHT).astype("float32")
        per_row = scale.reshape(-1, *[1] * (weight.ndim - 1))
        copy.input[1] = self._constant_in_integers(name, np.rint(weight / per_row), "int8", scale)
        if len(node.input) > 2:
            bias = self._weights[node.input[2]]
            scale = scale * np.float32(self._scales[node.input[0]][0])
            rounded = np.rint(bias / scale)
            copy.input[2] = self._constant_in_integers(node.input[2], rounded, "int32", scale)

    def _constant_in_integers(self, name: str, values: Any, dtype: str, scale: Any) -> str:
        inner = [
            self.constant(f"{name}_integers", values.astype(dtype)),
            self.constant(f"{name}_scale", scale),
            self.constant(f"{name}_zero", np.zeros(len(scale), dtype)),
        ]
        self.nodes.append(helper.make_node("DequantizeLinear", inner, [f"{name}_floats"], axis=0))
        return f"{name}_floats"

    def constant(self, name: str, values: Any) -> str:
        self._constants[name] = numpy_helper.from_array(np.asarray(values), name)
        return name

    @property
    def initializers(self) -> list[Any]:
        return list(self._constants.values())


def _without_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """Batch norms that follow a convolution alone become its weights and bias."""
    graph = model.graph
    weights = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    nodes: list[Any] = []
    for node in graph.node:
        before = makers.get(node.input[0])
        if node.op_type != "BatchNormalization" or before is None or before.op_type != "Conv":
            nodes.append(node)
            continue
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        gain, shift, mean, variance = (weights[name] for name in node.input[1:5])
        factor = gain / np.sqrt(variance + np.float32(epsilon))
        kernel = weights[before.input[1]]
        bias = weights[before.input[2]] if len(before.input) > 2 else np.zeros_like(shift)
        names = [f"{node.name}_weight", f"{node.name}_bias"]
        weights[names[0]] = kernel * factor.reshape(-1, *[1] * (kernel.ndim - 1))
        weights[names[1]] = shift + (bias - mean) * factor
        merged = onnx.NodeProto()
        merged.CopyFrom(before)
        merged.input[:] = [before.input[0], *names]
        merged.output[:] = node.output
        nodes[nodes.index(before)] = merged
    used = {name for node in nodes for name in node.input}
    kept = [numpy_helper.from_array(w, name) for name, w in weights.items() if name in used]
    return _model(model, nodes, kept, graph.input, graph.output)


def _ranges(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The least and greatest value of each activation, zero with them."""
    import onnxruntime

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    shapes = infer_shapes(model)
    del shown.graph.output[:]
    names = [name for node in model.graph.node for name in node.output]
    shown.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names
    )
    session = onnxruntime.InferenceSession(
        shown.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = {**inputs, **dict(zip(names, session.run(names, dict(inputs)), strict=True))}
    return {k: (min(0.0, float(v.min())), max(0.0, float(v.max()))) for k, v in values.items()}


def _activation_scale(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point of uint8."""
    scale = max(high - low, 1e-6) / 255
    return scale, int(np.clip(np.rint(-low / scale), 0, 255))


def _half(item: onnx.TensorProto) -> onnx.TensorProto:
    if item.data_type != TensorProto.FLOAT:
        return item
    return numpy_helper.from_array(numpy_helper.to_array(item).astype("float16"), item.name)


def _element_type(info: onnx.ValueInfoProto) -> int:
    return info.type.tensor_type.elem_type


def _model(like: onnx.ModelProto, nodes: Any, weights: Any, inputs: Any, outputs: Any) -> Any:
    graph = helper.make_graph(nodes, like.graph.name, inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=like.opset_import, ir_version=like.ir_version)
    onnx.checker.check_model(made)
    return made
