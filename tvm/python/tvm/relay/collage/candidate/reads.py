# SPDX-License-Identifier: Apache-2.0
"""Operators that read numbers as places, shapes or structure, and what numbers they can take.

A wrong one of these crashes the process, or reads what is not there; and constants of this kind
decide how long an operator takes. READS has the operators that read them, RANGES those that some
numbers break, PLAIN those that take any, flows.FLOWS those through whose results such numbers go.
An operator in none is unknown: what integers it gets are made up as zeros.

Test: candidate/test_reads.py (each operator of Relay is in a table).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relay
from tvm.relay import expr as _expr


class Need(NamedTuple):
    """The numbers that an operator can take."""

    low: float | None = None  # included; None for no limit
    high: float | None = None  # included; None for no limit
    # "" for any, "positive" for floats above zero, "pointers" for ascending ones from low to high,
    # "regions" for rows of an image's number and two corners, "boxes" for rows of two corners in
    # [0, 1]
    form: str = ""
    extent: tuple[float, float] = (0.0, 0.0)  # a region's largest (x, y)
    # do they say where, how much or in what order is computed, so that time depends on them?
    decides: bool = True

    def limits(self) -> tuple[float, float]:
        return (
            -math.inf if self.low is None else self.low,
            math.inf if self.high is None else self.high,
        )


# What a call needs of an expression below it.
Reads = Callable[[Any], Iterator[tuple[Any, Need]]]
ZERO = Need(0, 0)


def names(text: str) -> frozenset[str]:
    """Operators listed as words."""
    return frozenset(text.split())


def shape_of(node: relay.Expr) -> list[int] | None:
    """Return the fixed shape of a tensor, or None when it is not known or no tensor."""
    kind = type_of(node)
    if not isinstance(kind, tvm.ir.TensorType):
        return None
    if not all(isinstance(d, tvm.tir.IntImm) for d in kind.shape):
        return None
    return [int(d) for d in kind.shape]


def type_of(node: relay.Expr) -> Any:
    """Return the type of an expression, None when it is not inferred."""
    if isinstance(node, _expr.Var) and node.type_annotation is not None:
        return node.type_annotation
    try:
        return node.checked_type
    except (ValueError, tvm.TVMError):
        return None


def _below(count: float) -> Need:
    """Indexes of so many things."""
    return Need(0, max(0, int(count) - 1))


def _smallest(shape: list[int] | None) -> int:
    return min(shape or [1], default=1)


def _along(axis: int | None, shape: list[int] | None) -> int:
    if not shape:
        return 1
    return math.prod(shape) if axis is None else shape[int(axis)]


def _indexes(place: int, count: Callable[[Any], float]) -> Reads:
    """Read an operand as indexes of as many things as `count` gives for the call."""

    def reads(call: relay.Call) -> Iterator[tuple[Any, Need]]:
        yield call.args[place], _below(count(call))

    return reads


# The second operand has indexes of an axis of the first.
_axis_index = _indexes(1, lambda call: _along(call.attrs.axis, shape_of(call.args[0])))


def _length_along(attr: str) -> Reads:
    def reads(call: relay.Call) -> Iterator[tuple[Any, Need]]:
        length = _along(getattr(call.attrs, attr), shape_of(call.args[0]))
        yield call.args[1], Need(0, length)

    return reads


def _least_extent(call: relay.Call) -> int:
    """Count what rows that each index an axis of the first operand may all index (gather_nd,
    scatter_nd)."""
    shape, indexes = shape_of(call.args[0]) or [], shape_of(call.args[1]) or [1]
    first = int(getattr(call.attrs, "batch_dims", 0))
    return _smallest(shape[first : first + indexes[0]])


def _adv_index(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    fields = fields_of(call.args[0])
    shape = shape_of(fields[0]) if fields else None
    for place, index in enumerate(fields[1:]):
        yield index, _below(shape[place] if shape else 1)


def fields_of(node: relay.Expr) -> list[Any]:
    """Return the expressions of a literal tuple; [] for another expression."""
    return list(node.fields) if isinstance(node, _expr.Tuple) else []


def _fixed(**needs: Need | tuple[float, float]) -> Reads:
    """Read operands by position ("_1") that have such a need whatever the call says."""
    pairs = [
        (int(place[1:]), need if isinstance(need, Need) else Need(*need))
        for place, need in needs.items()
    ]

    def reads(call: relay.Call) -> Iterator[tuple[Any, Need]]:
        for place, need in pairs:
            if place < len(call.args):
                yield call.args[place], need

    return reads


def _integers_only(low: int, high: int) -> Reads:
    """Read the second operand of integer arithmetic: zero divisors and long shifts end a
    process."""

    def reads(call: relay.Call) -> Iterator[tuple[Any, Need]]:
        if is_integer(call.args[1]):
            yield call.args[1], Need(low, high, decides=False)

    return reads


def is_integer(node: relay.Expr) -> bool:
    dtype = str(getattr(type_of(node), "dtype", ""))
    return dtype.startswith(("int", "uint"))


def _compressed(columns: Callable[[Any, list[int]], int], first: int = 1) -> Reads:
    """Read a matrix in compressed rows: operands `first` on are its data, columns and row pointers;
    `columns(call, shape of its data)` says how many columns, of blocks where it has such."""

    def reads(call: relay.Call) -> Iterator[tuple[Any, Need]]:
        shape = shape_of(call.args[first]) or [1]
        yield call.args[first + 1], _below(columns(call, shape))
        yield call.args[first + 2], Need(0, shape[0], "pointers")

    return reads


def _block_columns(axis: int) -> Callable[[Any, list[int]], int]:
    def columns(call: relay.Call, data: list[int]) -> int:
        return _along(axis, shape_of(call.args[0])) // (data[2] if len(data) == 3 else 1)

    return columns


def _conv_columns(call: relay.Call, data: list[int]) -> int:
    return _block_columns(3 if str(call.attrs.layout) == "NHWC" else 1)(call, data)


def _regions(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    shape = shape_of(call.args[0]) or [1, 1, 1, 1]
    height, width = shape[1:3] if str(call.attrs.layout) == "NHWC" else shape[2:4]
    scale = float(call.attrs.spatial_scale) or 1.0
    extent = ((width - 1) / scale, (height - 1) / scale)
    yield call.args[1], Need(0, max(0, shape[0] - 1), "regions", extent=extent)


def _crop_and_resize(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    yield call.args[1], Need(0, 1, "boxes")
    yield call.args[2], _below(_along(0, shape_of(call.args[0])))


def _non_max_suppression(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    boxes = _along(1, shape_of(call.args[0]))
    yield call.args[1], Need(0, boxes)
    yield call.args[2], _below(boxes)
    yield call.args[3], Need(1, boxes)


def _unravel_index(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    yield call.args[1], Need(1, 16)
    if isinstance(call.args[1], _expr.Constant):
        yield call.args[0], _below(np.prod(call.args[1].data.numpy(), dtype="int64"))
    else:
        yield call.args[0], ZERO


def _recurrence(call: relay.Call) -> Iterator[tuple[Any, Need]]:
    """Steps of each row, made up as all of them; a library may leave out states of zero."""
    steps = _along(0, shape_of(call.args[0]))
    yield call.args[3], Need(steps, steps)
    for state in call.args[4:]:
        yield state, Need()


_ONE = (1, 1)
# All are safe, and decide what is computed (where a sample is taken from).
_ANYTHING = Need()
# Of floats whose result is no number otherwise.
_POSITIVE = Need(form="positive", decides=False)
_SHIFT = Need(0, 7, decides=False)
# Operators to which some numbers are places, shapes or structure; constants of this kind decide how
# long they take.
READS: dict[str, Reads] = {
    "adv_index": _adv_index,
    **{f"collage.{kind}": _recurrence for kind in ("gru", "lstm", "rnn")},
    "arange": _fixed(_0=(0, 0), _1=(1, 16), _2=_ONE),
    "dyn.broadcast_to": _fixed(_1=_ONE),
    "dyn.expand_dims": _fixed(_1=(0, 0)),
    "dyn.full": _fixed(_1=(1, 4)),
    "dyn.image.resize2d": _fixed(_1=(1, 64)),
    "dyn.nn.pad": _fixed(_1=(0, 2)),
    "dyn.nn.upsampling": _fixed(_1=(1, 2), _2=(1, 2)),
    "dyn.nn.upsampling3d": _fixed(_1=(1, 2), _2=(1, 2), _3=(1, 2)),
    "dyn.one_hot": _fixed(_0=(0, 0), _3=(1, 16)),
    "dyn.ones": _fixed(_0=(1, 4)),
    "dyn.reshape": _fixed(_1=_ONE),
    "dyn.sparse_to_dense": _fixed(_0=(0, 0), _3=(1, 16)),
    "dyn.squeeze": _fixed(_1=(0, 0)),
    "dyn.strided_slice": _fixed(_1=(0, 0), _2=_ONE, _3=_ONE),
    "dyn.tile": _fixed(_1=(1, 2)),
    "dyn.topk": _fixed(_1=_ONE),
    "dyn.zeros": _fixed(_0=(1, 4)),
    "gather": _axis_index,
    "gather_nd": _indexes(1, _least_extent),
    "image.crop_and_resize": _crop_and_resize,
    "image.grid_sample": _fixed(_1=(-1, 1)),
    "invert_permutation": _indexes(0, lambda call: _along(0, shape_of(call.args[0]))),
    "nn.deformable_conv2d": _fixed(_1=_ANYTHING),
    "nn.internal.sparse_dense_padded": _compressed(_block_columns(1)),
    "nn.nll_loss": _indexes(1, lambda call: (shape_of(call.args[0]) or [1])[:2][-1]),
    "nn.sparse_add": _compressed(_block_columns(1)),
    "nn.sparse_conv2d": _compressed(_conv_columns),
    "nn.sparse_dense": _compressed(_block_columns(1)),
    "nn.sparse_transpose": _compressed(
        lambda call, _: _along(0, shape_of(call.args[2])) - 1, first=0
    ),
    "one_hot": _indexes(0, lambda call: int(call.attrs.depth)),
    "reverse_sequence": _length_along("seq_axis"),
    "scatter_elements": _axis_index,
    "scatter_nd": _indexes(1, _least_extent),
    "sequence_mask": _length_along("axis"),
    "sparse_fill_empty_rows": _fixed(_0=(0, 0), _2=(1, 16)),
    "sparse_reshape": _fixed(_0=(0, 0), _1=(1, 4), _2=(1, 4)),
    "sparse_to_dense": _indexes(0, lambda call: _smallest([*map(int, call.attrs.output_shape)])),
    "strided_set": _fixed(_2=(0, 0), _3=_ONE, _4=_ONE),
    "take": _axis_index,
    "unravel_index": _unravel_index,
    "vision.all_class_non_max_suppression": _fixed(_2=(1, 16)),
    "vision.non_max_suppression": _non_max_suppression,
    "vision.proposal": _fixed(_2=(1, 64)),
    "vision.roi_align": _regions,
    "vision.roi_pool": _regions,
}
# Operators that end the process, or give no numbers, where an operand is not in a range.
RANGES: dict[str, Reads] = {
    # Mantissas, and by how much they are shifted.
    "fixed_point_multiply_per_axis": _fixed(_1=Need(0, 2**30, decides=False), _2=_SHIFT, _3=_SHIFT),
    **dict.fromkeys(
        names("divide floor_divide floor_mod mod trunc_divide trunc_mod"), _integers_only(1, 16)
    ),
    "left_shift": _integers_only(0, 7),
    **dict.fromkeys(["log", "log10", "log2", "rsqrt", "sqrt"], _fixed(_0=_POSITIVE)),
    "nn.batch_norm": _fixed(_4=_POSITIVE),
    "right_shift": _integers_only(0, 7),
}

# Any numbers are safe for these, and say nothing of the time that they take.
PLAIN = names(
    """
    acos acosh all any asin asinh atan atanh auto_scheduler_layout_transform bitwise_and
    bitwise_not bitwise_or bitwise_xor call_lowered collapse_sum_to cos cosh cumprod debug dft
    einsum equal erf exp fast_erf fast_exp fast_tanh fixed_point_multiply greater greater_equal
    hardswish image.affine_grid image.dilation2d image.resize1d image.resize2d image.resize3d
    isfinite isinf isnan less less_equal logical_and logical_not logical_or logical_xor
    matrix_set_diag mean meshgrid meta_schedule_layout_transform nn.adaptive_avg_pool1d
    nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.adaptive_max_pool1d nn.adaptive_max_pool2d
    nn.adaptive_max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool2d_grad nn.avg_pool3d
    nn.batch_matmul nn.batch_to_space_nd nn.bias_add nn.bitpack nn.bitserial_conv2d
    nn.bitserial_dense nn.contrib_conv2d_NCHWc nn.contrib_conv2d_gemm_weight_transform
    nn.contrib_conv2d_gemm_without_weight_transform
    nn.contrib_conv2d_winograd_nnpack_weight_transform
    nn.contrib_conv2d_winograd_weight_transform
    nn.contrib_conv2d_winograd_without_weight_transform
    nn.contrib_conv3d_winograd_weight_transform
    nn.contrib_conv3d_winograd_without_weight_transform nn.contrib_dense_pack
    nn.contrib_depthwise_conv2d_NCHWc nn.conv1d nn.conv1d_transpose nn.conv2d
    nn.conv2d_backward_weight nn.conv2d_transpose nn.conv3d nn.conv3d_transpose nn.correlation
    nn.cross_entropy nn.cross_entropy_with_logits nn.dense nn.depth_to_space nn.dilate
    nn.fast_softmax nn.fifo_buffer nn.global_avg_pool2d nn.global_max_pool2d nn.group_norm
    nn.instance_norm nn.l2_normalize nn.layer_norm nn.leaky_relu nn.log_softmax nn.lrn nn.matmul
    nn.max_pool1d nn.max_pool2d nn.max_pool2d_grad nn.max_pool3d nn.prelu nn.softmax
    nn.space_to_batch_nd nn.space_to_depth nn.upsampling nn.upsampling3d not_equal ones
    ones_like power prod qnn.abs qnn.add qnn.avg_pool2d qnn.batch_matmul qnn.concatenate
    qnn.contrib_dense_pack qnn.conv2d qnn.conv2d_transpose qnn.dense qnn.dequantize qnn.erf
    qnn.exp qnn.hardswish qnn.leaky_relu qnn.log qnn.mul qnn.quantize qnn.requantize qnn.rsqrt
    qnn.sigmoid qnn.simulated_dequantize qnn.simulated_quantize qnn.softmax qnn.sqrt
    qnn.subtract qnn.tanh random.multinomial random.normal random.threefry_generate
    random.threefry_split random.uniform reinterpret scatter searchsorted sigmoid sign sin sinh
    stft tan tanh variance vision.get_valid_counts vision.multibox_prior
    vision.multibox_transform_loc vision.regular_non_max_suppression vision.yolo_reorg zeros
    zeros_like
    """
)


def reading_ops() -> list[str]:
    """List, for the pass, the operators to which some numbers are places, shapes or structure."""
    return list(READS)
