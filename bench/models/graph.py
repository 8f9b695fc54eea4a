# SPDX-License-Identifier: Apache-2.0
"""Write an ONNX graph layer by layer, with seeded random weights, as short as a paper's table.

Weights are scaled so that activations keep their size: neither infinite nor denormal. Shapes are
static; each output gets the shape that ONNX infers. Test: bench/test_models.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# Larger initializers are left out of shape inference: no shape depends on a weight.
_SHAPE_VALUES = 1024
# Initializers whose name begins so are no parameters: axes, masks, bounds.
CONSTANT = "constant"


class Tensor(NamedTuple):
    """A tensor by name, with its number of channels (of features in a sequence)."""

    name: str
    channels: int


class Graph:
    """A graph in the making; `dims` is the number of spatial dimensions of its convolutions."""

    def __init__(self, title: str, dims: int = 2, seed: int = 0) -> None:
        self.dims = dims
        self._title = title
        self._rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._weights: list[Any] = []

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> Tensor:
        """Add an input of the graph; its channels are the second dimension."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return Tensor(name, shape[1])

    def op(self, kind: str, *inputs: Tensor | str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node and return its output's name, or a list of them."""
        names = [item.name if isinstance(item, Tensor) else item for item in inputs]
        made = [f"{kind.lower()}_{len(self._nodes)}_{k}" for k in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, made, made[0], **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Add a value that is no parameter."""
        return self._initializer(CONSTANT, np.asarray(value, dtype))

    def normal(self, shape: Sequence[int], deviation: float) -> str:
        """Normal random weights around 0."""
        values = self._rng.standard_normal(tuple(shape), "float32")
        values *= np.float32(deviation)
        return self._initializer("weight", values)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> str:
        """Uniform random weights."""
        return self._initializer("weight", self._rng.uniform(low, high, shape).astype("float32"))

    def conv(
        self,
        data: Tensor,
        channels: int,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        pad: int | Sequence[int] | None = None,
        group: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Add a convolution; "same" padding (half the kernel) unless it is given."""
        kernel = self._each(kernel)
        pads = [k // 2 for k in kernel] if pad is None else self._each(pad)
        shape = (channels, data.channels // group, *kernel)
        weights = [self.normal(shape, math.sqrt(2 / math.prod(shape[1:])))]
        if bias:
            weights.append(self.normal((channels,), 0.1))
        name = self.op(
            "Conv",
            data,
            *weights,
            kernel_shape=kernel,
            strides=self._each(stride),
            pads=[*pads, *pads],
            group=group,
        )
        return Tensor(name, channels)

    def norm(self, data: Tensor, gain: float = 1.0, epsilon: float = 1e-5) -> Tensor:
        """Batch normalisation. Blocks that are added to others take a gain below 1."""
        shape = (data.channels,)
        statistics = [
            self.uniform(shape, 0.7 * gain, 1.3 * gain),
            self.normal(shape, 0.1),
            self.normal(shape, 0.1),
            self.uniform(shape, 0.7, 1.3),
        ]
        name = self.op("BatchNormalization", data, *statistics, epsilon=epsilon)
        return Tensor(name, data.channels)

    def relu(self, data: Tensor) -> Tensor:
        return Tensor(self.op("Relu", data), data.channels)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return Tensor(self.op("Add", a, b), a.channels)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """Along the channels."""
        return Tensor(self.op("Concat", *parts, axis=1), sum(part.channels for part in parts))

    def pool(
        self, kind: str, data: Tensor, kernel: int, stride: int, pad: int = 0, **attributes: Any
    ) -> Tensor:
        """Add a pool; `kind` is "Max" or "Average"."""
        name = self.op(
            f"{kind}Pool",
            data,
            kernel_shape=self._each(kernel),
            strides=self._each(stride),
            pads=self._each(pad) * 2,
            **attributes,
        )
        return Tensor(name, data.channels)

    def classify(self, data: Tensor, classes: int) -> Tensor:
        """Global average, then a dense layer: the end of most image nets."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", data))
        return self.dense(Tensor(flat, data.channels), classes)

    def dense(self, data: Tensor, units: int) -> Tensor:
        """Dense layer with bias of rows (batch, features)."""
        weight = self.normal((units, data.channels), math.sqrt(1 / data.channels))
        name = self.op("Gemm", data, weight, self.normal((units,), 0.1), transB=1)
        return Tensor(name, units)

    def model(self, *outputs: Tensor | str) -> onnx.ModelProto:
        """Make the model; its outputs are called output_0, output_1, ..."""
        names = {getattr(item, "name", item): f"output_{k}" for k, item in enumerate(outputs)}
        for node in self._nodes:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        made = list(names.values())
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made]
        graph = helper.make_graph(self._nodes, self._title, self._inputs, infos, self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        shapes = infer_shapes(model)
        for info in model.graph.output:
            shape = shapes[info.name]
            info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT, shape))
        return model

    def _each(self, value: int | Sequence[int]) -> list[int]:
        return [value] * self.dims if isinstance(value, int) else list(value)

    def _initializer(self, kind: str, values: np.ndarray) -> str:
        name = f"{kind}_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name


def infer_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Static shapes by tensor name; others are left out. The model is not changed.

    Weights become inputs for the inference, so that hundreds of megabytes are not copied.
    """
    graph = model.graph
    large = [item for item in graph.initializer if math.prod(item.dims) > _SHAPE_VALUES]
    small = [item for item in graph.initializer if math.prod(item.dims) <= _SHAPE_VALUES]
    names = {item.name for item in graph.initializer}
    inputs = [item for item in graph.input if item.name not in names]
    inputs += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in large]
    light = helper.make_model(
        helper.make_graph(graph.node, "shapes", inputs, graph.output, small),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )
    found = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    shapes = {item.name: tuple(item.dims) for item in graph.initializer}
    for info in [*found.input, *found.value_info, *found.output]:
        dims = info.type.tensor_type.shape.dim
        if info.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
            shapes[info.name] = tuple(d.dim_value for d in dims)
    return shapes
