# SPDX-License-Identifier: Apache-2.0
"""3D ResNet-18 (arXiv 1711.11248, R3D) and 3D ResNet-50 (arXiv 1711.09577): 16 frames, 400 classes.
Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net


def _shortcut(g: Graph, data: Tensor, channels: int, stride: int) -> Tensor:
    if stride == 1 and data.channels == channels:
        return data
    return g.norm(g.conv(data, channels, 1, stride))


def _basic(g: Graph, data: Tensor, width: int, stride: int) -> Tensor:
    x = g.relu(g.norm(g.conv(data, width, 3, stride)))
    x = g.norm(g.conv(x, width, 3), gain=0.4)
    return g.relu(g.add(x, _shortcut(g, data, width, stride)))


def _bottleneck(g: Graph, data: Tensor, width: int, stride: int) -> Tensor:
    x = g.relu(g.norm(g.conv(data, width, 1)))
    x = g.relu(g.norm(g.conv(x, width, 3, stride)))
    x = g.norm(g.conv(x, 4 * width, 1), gain=0.4)
    return g.relu(g.add(x, _shortcut(g, data, 4 * width, stride)))


def resnet3d_18(batch: int) -> onnx.ModelProto:
    g = Graph("resnet3d_18", dims=3)
    x = g.relu(g.norm(g.conv(g.input("clip", (batch, 3, 16, 112, 112)), 64, (3, 7, 7), (1, 2, 2))))
    for stage in range(4):
        for block in range(2):
            x = _basic(g, x, 64 << stage, 2 if stage and not block else 1)
    return g.model(g.classify(x, 400))


def resnet3d_50(batch: int) -> onnx.ModelProto:
    g = Graph("resnet3d_50", dims=3)
    x = g.relu(g.norm(g.conv(g.input("clip", (batch, 3, 16, 112, 112)), 64, 7, (1, 2, 2))))
    x = g.pool("Max", x, 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = _bottleneck(g, x, 64 << stage, 2 if stage and not block else 1)
    return g.model(g.classify(x, 400))


# The published ResNet-50, each 3x3 kernel three times as deep, a stem of 7x7x7, 400 classes.
_KERNELS_3X3 = 9 * (3 * 64**2 + 4 * 128**2 + 6 * 256**2 + 3 * 512**2)
_FROM_RESNET50 = 25_557_032 + 2 * _KERNELS_3X3 + 6 * 49 * 3 * 64 - 600 * 2049

NETS = [
    Net(
        "resnet3d_18",
        "3D ResNet-18, 16x112x112",
        resnet3d_18,
        "torchvision, R3D_18_Weights",
        33_371_472,
        40.697e9,
    ),
    Net(
        "resnet3d_50",
        "3D ResNet-50, 16x112x112",
        resnet3d_50,
        "parameters: derived from those of ResNet-50; MACs: none published for this input",
        _FROM_RESNET50,
    ),
]
