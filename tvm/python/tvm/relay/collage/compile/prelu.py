# SPDX-License-Identifier: Apache-2.0
"""Writes PReLU with one slope a channel, or one for all, as such again.

TVM's importer of ONNX lays data and slopes out flat, a slope for each number: no library and no
schedule of TVM's knows that form, and the slopes are read from memory as the data is.

Test: compile/test_prelu.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .fold_ops import static_shape
from .rewriting import Rewrite, is_call

# Those that numpy holds: bfloat16 are bits there.
_FLOATS = ("float16", "float32", "float64")


class _Restored(DFPatternCallback):
    """nn.prelu or nn.leaky_relu on the data as it was, where the slopes are known and the result
    has the shape of the data."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        flat = is_op("nn.prelu")(is_op("reshape")(wildcard()), wildcard())
        self.pattern = is_op("reshape")(flat)

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        prelu, flat = pre.args[0], post.args[0].args[0]
        shape, dtype = static_shape(prelu.args[0].args[0].checked_type), pre.checked_type.dtype
        values = _value_of(prelu.args[1])
        if shape is None or 0 in shape or dtype not in _FLOATS or values is None:
            return post
        # The data's reshape may be gone: with a line, which was restored before.
        if static_shape(pre.checked_type) != shape or not is_call(flat, "reshape"):
            return post
        [data], whole = flat.args, values.reshape(shape)
        if (whole == whole.flat[0]).all():
            return relay.nn.leaky_relu(data, float(whole.flat[0]))
        for axis, extent in enumerate(shape):
            a_channel = np.moveaxis(whole, axis, -1).reshape(-1, extent)
            if (a_channel == a_channel[0]).all():
                slopes = relay.Constant(tvm.nd.array(np.ascontiguousarray(a_channel[0])))
                return relay.nn.prelu(data, slopes, axis=axis)
        return post


def _is_flat_prelu(node: Any) -> bool:
    return is_call(node, "nn.prelu") and len(node.checked_type.shape) == 1


RESTORE_PRELU = Rewrite(_is_flat_prelu, _Restored)


def _value_of(expr: Any) -> np.ndarray | None:
    """Of a constant, however it was laid out or broadcast: TVM folds no broadcast to the shape of
    a tensor that is computed."""
    if isinstance(expr, relay.Constant):
        return expr.data.numpy()
    if not is_call(expr, "reshape", "broadcast_to", "broadcast_to_like"):
        return None
    value, shape = _value_of(expr.args[0]), static_shape(expr.checked_type)
    if value is None or shape is None:
        return None
    return value.reshape(shape) if is_call(expr, "reshape") else np.broadcast_to(value, shape)
