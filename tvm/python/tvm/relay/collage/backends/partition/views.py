# SPDX-License-Identifier: Apache-2.0
"""Views and slices: other shapes, orders and boxes of the same values.

Test: backends/dnnl/test_lower.py, backends/xnnpack/test_lower.py.
"""

from __future__ import annotations

import tvm

from ..ints import ints_of
from .graph import MAX_RANK, Graph, Operation
from .lowering import check


def reshape(graph: Graph, node: Operation) -> Operation:
    """Lower what changes the shape at most."""
    return Operation("reshape", node.inputs[:1], node.output, attrs={})


def transpose(graph: Graph, node: Operation) -> Operation:
    rank = len(graph.shapes[node.output])
    axes = node.attrs.axes
    order = [int(axis) % rank for axis in axes] if axes else list(range(rank))[::-1]
    return Operation("transpose", node.inputs, node.output, attrs={"ints": {"axes": order}})


def split(graph: Graph, node: Operation) -> Operation:
    attrs, index = node.attrs
    source = graph.shapes[node.inputs[0]]
    axis = int(attrs.axis) % len(source)
    sections = attrs.indices_or_sections
    if isinstance(sections, (int, tvm.tir.IntImm)):
        start = source[axis] // int(sections) * index
    else:
        start = [0, *map(int, sections)][index]
    begin = [start if i == axis else 0 for i in range(len(source))]
    return Operation("slice", node.inputs, node.output, attrs={"ints": {"begin": begin}})


def strided_slice(graph: Graph, node: Operation) -> Operation | list[Operation]:
    """Lower a slice: with steps it is one column of an axis that is seen as rows of so many."""
    attrs = node.attrs
    source, result = graph.shapes[node.inputs[0]], graph.shapes[node.output]
    strides, starts = ints_of(attrs.strides), ints_of(attrs.begin)
    is_one_each = len(strides) == len(starts) and str(attrs.slice_mode) == "end"
    is_plain = all(step == 1 for step in strides)
    check(graph, node, is_plain or (is_one_each and min(strides) > 0), "strides", strides)
    axes = ints_of(attrs.axes) if attrs.axes is not None else list(range(len(starts)))
    begin, steps = [0] * len(source), [1] * len(source)
    for axis, start, step in zip(axes, starts, [1] * len(starts) if is_plain else strides):
        extent, steps[axis] = source[axis], step
        begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
    if max(steps) == 1:
        return Operation("slice", node.inputs, node.output, attrs={"ints": {"begin": begin}})
    is_whole = all(extent % step == 0 for extent, step in zip(source, steps))
    check(graph, node, is_whole, "strides", strides)
    rows, firsts, box = [], [], []
    for extent, count, start, step in zip(source, result, begin, steps):
        rows += [extent // step, step] if step > 1 else [extent]
        firsts += [start // step, start % step] if step > 1 else [start]
        box += [count, 1] if step > 1 else [count]
    check(graph, node, len(rows) <= MAX_RANK, "strides of so many axes", strides)
    dtype = graph.dtypes[node.output]
    apart, part = graph.new_tensor(tuple(rows), dtype), graph.new_tensor(tuple(box), dtype)
    return [
        Operation("reshape", node.inputs, apart, attrs={}),
        Operation("slice", [apart], part, attrs={"ints": {"begin": firsts}}),
        Operation("reshape", [part], node.output, attrs={}),
    ]


def depth_to_space(graph: Graph, node: Operation) -> list[Operation]:
    """Lower channels to rows and columns of a block; space_to_depth: the other way round."""
    attrs, size = node.attrs, int(node.attrs.block_size)
    is_image, to_space = str(attrs.layout) == "NCHW", "depth" in node.op.partition("_")[0]
    shape = graph.shapes[node.inputs[0]]
    batch, channels, height, width = shape if is_image else (shape[i] for i in (0, 3, 1, 2))
    places = (height, width) if to_space else (height // size, width // size)
    is_whole = channels % size**2 == 0 if to_space else height % size == width % size == 0
    check(graph, node, is_whole, "block_size", f"{size} of shape {shape}")
    if to_space:
        extents = {"c": channels // size**2, "h": height, "w": width}
        depth = "crs" if str(attrs.mode) == "CRD" else "rsc"
        before = f"n{depth}hw" if is_image else f"nhw{depth}"
        after = "nchrws" if is_image else "nhrwsc"
    else:
        extents = {"c": channels, "h": places[0], "w": places[1]}
        before, after = ("nchrws", "nrschw") if is_image else ("nhrwsc", "nhwrsc")
    extents |= {"n": batch, "r": size, "s": size}
    dtype = graph.dtypes[node.output]
    apart, moved = (
        graph.new_tensor(tuple(extents[axis] for axis in axes), dtype) for axes in (before, after)
    )
    return [
        Operation("reshape", node.inputs, apart, attrs={}),
        Operation(
            "transpose",
            [apart],
            moved,
            attrs={"ints": {"axes": [before.index(axis) for axis in after]}},
        ),
        Operation("reshape", [moved], node.output, attrs={}),
    ]
