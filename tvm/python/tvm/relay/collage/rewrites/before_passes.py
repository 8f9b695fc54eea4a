# SPDX-License-Identifier: Apache-2.0
"""Forms that a pass of TVM would treat badly, or fail at, rewritten before it runs.

- x + x is 2 x before SimplifyExpr, which does the same at a price: it types the product by itself,
  on a copy of all that it is computed from, so that what x shares with the rest of the net is
  shared no longer, and the net doubles with each such sum. NASNet-A has 12 of them in a row, and
  relay.build did not end within 10 minutes.
- Products that would scale weights at run time are fenced in before FoldScaleAxis. The pass moves a
  factor of a layer's operand or result into the layer's weights even if the factor is only known at
  run time: the gate of a squeeze-and-excite block, x * sigmoid(x) in front of a 1x1 convolution,
  dense(x, w) * dense(y, v). Then a vector's product becomes a matrix's, weights can't be packed any
  more, and backends that want constant weights are out. The pass folds the constant factors around
  the fences as ever. One number that such a product is multiplied by stays with it: GELU's half in
  the weights of the next convolution is a GELU that no backend knows, and is no pass over memory
  less.
- A convolution along one axis is that of an image of one row before AlterOpLayout. TVM has no
  blocked kernel for conv1d, and the one for conv2d blocks the width, which is 1 in an image of one
  column; on one row it is 1.2 to 28 times as fast on eight shapes (docs/compile.md). Grouped
  convolutions stay as they are, and those whose weights are not known or whose shapes are open.
  Where tuning records are looked up all do: tuners find the kernels of a net in builds of their
  own, which know nothing of this.
- A squeeze of the channels' axis is a reshape before AlterOpLayout. Where a convolution gives one
  channel its kernel may give it in blocks of one, and TVM tells for a squeeze of such a value a
  layout that has the block and not the axis: it warns without end, and the build fails where
  anybody reads the value as it was. In front of a reshape the value is laid out plainly again.

Test: rewrites/test_table.py, rewrites/test_before_passes.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tvm import relay

from ..relay_util.walk import static_shape
from ..tvm_fixes.thread_contexts import looks_up_records
from .engine import is_call

# An identity that FoldScaleAxis moves nothing across, told from the user's own by its name.
FENCE = "annotation.compiler_begin"
_NAME = "collage.fence"
# Of data and weights, in which convolutions are laid in rows.
_PLAIN_LAYOUTS = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW")}
_CHANNELS = 1  # the axis that kernels block


def is_sum_with_itself(node: relay.Expr) -> bool:
    return bool(node.args[0].same_as(node.args[1]))


def doubled(pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    return relay.multiply(post.args[0], relay.const(2, pre.checked_type.dtype))


def is_product_of_unknowns(node: relay.Expr) -> bool:
    """Tell whether a product is one of what is not known, or one number times such a product."""
    numbers = [each for each in node.args if _is_known(each) and math.prod(each.data.shape) == 1]
    is_scaled = len(numbers) == 1 and any(
        is_call(each, "multiply") and not any(map(_is_known, each.args)) for each in node.args
    )
    return is_scaled or not any(map(_is_known, node.args))


def _is_known(expr: relay.Expr) -> bool:
    return isinstance(expr, relay.Constant)


def fenced_in(_pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    """Fence the operands in, which the pass would leave backwards, and the result, forwards."""
    operands = [relay.annotation.compiler_begin(operand, _NAME) for operand in post.args]
    product = relay.Call(post.op, operands, post.attrs, post.type_args, post.span)
    return relay.annotation.compiler_begin(product, _NAME)


def is_fence(node: relay.Expr) -> bool:
    return str(node.attrs.compiler) == _NAME


def is_along_one_axis(node: relay.Expr) -> bool:
    """Tell whether a convolution is of an input whose second axis, if it has one, is 1."""
    if not isinstance(node.args[1], relay.Constant):
        return False
    plain = _PLAIN_LAYOUTS[node.op.name]
    attrs, (data, weight) = node.attrs, (arg.checked_type for arg in node.args)
    shape = static_shape(data)
    return (
        (attrs.data_layout, attrs.kernel_layout) == plain
        and attrs.out_layout in ("", plain[0])
        and attrs.groups == 1
        and data.dtype == weight.dtype == "float32"
        and shape is not None
        and shape[2] > 1  # one pixel is a row already
        and all(dim == 1 for dim in [*shape[3:], *weight.shape[3:]])
        and _padding(attrs.padding, len(shape))[2:] == (0, 0)
        and not looks_up_records()
    )


def laid_in_a_row(pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    attrs, (data, weight) = pre.attrs, (arg.checked_type.shape for arg in pre.args)
    before, after, *_ = _padding(attrs.padding, len(data))
    row = relay.nn.conv2d(
        relay.reshape(post.args[0], (data[0], data[1], 1, data[2])),
        relay.reshape(post.args[1], (weight[0], weight[1], 1, weight[2])),
        strides=(1, attrs.strides[0]),
        padding=(0, before, 0, after),
        dilation=(1, attrs.dilation[0]),
        channels=weight[0],
        kernel_size=(1, weight[2]),
        out_dtype=attrs.out_dtype,
    )
    return relay.reshape(row, pre.checked_type.shape)


def _padding(sides: Iterable[Any], rank: int) -> tuple[int, int, int, int]:
    """Return it before and after along the axis, then across, of any form of Relay's text."""
    given = [int(side) for side in sides]
    if rank == 3:
        return given[0], given[-1], 0, 0
    top, left, bottom, right = given if len(given) == 4 else (given[0], given[-1]) * 2
    return top, bottom, left, right


def is_squeeze_of_channels(node: relay.Expr) -> bool:
    shape = static_shape(node.args[0].checked_type)
    if shape is None or len(shape) < 3 or shape[_CHANNELS] != 1:
        return False
    axes = range(len(shape)) if node.attrs.axis is None else map(int, node.attrs.axis)
    return any(axis % len(shape) == _CHANNELS for axis in axes)


def reshaped(pre: relay.Expr, post: relay.Expr) -> relay.Expr:
    return relay.reshape(post.args[0], pre.checked_type.shape)
