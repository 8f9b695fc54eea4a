# SPDX-License-Identifier: Apache-2.0
"""What the lowering of several kinds of op shares: attributes as ints, layouts, refusals.

Test: test_onednn_ops.py, test_onednn_errors.py.
"""

import tvm

from ..errors import UnsupportedOpError

_plain_ints = tvm.get_global_func("collage.PlainInts")


def check(node, condition, attribute, value):
    if not condition:
        raise UnsupportedOpError("dnnl", node.op, f"{attribute}={value} is not supported")


def to_ints(values) -> list[int]:
    # One call for all of them, where each would take several.
    return [int(text) for text in _plain_ints(values).split()]


def padding(values, axes: int) -> tuple[list[int], list[int]]:
    """Return left and right padding from Relay's 1, n or 2n numbers."""
    pads = to_ints(values)
    if len(pads) == 1:
        pads = pads * (2 * axes)
    if len(pads) == axes:
        pads = pads * 2
    return pads[:axes], pads[axes:]


def is_plain_layout(layout: str, letters: str) -> bool:
    """Tell whether a layout is just these axes in some order, without blocks as in NCHW16c."""
    return sorted(layout) == sorted(letters)


def is_kernel_layout(layout: str, spatial: str) -> bool:
    """Tell whether it is one of weights; TVM's partitioning for oneDNN gives groups an axis."""
    return is_plain_layout(layout, ("GOI" if "G" in layout else "OI") + spatial)


def per_axis(values, axes):
    values = to_ints(values)
    return values * axes if len(values) == 1 else values
