# SPDX-License-Identifier: Apache-2.0
"""An ONNX model with static shapes as a torch.fx graph, for PyTorch's compiler.

Only what the nets of bench/models use, in fp32; anything else is a ValueError that names it.
Test: bench/test_peers.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_MAX_POOL = {2: functional.max_pool2d, 3: functional.max_pool3d}


def to_torch(model: onnx.ModelProto) -> torch.fx.GraphModule:
    """A module that takes the inputs in their order and answers a tuple of the outputs."""
    graph = torch.fx.Graph()
    root = torch.nn.Module()
    values: dict[str, Any] = {}  # nodes of the graph by tensor name
    numbers: dict[str, Any] = {}  # initializers as arrays: shapes and axes are read from them
    for index, item in enumerate(model.graph.initializer):
        numbers[item.name] = numpy_helper.to_array(item)
        tensor = torch.from_numpy(numbers[item.name].copy())
        root.register_buffer(f"weight_{index}", tensor)
        values[item.name] = graph.get_attr(f"weight_{index}")
    for index, item in enumerate(model.graph.input):
        if item.name not in values:
            values[item.name] = graph.placeholder(f"input_{index}")
    for node in model.graph.node:
        if node.op_type not in _OPS:
            raise ValueError(f"no PyTorch form of the ONNX operator {node.op_type} is known here")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        constants = [numbers.get(name) for name in node.input]
        function, args, keywords = _OPS[node.op_type](inputs, constants, attributes)
        made = graph.call_function(function, tuple(args), keywords)
        if len(node.output) == 1:
            values[node.output[0]] = made
        else:
            for k, name in enumerate(node.output):
                values[name] = graph.call_function(operator.getitem, (made, k))
    graph.output(tuple(values[item.name] for item in model.graph.output))
    return torch.fx.GraphModule(root, graph).eval()


def _plain(function: Callable, **keywords: Any) -> Callable:
    """An operator whose inputs are the function's arguments."""
    return lambda inputs, constants, attributes: (function, inputs, keywords)


def _both_sides(pads: list[int]) -> list[int]:
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        raise ValueError(f"padding {pads} differs at the two ends")
    return pads[:half]


def _conv(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    dims = len(a["kernel_shape"])
    bias = inputs[2] if len(inputs) > 2 else None
    padding, strides = _both_sides(a.get("pads", [0] * 2 * dims)), a.get("strides", [1] * dims)
    keywords = {"stride": strides, "padding": padding, "groups": a.get("group", 1)}
    keywords["dilation"] = a.get("dilations", [1] * dims)
    return _CONV[dims], [inputs[0], inputs[1], bias], keywords


def _conv_transpose(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    keywords = {"stride": a["strides"], "padding": _both_sides(a["pads"])}
    return functional.conv_transpose2d, inputs, keywords


def _batch_norm(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    data, weight, bias, mean, variance = inputs
    keywords = {"weight": weight, "bias": bias, "eps": a.get("epsilon", 1e-5)}
    return functional.batch_norm, [data, mean, variance], keywords


def _max_pool(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    kernel = a["kernel_shape"]
    return (
        _MAX_POOL[len(kernel)],
        [inputs[0], kernel],
        {"stride": a["strides"], "padding": _both_sides(a["pads"])},
    )


def _average_pool(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    keywords = {"stride": a["strides"], "padding": _both_sides(a["pads"])}
    keywords["count_include_pad"] = bool(a.get("count_include_pad", 0))
    return functional.avg_pool2d, [inputs[0], a["kernel_shape"]], keywords


def _global_average(data: torch.Tensor) -> torch.Tensor:
    return data.mean(dim=tuple(range(2, data.dim())), keepdim=True)


def _gemm(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    if a != {"transB": 1}:
        raise ValueError(f"Gemm with {a} is not known here")
    return functional.linear, inputs, {}


def _layer_norm(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    shape = list(constants[1].shape)
    return functional.layer_norm, [inputs[0], shape, *inputs[1:], a["epsilon"]], {}


def _gather(data: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    chosen = torch.index_select(data, axis, indices.reshape(-1))
    return chosen.reshape(*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])


def _slice(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    starts, ends, axes = (item.tolist() for item in constants[1:4])

    def cut(data: torch.Tensor) -> torch.Tensor:
        index = [slice(None)] * data.dim()
        for start, end, axis in zip(starts, ends, axes, strict=True):
            index[axis] = slice(start, end)
        return data[tuple(index)]

    return cut, [inputs[0]], {}


def _pad(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    pads = constants[1].tolist()
    half = len(pads) // 2
    # PyTorch begins with the last dimension.
    flat = [side for k in reversed(range(half)) for side in (pads[k], pads[half + k])]
    return functional.pad, [inputs[0], flat], {}


def _clip(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    # As numbers: Inductor fails on bounds that are constant tensors.
    bounds = [None if item is None else item.item() for item in (*constants[1:], None, None)[:2]]
    return torch.clamp, [inputs[0], *bounds], {}


def _resize(inputs: Any, constants: Any, a: dict[str, Any]) -> Any:
    return functional.interpolate, [inputs[0]], {"scale_factor": constants[2].tolist()[2:]}


def _numbers(function: Callable) -> Callable:
    """An operator whose second input is a list of numbers."""
    return lambda inputs, constants, a: (function, [inputs[0], constants[1].tolist()], {})


def _with_axis(function: Callable, name: str, default: int, key: str = "dim") -> Callable:
    return lambda inputs, constants, a: (function, inputs, {key: a.get(name, default)})


def _unsqueeze(data: torch.Tensor, axes: list[int]) -> torch.Tensor:
    for axis in axes:
        data = data.unsqueeze(axis)
    return data


_OPS: dict[str, Callable] = {
    "Add": _plain(torch.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _plain(torch.Tensor.float),
    "Clip": _clip,
    "Concat": lambda inputs, constants, a: (torch.cat, [inputs, a["axis"]], {}),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Div": _plain(torch.div),
    "Erf": _plain(torch.erf),
    "Expand": _numbers(torch.broadcast_to),
    "Flatten": _plain(torch.flatten, start_dim=1),
    "Gather": _with_axis(_gather, "axis", 0, "axis"),
    "Gemm": _gemm,
    "GlobalAveragePool": _plain(_global_average),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda inputs, constants, a: (functional.leaky_relu, [*inputs, a["alpha"]], {}),
    "MatMul": _plain(torch.matmul),
    "MaxPool": _max_pool,
    "Mul": _plain(torch.mul),
    "Pad": _pad,
    "Pow": _plain(torch.pow),
    "Relu": _plain(torch.relu),
    "Reshape": _numbers(torch.reshape),
    "Resize": _resize,
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": _with_axis(torch.softmax, "axis", -1),
    "Split": lambda inputs, constants, a: (
        torch.split,
        [inputs[0], constants[1].tolist()],
        {"dim": a["axis"]},
    ),
    "Sub": _plain(torch.sub),
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda inputs, constants, a: (torch.permute, [inputs[0], a["perm"]], {}),
    "Unsqueeze": _numbers(_unsqueeze),
}
