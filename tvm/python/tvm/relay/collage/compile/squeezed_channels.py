# SPDX-License-Identifier: Apache-2.0
"""Writes a squeeze of the channels' axis as a reshape, before TVM's AlterOpLayout.

Where a convolution gives one channel its kernel may give it in blocks of one, and TVM tells for a
squeeze of such a value a layout that has the block and not the axis: it warns without end, and the
build fails where anybody reads the value as it was. In front of a reshape the value is laid out
plainly again. Test: compile/test_squeezed_channels.py
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .rewriting import Rewrite, is_call, rewrite_in_place

_CHANNELS = 1  # the axis that kernels block


def reshape_squeezed_channels(mod: tvm.IRModule) -> bool:
    """Rewrites the open functions of `mod`, a typed module, in place, which is typed again; returns
    whether anything changed."""
    return rewrite_in_place(mod, Rewrite(_drops_channels, _Reshaped))


class _Reshaped(DFPatternCallback):
    def __init__(self) -> None:
        super().__init__(rewrite_once=True, require_type=True)
        self.pattern = is_op("squeeze")(wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if not _drops_channels(pre):
            return post
        return relay.reshape(post.args[0], pre.checked_type.shape)


def _drops_channels(node: Any) -> bool:
    """Of a typed call: does it squeeze the axis of channels out of a value of fixed shape?"""
    if not is_call(node, "squeeze"):
        return False
    shape = node.args[0].checked_type.shape
    axes = range(len(shape)) if node.attrs.axis is None else map(int, node.attrs.axis)
    return (
        len(shape) > 2
        and all(isinstance(extent, tvm.tir.IntImm) for extent in shape)
        and any(axis % len(shape) == _CHANNELS for axis in axes)
        and int(shape[_CHANNELS]) == 1
    )
