# SPDX-License-Identifier: Apache-2.0
"""Inception-v3 (arXiv 1512.00567) as released: batch normalisation everywhere, no auxiliary head.
Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net


class _Blocks:
    def __init__(self, g: Graph) -> None:
        self.g = g

    def layer(self, data: Tensor, channels: int, kernel, stride: int = 1, pad=None) -> Tensor:
        g = self.g
        return g.relu(g.norm(g.conv(data, channels, kernel, stride, pad), epsilon=1e-3))

    def chain(self, data: Tensor, *rows: tuple) -> Tensor:
        """Add layers of (channels, kernel) one after the other."""
        for row in rows:
            data = self.layer(data, *row)
        return data

    def average(self, data: Tensor, channels: int) -> Tensor:
        pooled = self.g.pool("Average", data, 3, 1, 1, count_include_pad=1)
        return self.layer(pooled, channels, 1)

    def grid_35(self, data: Tensor, pooled: int) -> Tensor:
        parts = [
            self.layer(data, 64, 1),
            self.chain(data, (48, 1), (64, 5)),
            self.chain(data, (64, 1), (96, 3), (96, 3)),
            self.average(data, pooled),
        ]
        return self.g.concat(parts)

    def reduce_35(self, data: Tensor) -> Tensor:
        parts = [
            self.layer(data, 384, 3, 2, 0),
            self.chain(data, (64, 1), (96, 3), (96, 3, 2, 0)),
            self.g.pool("Max", data, 3, 2),
        ]
        return self.g.concat(parts)

    def grid_17(self, data: Tensor, c: int) -> Tensor:
        row, column = (1, 7), (7, 1)
        parts = [
            self.layer(data, 192, 1),
            self.chain(data, (c, 1), (c, row), (192, column)),
            self.chain(data, (c, 1), (c, column), (c, row), (c, column), (192, row)),
            self.average(data, 192),
        ]
        return self.g.concat(parts)

    def reduce_17(self, data: Tensor) -> Tensor:
        parts = [
            self.chain(data, (192, 1), (320, 3, 2, 0)),
            self.chain(data, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, 0)),
            self.g.pool("Max", data, 3, 2),
        ]
        return self.g.concat(parts)

    def grid_8(self, data: Tensor) -> Tensor:
        def both(x: Tensor) -> list[Tensor]:
            return [self.layer(x, 384, (1, 3)), self.layer(x, 384, (3, 1))]

        parts = [
            self.layer(data, 320, 1),
            *both(self.layer(data, 384, 1)),
            *both(self.chain(data, (448, 1), (384, 3))),
            self.average(data, 192),
        ]
        return self.g.concat(parts)


def inception_v3(batch: int) -> onnx.ModelProto:
    g = Graph("inception_v3")
    net = _Blocks(g)
    x = g.input("image", (batch, 3, 299, 299))
    x = net.chain(x, (32, 3, 2, 0), (32, 3, 1, 0), (64, 3))
    x = g.pool("Max", x, 3, 2)
    x = net.chain(x, (80, 1), (192, 3, 1, 0))
    x = g.pool("Max", x, 3, 2)
    for pooled in (32, 64, 64):
        x = net.grid_35(x, pooled)
    x = net.reduce_35(x)
    for width in (128, 160, 160, 192):
        x = net.grid_17(x, width)
    x = net.reduce_17(x)
    for _ in range(2):
        x = net.grid_8(x)
    return g.model(g.classify(x, 1000))


# torchvision counts its auxiliary head, which only training has.
_AUXILIARY = 768 * 128 + 2 * 128 + 128 * 768 * 25 + 2 * 768 + 769 * 1000

NETS = [
    Net(
        "inception_v3",
        "Inception-v3, 299x299",
        inception_v3,
        "torchvision, Inception_V3_Weights, less the auxiliary head's parameters",
        27_161_264 - _AUXILIARY,
        5.713e9,
    ),
]
