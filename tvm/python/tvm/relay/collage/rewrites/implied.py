# SPDX-License-Identifier: Apache-2.0
"""Padding before a window and broadcasting before an operator that broadcasts, left to the reader.

Exporters write both as operators of their own. The parts of a backend that does not know these end
there, and each value is laid out plainly for the border and back; one that does know them copies a
tensor for nothing. Results are the same bit for bit.

Assumptions: widths of padding are numbers from 0 on, and what is padded with is a constant; what is
broadcast and where it is read have static shapes. Anything else stays as it is.

Test: rewrites/test_table.py, rewrites/test_implied.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from ..relay_util.walk import static_shape
from .engine import is_call, number_of, with_attrs

_CONVOLUTIONS = tuple(f"nn.conv{axes}d" for axes in (1, 2, 3))
_MAX_POOLS = tuple(f"nn.max_pool{axes}d" for axes in (1, 2, 3))
_AVG_POOLS = tuple(f"nn.avg_pool{axes}d" for axes in (1, 2, 3))
_QNN_CONV = "qnn.conv2d"
WINDOWS = (*_CONVOLUTIONS, *_MAX_POOLS, *_AVG_POOLS, _QNN_CONV)
BROADCASTING = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "where"),
)


def padding_more(window: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make a window that pads by as much more."""
    padding = _all_padding(window) if is_call(window.args[0], "nn.pad") else None
    if padding is None:
        return None
    changed: dict[str, Any] = {"padding": padding}
    if window.op.name in _AVG_POOLS:
        changed["count_include_pad"] = True  # the zeros were data
    operands = [post.args[0].args[0], *post.args[1:]]
    return with_attrs(window.op, window, operands, **changed)


def pads_by_nothing(node: relay.Expr) -> bool:
    return not np.any(_widths(node))


def broadcasting(reader: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Make an operator on operands as they were, where that gives the same shape. Only static
    shapes tell that."""
    result = static_shape(reader.checked_type)
    shapes = [static_shape(each.checked_type) for each in reader.args]
    args, is_changed = list(post.args), False
    for number, before in enumerate(reader.args):
        if is_call(before, "broadcast_to"):
            own = static_shape(before.args[0].checked_type)
            if _gives([*shapes[:number], own, *shapes[number + 1 :]], result):
                shapes[number], args[number] = own, args[number].args[0]
                is_changed = True
    return relay.Call(reader.op, args, reader.attrs, span=reader.span) if is_changed else None


def _gives(shapes: list[tuple[int, ...] | None], result: tuple[int, ...] | None) -> bool:
    """Tell whether operands of these shapes make a result of that shape."""
    known = [shape for shape in shapes if shape is not None]
    return (
        result is not None and len(known) == len(shapes) and np.broadcast_shapes(*known) == result
    )


def _widths(pad: relay.Expr) -> np.ndarray:
    """Return what is added before and after each axis."""
    return np.array([[int(side) for side in axis] for axis in pad.attrs.pad_width])


def _all_padding(window: relay.Expr) -> list[int] | None:
    """Return what a window pads by itself and what it reads, together, as its attribute has it;
    None where the two are not one."""
    pad, attrs = window.args[0], window.attrs
    widths, number = _widths(pad), number_of(pad.args[1])
    is_pool = window.op.name in (*_MAX_POOLS, *_AVG_POOLS)
    layout = str(attrs.layout if is_pool else attrs.data_layout)
    # A blocked layout has more letters than axes that are padded.
    if number is None or str(pad.attrs.pad_mode) != "constant" or len(layout) != len(widths):
        return None
    is_spatial = np.array([letter in "DHW" for letter in layout])
    sides = widths[is_spatial].T.reshape(-1)
    own = [int(side) for side in attrs.padding]
    is_plain = np.all(widths >= 0) and not np.any(widths[~is_spatial]) and len(own) == len(sides)
    if not is_plain or number != _padded_with(window) or not _counts_alike(window, own):
        return None
    return [more + side for more, side in zip(sides.tolist(), own, strict=True)]


def _padded_with(window: relay.Expr) -> float | int | None:
    """Return the number that a window itself pads with; None where it is not known."""
    if window.op.name == _QNN_CONV:
        return number_of(window.args[2])  # the zero point
    if window.op.name not in _MAX_POOLS:
        return 0
    dtype = window.args[0].checked_type.dtype
    limits = np.finfo(dtype) if dtype in ("float32", "float64") else None
    return None if limits is None else float(limits.min)


def _counts_alike(window: relay.Expr, own: list[int]) -> bool:
    """Tell whether an average counts what it pads by itself as it counts data. It may not count
    what a window beyond the end adds."""
    if window.op.name not in _AVG_POOLS:
        return True
    return (bool(window.attrs.count_include_pad) or not any(own)) and not window.attrs.ceil_mode
