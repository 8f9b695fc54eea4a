# SPDX-License-Identifier: Apache-2.0
"""Ops of Relay that move, select and join elements, in ONNX.
Test: backends/onnx_model/test_export.py."""

from __future__ import annotations

import numpy as np

from ..ints import ints_of
from .builder import Value
from .call import NUMBERS, ExportedCall
from .nearest import nearest_mode


def _reshape(call: ExportedCall) -> Value:
    """Convert an op that keeps the elements in order: its result's shape is known."""
    return call.reshaped(call.values[0], call.shape)


def _transpose(call: ExportedCall) -> Value:
    (data,) = call.values
    axes = [axis % data.rank for axis in ints_of(call.attrs.axes)]
    return call.transposed(data, axes or list(range(data.rank))[::-1])


def _concatenate(call: ExportedCall) -> Value:
    return _joined(call, list(call.values[0]), int(call.attrs.axis) % len(call.shape))


def _joined(call: ExportedCall, values: list[Value], axis: int) -> Value:
    """Join axes; the last one is written as -1, by which OpenVINO knows a rotary embedding."""
    return call.result("Concat", values, axis=-1 if axis == len(call.shape) - 1 else axis)


def _stack(call: ExportedCall) -> Value:
    axis = int(call.attrs.axis) % len(call.shape)
    shape = [1 if i == axis else extent for i, extent in enumerate(call.shape)]
    values = [call.reshaped(value, shape) for value in call.values[0]]
    return _joined(call, values, axis)


def _split(call: ExportedCall) -> list[Value]:
    (data,) = call.values
    axis = int(call.attrs.axis) % data.rank
    sizes = call.graph.ints(shape[axis] for shape, _ in call.results)
    return call.graph.nodes("Split", [data, sizes], call.results, axis=axis)


def _pad(call: ExportedCall) -> Value:
    call.require_dtypes(*NUMBERS)
    data, fill = call.values
    mode = str(call.attrs.pad_mode)
    call.require(mode in ("constant", "edge", "reflect"), "pad_mode", mode)
    widths = [ints_of(pair) for pair in call.attrs.pad_width]
    pads = call.graph.ints([pair[0] for pair in widths] + [pair[1] for pair in widths])
    number = call.known(fill, "pad value")
    call.require(number.size == 1, "pad value", "not a constant")
    value = call.graph.scalar(number.reshape(())[()], data)
    return call.result("Pad", [data, pads, *([value] if mode == "constant" else [])], mode=mode)


def _strided_slice(call: ExportedCall) -> Value:
    data = call.values[0]
    attrs = call.attrs
    call.require(len(call.values) == 1, "begin", "an operand")
    begin, end = ints_of(attrs.begin), ints_of(attrs.end)
    axes = [axis % data.rank for axis in ints_of(attrs.axes)] or list(range(len(begin)))
    strides = ints_of(attrs.strides) or [1]
    mode = str(attrs.slice_mode)
    call.require(mode in ("end", "size"), "slice_mode", mode)
    # What Relay takes for numbers left out depends on the others.
    call.require(len(begin) == len(end) == len(axes), "numbers of begin and end", len(end))
    if mode == "size":
        strides = [1] * len(axes)
        end = [
            data.shape[axis] if size < 0 else start % data.shape[axis] + size
            for axis, start, size in zip(axes, begin, end)
        ]
    elif len(strides) == 1 and strides[0] == 1:
        strides = strides * len(axes)
    call.require(len(strides) == len(axes), "number of strides", len(strides))
    return call.result("Slice", [data, *map(call.graph.ints, (begin, end, axes, strides))])


def _take(call: ExportedCall) -> Value:
    data, indices = call.values
    attrs = call.attrs
    call.require(int(attrs.batch_dims) == 0, "batch_dims", attrs.batch_dims)
    call.require(indices.dtype in ("int32", "int64"), "dtype of the indices", indices.dtype)
    axis = 0
    if attrs.axis is None:
        data = call.reshaped(data, [int(np.prod(data.shape))])
    else:
        axis = int(attrs.axis) % data.rank
    mode = str(attrs.mode)
    call.require(mode in ("clip", "fast"), "mode", mode)
    if mode == "clip":
        indices = _clipped(call, indices, data.shape[axis])
    return call.result("Gather", [data, indices], axis=axis)


def _clipped(call: ExportedCall, indices: Value, extent: int) -> Value:
    """Keep indices within the axis, as Relay has it; a gather of ONNX counts negative ones
    backwards."""
    known = call.graph.array_of(indices)
    if known is not None:
        return call.graph.constant(np.clip(known, 0, extent - 1))
    low, high = call.graph.scalar(0, indices), call.graph.scalar(extent - 1, indices)
    lowest = call.graph.node("Max", [indices, low], indices.shape, indices.dtype)
    return call.graph.node("Min", [lowest, high], indices.shape, indices.dtype)


def _gather(call: ExportedCall) -> Value:
    data, indices = call.values
    call.require(indices.dtype in ("int32", "int64"), "dtype of the indices", indices.dtype)
    return call.result("GatherElements", [data, indices], axis=int(call.attrs.axis) % data.rank)


def _broadcast_to(call: ExportedCall) -> Value:
    return call.result("Expand", [call.values[0], call.graph.ints(call.shape)])


def _tile(call: ExportedCall) -> Value:
    (data,) = call.values
    reps = ints_of(call.attrs.reps)
    rank = max(len(reps), data.rank)
    data = call.reshaped(data, [1] * (rank - data.rank) + list(data.shape))
    return call.result("Tile", [data, call.graph.ints([1] * (rank - len(reps)) + reps)])


def _full(call: ExportedCall, number: int | None = None) -> Value:
    known = call.known(call.values[0], "fill value").reshape(()) if number is None else number
    return call.graph.constant(np.full(call.shape, known, call.dtype))


# Relay's method -> ONNX's mode.
_METHODS = {"nearest_neighbor": "nearest", "bilinear": "linear", "linear": "linear"}
_COORDINATES = ("half_pixel", "align_corners", "asymmetric")


def _resize(call: ExportedCall) -> Value:
    attrs = call.attrs
    call.require(str(attrs.out_dtype) in ("", call.values[0].dtype), "out_dtype", attrs.out_dtype)
    coordinates, rounding = str(attrs.coordinate_transformation_mode), str(attrs.rounding_method)
    call.require(coordinates in _COORDINATES, "coordinate_transformation_mode", coordinates)
    whole = [0.0] * 4
    call.require([float(v) for v in attrs.roi or whole] == whole, "roi", attrs.roi)
    return _resized(call, coordinates, rounding)


def _upsampling(call: ExportedCall) -> Value:
    return _resized(call, "align_corners" if call.attrs.align_corners else "asymmetric", "")


def _resized(call: ExportedCall, coordinates: str, rounding: str) -> Value:
    method = str(call.attrs.method)
    call.require(method in _METHODS, "method", method)
    layout, data = call.image()
    shape = call.plain_shape(layout)
    sizes, wanted = data.shape[2:], shape[2:]
    # The corners of one element are not two.
    aligned = coordinates != "align_corners" or min(wanted) > 1
    call.require(aligned, "size", list(wanted))
    fields = {"mode": _METHODS[method], "coordinate_transformation_mode": coordinates}
    if fields["mode"] == "nearest":
        mode = nearest_mode(sizes, wanted, coordinates, rounding=rounding)
        what = f"{rounding!r} of {list(sizes)} to {list(wanted)}"
        call.require(mode, "rounding_method", what)
        fields["nearest_mode"] = str(mode)
    inputs = [data, None, None, call.graph.ints(shape)]
    return call.result_in(layout, "Resize", inputs, **fields)


def _depth_to_space(call: ExportedCall) -> Value:
    layout, data = call.image()
    size, mode = int(call.attrs.block_size), str(call.attrs.mode)
    call.require(data.shape[1] % size**2 == 0, "block_size", size)  # TVM leaves the others out
    return call.result_in(layout, "DepthToSpace", [data], blocksize=size, mode=mode)


def _space_to_depth(call: ExportedCall) -> Value:
    layout, data = call.image()
    size = int(call.attrs.block_size)
    call.require(not any(extent % size for extent in data.shape[2:]), "block_size", size)
    return call.result_in(layout, "SpaceToDepth", [data], blocksize=size)


# Relay op -> function of an ExportedCall that adds its nodes and returns the result, or results.
SHAPE = {
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "expand_dims": _reshape,
    "full": _full,
    "gather": _gather,
    "image.resize2d": _resize,
    "nn.batch_flatten": _reshape,
    "nn.depth_to_space": _depth_to_space,
    "nn.pad": _pad,
    "nn.space_to_depth": _space_to_depth,
    "nn.upsampling": _upsampling,
    "ones": lambda call: _full(call, 1),
    "reshape": _reshape,
    "split": _split,
    "squeeze": _reshape,
    "stack": _stack,
    "strided_slice": _strided_slice,
    "take": _take,
    "tile": _tile,
    "transpose": _transpose,
    "zeros": lambda call: _full(call, 0),
}
