# SPDX-License-Identifier: Apache-2.0
"""`layout_transform` and `auto_scheduler_layout_transform` on numpy arrays, for the layouts of
TVM's CPU kernels.

A layout such as ``OIHW8i16o`` names primal axes by capitals and blocks of them by a number and the
small letter. An array is first brought into primal form (blocks merged into their axis), then into
the wanted one; both steps are one reshape, one transpose, one reshape. Padding is never made: a
block that does not divide its axis is the caller's to leave to TVM.

Ansor's layouts are the loops that read a weight, by length and axis: 64j32k is a matrix, 4j32k16j
the same with its rows in blocks of 16.

Test: compile/test_fold.py
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

_TOKEN = re.compile(r"([A-Z])|([0-9]+)([a-z])")
_LOOP = re.compile(r"([0-9]+)([A-Za-z_]+)")


class Layout(NamedTuple):
    """Axes of a layout in order: (letter, 0) for a primal axis, (letter, size) for a block."""

    axes: tuple[tuple[str, int], ...]

    def primal(self) -> list[str]:
        """Return the letters of the primal axes, in the layout's order."""
        return [letter for letter, block in self.axes if not block]

    def block(self, letter: str) -> int:
        """Return the block size of a primal axis, 1 if it has none."""
        return next((block for name, block in self.axes if name == letter and block), 1)


def parse_layout(text: str) -> Layout | None:
    """Return the layout that `text` names; None if it is none of primal axes with a block each."""
    axes: list[tuple[str, int]] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        axes.append((token[1], 0) if token[1] else (token[3].upper(), int(token[2])))
        position = token.end()
    letters = {letter for letter, block in axes if not block}
    is_repeated = len(set((letter, block > 0) for letter, block in axes)) != len(axes)
    if is_repeated or any(block and letter not in letters for letter, block in axes):
        return None
    return Layout(tuple(axes))


def transform_layout(array: np.ndarray, source: str, target: str) -> np.ndarray | None:
    """Return `array` of layout `source` in layout `target`; None where TVM itself must decide.

    Both layouts must have the same primal axes, and every block must divide its axis.
    """
    src, dst = parse_layout(source), parse_layout(target)
    if src is None or dst is None or sorted(src.primal()) != sorted(dst.primal()):
        return None
    if array.ndim != len(src.axes):
        return None
    sizes = dict(zip(src.axes, array.shape, strict=True))
    if any(block and sizes[letter, block] != block for letter, block in src.axes):
        return None
    # To primal form, axes in the target's order: an axis is followed by its block.
    order: list[int] = []
    extent: dict[str, int] = {}
    for letter in dst.primal():
        parts = [i for i, (name, _) in enumerate(src.axes) if name == letter]
        parts.sort(key=lambda i: src.axes[i][1] > 0)
        order += parts
        extent[letter] = sizes[letter, 0] * src.block(letter)
    if any(extent[letter] % dst.block(letter) for letter in extent):
        return None
    # Split each axis into (outer, block), then put both where the target wants them.
    split: list[int] = []
    place: dict[tuple[str, bool], int] = {}
    for letter in dst.primal():
        block = dst.block(letter)
        place[letter, False] = len(split)
        split.append(extent[letter] // block)
        if block > 1 or (letter, 1) in dst.axes:
            place[letter, True] = len(split)
            split.append(block)
    array = array.transpose(order).reshape(split)
    return array.transpose([place[letter, block > 0] for letter, block in dst.axes])


def transform_loops(array: np.ndarray, source: str, target: str) -> np.ndarray | None:
    """Return `array` of Ansor's layout `source`, which names each axis once, in its layout
    `target`; None where the two do not fit each other or the array."""
    axes = [(name, int(length)) for length, name in _LOOP.findall(source)]
    loops = [(name, int(length)) for length, name in _LOOP.findall(target)]
    split: list[int] = []
    places: dict[str, list[int]] = {}
    for name, length in axes:
        lengths = [extent for axis, extent in loops if axis == name]
        if name in places or math.prod(lengths) != length:
            return None
        places[name] = [len(split) + place for place in range(len(lengths))]
        split += lengths
    if tuple(length for _, length in axes) != array.shape or len(split) != len(loops):
        return None
    return array.reshape(split).transpose([places[name].pop(0) for name, _ in loops])
