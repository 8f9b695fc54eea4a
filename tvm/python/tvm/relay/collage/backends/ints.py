# SPDX-License-Identifier: Apache-2.0
"""Relay's attributes of integers as lists, one number an axis. Test: backends/dnnl/test_lower.py,
backends/onnx_model/test_export.py.
"""

from __future__ import annotations

import json

import tvm

_attr_json = tvm.get_global_func("collage.AttrJson")


def ints_of(values: object) -> list[int]:
    """Return an attribute of one or several integers as a list; of None an empty one."""
    if values is None:
        return []
    if isinstance(values, (int, tvm.tir.IntImm)):
        return [int(values)]
    # One call for all of them, where each would take several.
    return [int(number) for number in json.loads(_attr_json(values))]


def per_axis(values: object, axes: int) -> list[int]:
    """Return one number an axis from one for all or one each."""
    numbers = ints_of(values)
    return numbers * axes if len(numbers) == 1 else numbers


def pads_of(values: object, axes: int) -> list[int]:
    """Return all begins before all ends, as ONNX has them, from Relay's 1, n or 2n numbers."""
    numbers = per_axis(values, axes)
    return numbers * 2 if len(numbers) == axes else numbers
