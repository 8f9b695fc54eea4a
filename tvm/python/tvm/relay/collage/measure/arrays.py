# SPDX-License-Identifier: Apache-2.0
"""Tensors as numpy arrays to compare. Test: test_low_precision.py."""

from __future__ import annotations

import numpy as np
import tvm


def as_numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array; values of bfloat16, which TVM gives as their bits, in float32."""
    if dtype != "bfloat16":
        return array
    return (array.view("uint16").astype("uint32") << 16).view("float32")


def numbers_of(tensor: tvm.nd.NDArray) -> np.ndarray:
    """What a tensor holds."""
    return as_numbers(tensor.numpy(), tensor.dtype)
