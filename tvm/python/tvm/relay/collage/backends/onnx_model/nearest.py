# SPDX-License-Identifier: Apache-2.0
"""Elements that a nearest-neighbour resize takes, in Relay and in ONNX.

The two have other rules for what lies between two elements, and in Relay that also depends on the
sizes (TVM's topi/image/resize.py). So both are worked out and compared.
Test: backends/onnx_model/test_export.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MODES = ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
# Relay's own allowance for rounding errors, and ours where it has none.
_EPSILON = 1e-5
_ROUND: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda place: np.ceil(place - np.float32(0.5)),
    "round_prefer_ceil": lambda place: np.floor(place + np.float32(0.5)),
}


def nearest_mode(
    sizes: Sequence[int], wanted: Sequence[int], coordinates: str, rounding: str
) -> str | None:
    """Return the nearest_mode of ONNX that takes the elements that Relay takes, or None.

    `sizes` and `wanted`: the extents of the resized axes before and after. `rounding` is Relay's,
    "" its default.
    """
    pairs = list(zip(sizes, wanted))
    taken = [_relay_indices(*pair, coordinates, rounding) for pair in pairs]
    for mode in MODES:
        if all(
            indices is not None and np.array_equal(indices, _onnx_indices(*pair, coordinates, mode))
            for indices, pair in zip(taken, pairs)
        ):
            return mode
    return None


def _onnx_indices(size: int, wanted: int, coordinates: str, mode: str) -> np.ndarray:
    place = _places(size, wanted, coordinates, is_by_scale=True)
    return np.clip(_ROUND[mode](place), 0, size - 1)


def _relay_indices(size: int, wanted: int, coordinates: str, rounding: str) -> np.ndarray | None:
    """Return the elements that Relay takes; None where a rounding error decides it."""
    if coordinates == "asymmetric" and wanted % size == 0:
        return np.arange(wanted) // (wanted // size)  # whatever the rounding
    place = _places(size, wanted, coordinates)
    if not rounding:
        rounding = "round" if coordinates == "align_corners" else "floor"
    if rounding in ("floor", "ceil"):
        place = place + np.float32(_EPSILON if rounding == "floor" else -_EPSILON)
        return np.clip(_ROUND[rounding](place), 0, size - 1)
    if rounding != "round" and rounding not in _ROUND:
        return None
    low, high = np.floor(place + 0.5 - _EPSILON), np.floor(place + 0.5 + _EPSILON)
    return np.clip(low, 0, size - 1) if np.array_equal(low, high) else None


def _places(size: int, wanted: int, coordinates: str, *, is_by_scale: bool = False) -> np.ndarray:
    """Return where in the source each element of the result lies, with the rounding errors of
    float32: ONNX divides by the scale, Relay multiplies by its inverse."""

    def scaled(place: np.ndarray) -> np.ndarray:
        if is_by_scale:
            return place / (np.float32(wanted) / size)
        return place * (np.float32(size) / wanted)

    index = np.arange(wanted, dtype="float32")
    if coordinates == "align_corners":
        return index * np.float32(size - 1) / np.float32(max(wanted - 1, 1))
    half = np.float32(0.5 if coordinates == "half_pixel" else 0.0)
    return scaled(index + half) - half
