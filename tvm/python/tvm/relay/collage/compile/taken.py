# SPDX-License-Identifier: Apache-2.0
"""Writes a take of neighbours, in their order, as a slice.

Exporters write what is one of three or the first of a row so: queries, keys and values of one
product, the token of the class. Libraries know slices as views or copies, while a take by numbers
that might be any ends a backend's parts.

Short, and a file of its own: `implied` leaves out what a reader does itself, while this writes one
operator as another.

Assumptions: shapes are static, the indices are constants that follow one another and lie inside the
axis. Another take stays as it is.

Test: compile/test_taken.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

from .fold_ops import static_shape
from .rewriting import Rewrite, is_call


class _Slice(DFPatternCallback):
    """A slice, with the axes of the indices in the place of the one that it is along."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("take")(wildcard(), wildcard())

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        data, result = (static_shape(each.checked_type) for each in (pre.args[0], pre))
        if not _is_of_neighbours(pre) or data is None or result is None:
            return post
        axis, indices = int(pre.attrs.axis) % len(data), pre.args[1].data.numpy()
        first, last = int(indices.min()), int(indices.max())
        if first < 0 or last >= data[axis]:
            return post
        part = relay.strided_slice(post.args[0], [first], [last + 1], [1], [axis])
        return relay.reshape(part, result)


def _is_of_neighbours(take: Any) -> bool:
    indices, attrs = take.args[1], take.attrs
    if not isinstance(indices, relay.Constant) or attrs.axis is None or int(attrs.batch_dims):
        return False
    values = indices.data.numpy().reshape(-1)
    return values.size > 0 and bool((np.diff(values.astype("int64")) == 1).all())


TAKE_AS_SLICE = Rewrite(lambda node: is_call(node, "take") and _is_of_neighbours(node), _Slice)
