# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (arXiv 1512.03385, stride at the 3x3 convolution), ResNeXt-50 32x4d (arXiv 1611.05431),
and in 3D, of 16 frames and 400 classes, ResNet-18 (arXiv 1711.11248, R3D) and ResNet-50 (arXiv
1711.09577). Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

LAYERS = (3, 4, 6, 3)
_IMAGE, _CLIP = (3, 224, 224), (3, 16, 112, 112)


def _shortcut(g: Graph, data: Tensor, channels: int, stride: int) -> Tensor:
    if stride == 1 and data.channels == channels:
        return data
    return g.norm(g.conv(data, channels, 1, stride))


def _basic(g: Graph, data: Tensor, width: int, stride: int) -> Tensor:
    x = g.relu(g.norm(g.conv(data, width, 3, stride)))
    x = g.norm(g.conv(x, width, 3), gain=0.4)
    return g.relu(g.add(x, _shortcut(g, data, width, stride)))


def _bottleneck(
    g: Graph, data: Tensor, channels: int, width: int, stride: int, groups: int
) -> Tensor:
    x = g.relu(g.norm(g.conv(data, width, 1)))
    x = g.relu(g.norm(g.conv(x, width, 3, stride, group=groups)))
    x = g.norm(g.conv(x, channels, 1), gain=0.4)
    return g.relu(g.add(x, _shortcut(g, data, channels, stride)))


def _of_bottlenecks(
    g: Graph, x: Tensor, classes: int, width: int = 64, groups: int = 1
) -> onnx.ModelProto:
    """Add the net behind its first convolution."""
    x = g.pool("Max", g.relu(g.norm(x)), 3, 2, 1)
    for stage, blocks in enumerate(LAYERS):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _bottleneck(g, x, 256 << stage, width << stage, stride, groups)
    return g.model(g.classify(x, classes))


def _resnet(title: str, batch: int, width: int, groups: int) -> onnx.ModelProto:
    g = Graph(title)
    x = g.conv(g.input("image", (batch, *_IMAGE)), 64, 7, 2)
    return _of_bottlenecks(g, x, 1000, width, groups)


def resnet3d_18(batch: int) -> onnx.ModelProto:
    g = Graph("resnet3d_18", dims=3)
    x = g.relu(g.norm(g.conv(g.input("clip", (batch, *_CLIP)), 64, (3, 7, 7), (1, 2, 2))))
    for stage in range(4):
        for block in range(2):
            x = _basic(g, x, 64 << stage, 2 if stage and not block else 1)
    return g.model(g.classify(x, 400))


def resnet3d_50(batch: int) -> onnx.ModelProto:
    g = Graph("resnet3d_50", dims=3)
    x = g.conv(g.input("clip", (batch, *_CLIP)), 64, 7, (1, 2, 2))
    return _of_bottlenecks(g, x, 400)


# The published ResNet-50, each 3x3 kernel three times as deep, a stem of 7x7x7, 400 classes.
_KERNELS_3X3 = 9 * (3 * 64**2 + 4 * 128**2 + 6 * 256**2 + 3 * 512**2)
_FROM_RESNET50 = 25_557_032 + 2 * _KERNELS_3X3 + 6 * 49 * 3 * 64 - 600 * 2049

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
