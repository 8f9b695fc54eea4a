# SPDX-License-Identifier: Apache-2.0
"""Writes convolutions along one axis as those of an image of one row, before TVM's AlterOpLayout.

TVM has no blocked kernel for conv1d, and the one for conv2d blocks the width, which is 1 in an
image of one column. On an image of one row it does what it is made for: 1.2 to 28 times as fast on
eight shapes (docs/compile.md). Grouped convolutions stay as they are, and those whose weights are
not known or whose shapes are open. Where tuning records are looked up all do: tuners find the
kernels of a net in builds of their own, which know nothing of this.

Test: compile/test_one_row.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import autotvm, relay
from tvm.autotvm.task.dispatcher import FallbackContext
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .rewriting import Rewrite, is_call, rewrite_in_place
from .thread_contexts import of_this_thread

# Of data and weights, in which these operators are rewritten.
_PLAIN_LAYOUTS = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW")}
# What of a PassContext has TVM look records of Ansor and MetaSchedule up.
_RECORDS = ("relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule")


def lay_in_rows(mod: tvm.IRModule) -> bool:
    """Rewrites the open functions of `mod`, a typed module, in place, which is typed again; returns
    whether anything changed."""
    rule = Rewrite(_is_along_one_axis, _Row)
    return not _looks_up_records() and rewrite_in_place(mod, rule)


def _looks_up_records() -> bool:
    """Whether this thread's builds use records of a tuner."""
    config = tvm.transform.PassContext.current().config
    context = of_this_thread(autotvm.task.DispatchContext.current)
    return any(config.get(name) for name in _RECORDS) or not isinstance(context, FallbackContext)


class _Row(DFPatternCallback):
    """A convolution along one axis of an input whose other axis, where there is one, is 1."""

    def __init__(self) -> None:
        super().__init__(rewrite_once=True, require_type=True)
        operands = wildcard(), wildcard()
        self.pattern = is_op("nn.conv1d")(*operands) | is_op("nn.conv2d")(*operands)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if not _is_along_one_axis(pre):
            return post
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


def _padding(sides: Any, rank: int) -> tuple[int, int, int, int]:
    """Before and after along the axis, then across it, of the forms that Relay's text has."""
    given = [int(side) for side in sides]
    if rank == 3:
        return given[0], given[-1], 0, 0
    top, left, bottom, right = given if len(given) == 4 else (given[0], given[-1]) * 2
    return top, bottom, left, right


def _is_along_one_axis(node: Any) -> bool:
    """Of a typed call: is it one that this rewrites?"""
    if not is_call(node, *_PLAIN_LAYOUTS) or not isinstance(node.args[1], relay.Constant):
        return False
    plain = _PLAIN_LAYOUTS[node.op.name]
    attrs, (data, weight) = node.attrs, (arg.checked_type for arg in node.args)
    return (
        (attrs.data_layout, attrs.kernel_layout) == plain
        and attrs.out_layout in ("", plain[0])
        and attrs.groups == 1
        and data.dtype == weight.dtype == "float32"
        and all(isinstance(dim, tvm.tir.IntImm) for dim in data.shape)
        and int(data.shape[2]) > 1  # one pixel is a row already
        and all(dim == 1 for dim in [*data.shape[3:], *weight.shape[3:]])
        and _padding(attrs.padding, len(data.shape))[2:] == (0, 0)
    )
