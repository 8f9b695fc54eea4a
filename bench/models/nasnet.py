# SPDX-License-Identifier: Apache-2.0
"""NASNet-A (4 @ 1056), "mobile" (arXiv 1707.07012, figure 4 and appendix A).
Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

FILTERS = 1056 // 24
CELLS = 4  # normal cells of each of the three stages
_EPSILON = 1e-3
# Sums of two and chains of cells keep their size.
_GAIN = 0.7


class _Cells:
    def __init__(self, g: Graph) -> None:
        self.g = g
        # Zeros after the last row and column, then a crop of the first ones: in the other order
        # onnxruntime would join Pad with AveragePool, and fail.
        self._pads = g.constant([0, 0, 0, 0, 0, 0, 1, 1])
        self._crop = [g.constant([1, 1]), g.constant([1000, 1000]), g.constant([2, 3])]

    def norm(self, data: Tensor) -> Tensor:
        return self.g.norm(data, _GAIN, _EPSILON)

    def separable(self, data: Tensor, channels: int, kernel: int, stride: int = 1) -> Tensor:
        """ReLU, depthwise, pointwise, norm: twice, the stride in the first one."""
        g = self.g
        for step in (stride, 1):
            x = g.conv(g.relu(data), data.channels, kernel, step, group=data.channels)
            data = self.norm(g.conv(x, channels, 1))
        return data

    def squeeze(self, data: Tensor, channels: int) -> Tensor:
        return self.norm(self.g.conv(self.g.relu(data), channels, 1))

    def halve(self, data: Tensor, channels: int) -> Tensor:
        """Half the resolution without losing pixels: two grids, one shifted by a pixel."""
        g = self.g
        x = g.relu(data)
        shifted = Tensor(g.op("Slice", g.op("Pad", x, self._pads), *self._crop), x.channels)
        halves = [g.conv(g.pool("Average", grid, 1, 2), channels // 2, 1) for grid in (x, shifted)]
        return self.norm(g.concat(halves))

    def average(self, data: Tensor, stride: int = 1) -> Tensor:
        return self.g.pool("Average", data, 3, stride, 1)

    def largest(self, data: Tensor) -> Tensor:
        return self.g.pool("Max", data, 3, 2, 1)

    def normal(self, data: Tensor, before: Tensor, channels: int) -> Tensor:
        """Add a cell; `before`: what the cell before had, at the resolution of `data`."""
        g, p, h = self.g, before, self.squeeze(data, channels)
        sums = [
            g.add(self.separable(h, channels, 5), self.separable(p, channels, 3)),
            g.add(self.separable(p, channels, 5), self.separable(p, channels, 3)),
            g.add(self.average(h), p),
            g.add(self.average(p), self.average(p)),
            g.add(self.separable(h, channels, 3), h),
        ]
        return g.concat([p, *sums])

    def reduction(self, data: Tensor, before: Tensor, channels: int) -> Tensor:
        g, p, h = self.g, before, self.squeeze(data, channels)
        first = g.add(self.separable(h, channels, 5, 2), self.separable(p, channels, 7, 2))
        second = g.add(self.largest(h), self.separable(p, channels, 7, 2))
        third = g.add(self.average(h, 2), self.separable(p, channels, 5, 2))
        fourth = g.add(self.average(first), second)
        fifth = g.add(self.separable(first, channels, 3), self.largest(h))
        return g.concat([second, third, fourth, fifth])


def nasnet_mobile(batch: int) -> onnx.ModelProto:
    g = Graph("nasnet_mobile")
    cells = _Cells(g)
    x = g.conv(g.input("image", (batch, 3, 224, 224)), 32, 3, 2, pad=0)
    x = g.norm(x, epsilon=_EPSILON)
    before: Tensor | None = None
    is_halved = False  # whether x has half the resolution of `before`

    def adjusted(channels: int) -> Tensor:
        """Bring `before` to the resolution of x and so many channels."""
        if before is None:
            return x
        if is_halved:
            return cells.halve(before, channels)
        return cells.squeeze(before, channels) if before.channels != channels else before

    for channels in (FILTERS // 4, FILTERS // 2):
        x, before = cells.reduction(x, adjusted(channels), channels), x
        is_halved = True
    for stage in range(3):
        channels = FILTERS << stage
        if stage:
            x, before = cells.reduction(x, adjusted(channels), channels), x
            is_halved = True
        for _ in range(CELLS):
            x, before = cells.normal(x, adjusted(channels), channels), x
            is_halved = False
    return g.model(g.classify(g.relu(x), 1000))


NETS = [
    Net(
        "nasnet",
        "NASNet-A mobile, 224x224",
        nasnet_mobile,
        "parameters: the paper says 5.3 M, Keras' NASNetMobile has 5,289,978 trainable ones; "
        "MACs: the paper, table 3",
        5_289_978,
        564e6,
        mac_tolerance=0.03,
    ),
]
