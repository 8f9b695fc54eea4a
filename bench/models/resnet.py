# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (arXiv 1512.03385, stride at the 3x3 convolution) and ResNeXt-50 32x4d (arXiv
1611.05431). Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

LAYERS = (3, 4, 6, 3)


def _bottleneck(
    g: Graph, data: Tensor, channels: int, width: int, stride: int, groups: int
) -> Tensor:
    x = g.relu(g.norm(g.conv(data, width, 1)))
    x = g.relu(g.norm(g.conv(x, width, 3, stride, group=groups)))
    x = g.norm(g.conv(x, channels, 1), gain=0.4)
    if stride != 1 or data.channels != channels:
        data = g.norm(g.conv(data, channels, 1, stride))
    return g.relu(g.add(x, data))


def _resnet(title: str, batch: int, width: int, groups: int) -> onnx.ModelProto:
    g = Graph(title)
    x = g.relu(g.norm(g.conv(g.input("image", (batch, 3, 224, 224)), 64, 7, 2)))
    x = g.pool("Max", x, 3, 2, 1)
    for stage, blocks in enumerate(LAYERS):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _bottleneck(g, x, 256 << stage, width << stage, stride, groups)
    return g.model(g.classify(x, 1000))


NETS = [
    Net(
        "resnet50",
        "ResNet-50, 224x224",
        lambda batch: _resnet("resnet50", batch, 64, 1),
        "torchvision, ResNet50_Weights",
        25_557_032,
        4.089e9,
    ),
    Net(
        "resnext50",
        "ResNeXt-50 32x4d, 224x224",
        lambda batch: _resnet("resnext50", batch, 128, 32),
        "torchvision, ResNeXt50_32X4D_Weights",
        25_028_904,
        4.23e9,
    ),
]
