# SPDX-License-Identifier: Apache-2.0
"""Padding, layouts and refusals, which the lowering of several kinds of op shares.

Test: backends/dnnl/test_lower.py, backends/dnnl/test_errors.py.
"""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedOpError
from ..ints import pads_of
from ..partition.graph import Operation

# Axes that a tensor may have.
MAX_RANK = 6


def check(node: Operation, condition: object, attribute: str, value: object) -> None:
    if not condition:
        raise UnsupportedOpError("dnnl", node.op, f"{attribute}={value} is not supported")


def padding(values: Any, axes: int) -> tuple[list[int], list[int]]:
    """Return left and right padding from Relay's 1, n or 2n numbers."""
    pads = pads_of(values, axes)
    return pads[:axes], pads[axes:]


def is_plain_layout(layout: str, letters: str) -> bool:
    """Tell whether a layout is just these axes in some order, without blocks as in NCHW16c."""
    return sorted(layout) == sorted(letters)


def is_kernel_layout(layout: str, spatial: str) -> bool:
    """Tell whether it is one of weights; TVM's partitioning for oneDNN gives groups an axis."""
    return is_plain_layout(layout, ("GOI" if "G" in layout else "OI") + spatial)
