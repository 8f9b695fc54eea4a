# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and products of Relay in ONNX. Test: backends/onnx_model/test_export.py.

ONNX has one layout, NC and then the axes of space; others get transposes around the node, which the
runtimes move or drop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ints import pads_of, per_axis
from .builder import Value
from .call import SPACE, ExportedCall


def _conv(call: ExportedCall, axes: int, is_transposed: bool = False) -> Value:
    attrs = call.attrs
    data, weight = call.factors()
    layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    plain = "NC" + SPACE[axes]
    wanted = ("IO" if is_transposed else "OI") + SPACE[axes]
    call.require(sorted(layout) == sorted(plain), "data_layout", layout)
    call.require(sorted(kernel_layout) == sorted(wanted), "kernel_layout", kernel_layout)
    call.require(str(attrs.out_layout) in ("", layout), "out_layout", attrs.out_layout)
    kernel = call.in_layout(weight, kernel_layout, wanted)
    groups = int(attrs.groups)
    if is_transposed:
        call.require(groups == 1, "groups", groups)
        # In NC.. TVM reads the weights as IO.., whatever the letters say.
        named = layout != plain or kernel_layout == wanted
        call.require(named, "kernel_layout", kernel_layout)
    else:
        # A depthwise layer of m results a channel has (C, m, ..) or (C * m, 1, ..): one order.
        channels = call.shape[layout.index("C")]
        each = data.shape[layout.index("C")] // groups
        kernel = call.reshaped(kernel, [channels, each, *kernel.shape[2:]])
    fields = {
        "strides": per_axis(attrs.strides, axes),
        "dilations": per_axis(attrs.dilation, axes),
        "pads": pads_of(attrs.padding, axes),
        "group": groups,
        "kernel_shape": list(kernel.shape[2:]),
    }
    if is_transposed:
        fields["output_padding"] = per_axis(attrs.output_padding, axes)
    operator = "ConvTranspose" if is_transposed else "Conv"
    inputs = [call.in_layout(data, layout, plain), kernel]
    return call.result_in(layout, operator, inputs, **fields)


def _pool(call: ExportedCall, axes: int, operator: str) -> Value:
    attrs = call.attrs
    layout, data = call.image(axes)
    call.require(str(attrs.out_layout) in ("", layout), "out_layout", attrs.out_layout)
    fields: dict[str, Any] = {
        "kernel_shape": per_axis(attrs.pool_size, axes),
        "strides": per_axis(attrs.strides, axes),
        "pads": pads_of(attrs.padding, axes),
        "ceil_mode": int(attrs.ceil_mode),
    }
    wanted = call.plain_shape(layout)[2:]
    dilation = per_axis(attrs.dilation, axes)
    if operator == "MaxPool":
        fields["dilations"] = dilation
    else:
        call.require(all(step == 1 for step in dilation), "dilation", dilation)
        fields["count_include_pad"] = int(attrs.count_include_pad)
        _pad_for_last_windows(call, fields, data.shape[2:], wanted=wanted)
    fits = all(pad < size for pad, size in zip(fields["pads"], fields["kernel_shape"] * 2))
    call.require(fits, "padding", fields["pads"])
    # Relay keeps a last window that lies beyond the image, where runtimes drop it.
    places = zip(wanted, fields["strides"], data.shape[2:], fields["pads"])
    inside = all((count - 1) * stride < size + pad for count, stride, size, pad in places)
    call.require(inside, "ceil_mode", attrs.ceil_mode)
    return call.result_in(layout, operator, [data], **fields)


def _pad_for_last_windows(
    call: ExportedCall, fields: dict[str, Any], sizes: Sequence[int], wanted: Sequence[int]
) -> None:
    """Writes ceil_mode of an average pool as padding, which counts nowhere: runtimes count cells
    beyond it differently. Mostly no window ends there, as in nets that halve even sizes so."""
    pads, windows, strides = fields["pads"], fields["kernel_shape"], fields["strides"]
    for axis, (count, size) in enumerate(zip(wanted, sizes, strict=True)):
        after = axis + len(wanted)
        end = (count - 1) * strides[axis] + windows[axis]
        beyond = end - (pads[axis] + size + pads[after])
        if fields["ceil_mode"] and beyond > 0:
            call.require(not fields["count_include_pad"], "ceil_mode", fields["ceil_mode"])
            pads[after] += beyond
    fields["ceil_mode"] = 0


def _global_pool(call: ExportedCall, operator: str) -> Value:
    layout, data = call.image()
    return call.result_in(layout, operator, [data])


def _adaptive_pool(call: ExportedCall, axes: int, operator: str) -> Value:
    """Pool to a given size, where every window has the same size."""
    layout, data = call.image(axes)
    wanted, sizes = call.plain_shape(layout)[2:], list(data.shape[2:])
    even = all(size % part == 0 for size, part in zip(sizes, wanted))
    call.require(even, "output_size", wanted)
    if all(part == 1 for part in wanted):
        return call.result_in(layout, f"Global{operator}", [data])
    window = [size // part for size, part in zip(sizes, wanted)]
    return call.result_in(layout, operator, [data], kernel_shape=window, strides=window)


def _dense(call: ExportedCall) -> Value:
    data, weight = call.factors()
    return call.result("MatMul", [data, call.transposed(weight, [1, 0])])


def _matmul(call: ExportedCall) -> Value:
    attrs = call.attrs
    operands = []
    for value, is_transposed in zip(call.factors(), (attrs.transpose_a, attrs.transpose_b)):
        *axes, row, column = range(value.rank)
        order = [*axes, column, row] if is_transposed else [*axes, row, column]
        operands.append(call.transposed(value, order))
    return call.result("MatMul", operands)


def _bias_add(call: ExportedCall) -> Value:
    call.require_floats()
    data, bias = call.values
    shape = [1] * data.rank
    shape[int(call.attrs.axis) % data.rank] = bias.shape[0]
    return call.result("Add", [data, call.reshaped(bias, shape)])


def _by_axes(name: str, converter: Callable[..., Any], *rest: Any) -> dict[str, Callable[..., Any]]:
    """Return the entries for an op with a number in its name: nn.conv{}d -> nn.conv1d, ..."""
    return {
        name.format(axes): lambda call, axes=axes: converter(call, axes, *rest) for axes in SPACE
    }


# Relay op -> function of an ExportedCall that adds its nodes and returns the result.
NN = {
    **_by_axes("nn.conv{}d", _conv),
    **_by_axes("nn.conv{}d_transpose", _conv, True),
    **_by_axes("nn.max_pool{}d", _pool, "MaxPool"),
    **_by_axes("nn.avg_pool{}d", _pool, "AveragePool"),
    **_by_axes("nn.adaptive_avg_pool{}d", _adaptive_pool, "AveragePool"),
    **_by_axes("nn.adaptive_max_pool{}d", _adaptive_pool, "MaxPool"),
    "nn.global_avg_pool2d": lambda call: _global_pool(call, "GlobalAveragePool"),
    "nn.global_max_pool2d": lambda call: _global_pool(call, "GlobalMaxPool"),
    "nn.batch_matmul": _matmul,
    "nn.bias_add": _bias_add,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
}
