# SPDX-License-Identifier: Apache-2.0
"""`layout_transform` and `auto_scheduler_layout_transform` on numpy arrays, for the layouts of
TVM's CPU kernels.

A layout such as ``OIHW8i16o`` names primal axes by capitals and blocks of them by a number and the
small letter. Ansor's layouts are the loops that read a weight, by length and axis: 64j32k is a
matrix, 4j32k16j the same with its rows in blocks of 16. An array is first brought into primal form
(what is of one axis side by side), then into the wanted one. Padding is never made: a block that
does not divide its axis is the caller's to leave to TVM.

Test: compile/test_fold.py
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

_TOKEN = re.compile(r"([A-Z])|([0-9]+)([a-z])")
_LOOP = re.compile(r"([0-9]+)([A-Za-z_]+)")

# An axis, how many parts of it are outside of this one, and its extent, of a primal axis 0.
Part = tuple[str, int, int]


def parse_layout(text: str) -> list[Part] | None:
    """Return the parts that `text` names; None if they are not primal axes with a block each."""
    if not re.fullmatch(f"(?:{_TOKEN.pattern})*", text):
        return None
    parts = [
        (axis, 0, 0) if axis else (block.upper(), 1, int(size))
        for axis, size, block in _TOKEN.findall(text)
    ]
    places = {part[:2] for part in parts}
    is_plain = len(places) == len(parts) and all((axis, 0) in places for axis, *_ in parts)
    return parts if is_plain else None


def transform_layout(array: np.ndarray, source: str, target: str) -> np.ndarray | None:
    """Return `array` of layout `source` in layout `target`; None where TVM itself must decide.

    Both layouts must have the same primal axes, and every block must divide its axis.
    """
    src, dst = parse_layout(source), parse_layout(target)
    if src is None or dst is None or array.ndim != len(src):
        return None
    if {axis for axis, *_ in src} != {axis for axis, *_ in dst}:
        return None
    sized = [
        (axis, level, size if level else extent)
        for (axis, level, size), extent in zip(src, array.shape, strict=True)
    ]
    blocks = {axis: size for axis, level, size in dst if level}
    wanted = [
        (axis, level, size if level else _extent(sized, axis) // blocks.get(axis, 1))
        for axis, level, size in dst
    ]
    return _rearranged(array, sized, wanted)


def transform_loops(array: np.ndarray, source: str, target: str) -> np.ndarray | None:
    """Return `array` of Ansor's layout `source`, which names each axis once, in its layout
    `target`; None where the two do not fit each other or the array."""
    axes = _loops(source)
    return None if any(level for _, level, _ in axes) else _rearranged(array, axes, _loops(target))


def _loops(text: str) -> list[Part]:
    seen: Counter[str] = Counter()
    parts = []
    for length, axis in _LOOP.findall(text):
        parts.append((axis, seen[axis], int(length)))
        seen[axis] += 1
    return parts


def _extent(parts: Sequence[Part], axis: str) -> int:
    return math.prod(size for name, _, size in parts if name == axis)


def _rearranged(
    array: np.ndarray, source: Sequence[Part], target: Sequence[Part]
) -> np.ndarray | None:
    axes = {axis for axis, *_ in (*source, *target)}
    if tuple(size for *_, size in source) != array.shape:
        return None
    if any(_extent(source, axis) != _extent(target, axis) for axis in axes):
        return None
    primal, split = sorted(source), sorted(target)
    array = array.transpose([source.index(part) for part in primal])
    array = array.reshape([size for *_, size in split])
    return array.transpose([split.index(part) for part in target])
