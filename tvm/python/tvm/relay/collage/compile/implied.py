# SPDX-License-Identifier: Apache-2.0
"""Leaves out what the reader of a value does itself: padding before a window, broadcasting before
an operator that broadcasts.

Exporters write both as operators of their own. The parts of a backend that does not know these end
there, and each value is laid out plainly for the border and back; one that does know them copies a
tensor for nothing. Results are the same bit for bit.

Assumptions: widths of padding are numbers from 0 on, and what is padded with is a constant; what is
broadcast and where it is read have static shapes. Anything else stays as it is.

Test: compile/test_implied.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .fold_ops import static_shape
from .rewriting import Rewrite, is_call

_CONVOLUTIONS = tuple(f"nn.conv{axes}d" for axes in (1, 2, 3))
_MAX_POOLS = tuple(f"nn.max_pool{axes}d" for axes in (1, 2, 3))
_AVG_POOLS = tuple(f"nn.avg_pool{axes}d" for axes in (1, 2, 3))
_QNN_CONV = "qnn.conv2d"
_WINDOWS = (*_CONVOLUTIONS, *_MAX_POOLS, *_AVG_POOLS, _QNN_CONV)
_BROADCASTING = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "where"),
)


class _PaddedByWindow(DFPatternCallback):
    """A window that pads by as much more."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        pools = [is_op(name)(wildcard()) for name in (*_MAX_POOLS, *_AVG_POOLS)]
        products = [is_op(name)(wildcard(), wildcard()) for name in _CONVOLUTIONS]
        self.pattern = is_op(_QNN_CONV)(*(wildcard() for _ in range(6)))
        for each in (*pools, *products):
            self.pattern |= each

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        padding = _all_padding(pre) if is_call(pre.args[0], "nn.pad") else None
        if padding is None:
            return post
        names = map(str, pre.attrs.keys())
        fields = {name: pre.attrs[name] for name in names} | {"padding": padding}
        if pre.op.name in _AVG_POOLS:
            fields["count_include_pad"] = True  # the zeros were data
        attrs = tvm.ir.make_node(f"relay.attrs.{type(pre.attrs).__name__}", **fields)
        data = post.args[0].args[0]
        return relay.Call(pre.op, [data, *post.args[1:]], attrs, span=pre.span)


class _NoPadding(DFPatternCallback):
    """Padding by nothing is what it reads."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("nn.pad")(wildcard(), wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return post if np.any(_widths(pre)) else post.args[0]


class _BroadcastByReader(DFPatternCallback):
    """An operator on operands as they were before broadcast_to, where it gives the same shape. Only
    static shapes tell that."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("where")(wildcard(), wildcard(), wildcard())
        for name in _BROADCASTING[:-1]:
            self.pattern |= is_op(name)(wildcard(), wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        result = static_shape(pre.checked_type)
        shapes = [static_shape(each.checked_type) for each in pre.args]
        args, is_changed = list(post.args), False
        for number, before in enumerate(pre.args):
            if is_call(before, "broadcast_to"):
                own = static_shape(before.args[0].checked_type)
                if _gives([*shapes[:number], own, *shapes[number + 1 :]], result):
                    shapes[number], args[number] = own, args[number].args[0]
                    is_changed = True
        return relay.Call(pre.op, args, pre.attrs, span=pre.span) if is_changed else post


PADDED_BY_WINDOW = Rewrite(lambda node: is_call(node, "nn.pad"), _PaddedByWindow)
NO_PADDING = Rewrite(lambda node: is_call(node, "nn.pad"), _NoPadding)
BROADCAST_BY_READER = Rewrite(lambda node: is_call(node, "broadcast_to"), _BroadcastByReader)


def _gives(shapes: list[tuple[int, ...] | None], result: tuple[int, ...] | None) -> bool:
    """Whether operands of these shapes make a result of that shape."""
    known = [shape for shape in shapes if shape is not None]
    return (
        result is not None and len(known) == len(shapes) and np.broadcast_shapes(*known) == result
    )


def _widths(pad: Any) -> np.ndarray:
    """Before and after each axis."""
    return np.array([[int(side) for side in axis] for axis in pad.attrs.pad_width])


def _all_padding(window: Any) -> list[int] | None:
    """What a window pads by itself and what it reads, together, as its attribute has it; None where
    the two are not one."""
    pad, attrs = window.args[0], window.attrs
    widths, number = _widths(pad), _scalar(pad.args[1])
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


def _padded_with(window: Any) -> float | int | None:
    """The number that a window itself pads with; None where it is not known."""
    if window.op.name == _QNN_CONV:
        return _scalar(window.args[2])  # the zero point
    if window.op.name not in _MAX_POOLS:
        return 0
    dtype = window.args[0].checked_type.dtype
    limits = np.finfo(dtype) if dtype in ("float32", "float64") else None
    return None if limits is None else float(limits.min)


def _counts_alike(window: Any, own: list[int]) -> bool:
    """Whether an average counts what it pads by itself as it counts data. It may not count what a
    window beyond the end adds."""
    if window.op.name not in _AVG_POOLS:
        return True
    return (bool(window.attrs.count_include_pad) or not any(own)) and not window.attrs.ceil_mode


def _scalar(expr: Any) -> float | int | None:
    """The number that a constant holds; None of anything else."""
    if not isinstance(expr, relay.Constant) or expr.data.numpy().size != 1:
        return None
    return expr.data.numpy().item()
