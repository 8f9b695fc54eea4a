# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 1.0 (arXiv 1801.04381, table 2). Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

# Expansion, channels, repeats, stride of the first one.
ROWS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def mobilenetv2(batch: int) -> onnx.ModelProto:
    g = Graph("mobilenetv2")
    low, high = g.constant(0.0, "float32"), g.constant(6.0, "float32")

    def layer(data: Tensor, channels: int, kernel: int, stride: int = 1, group: int = 1) -> Tensor:
        x = g.norm(g.conv(data, channels, kernel, stride, group=group))
        return Tensor(g.op("Clip", x, low, high), channels)

    x = layer(g.input("image", (batch, 3, 224, 224)), 32, 3, 2)
    for expansion, channels, repeats, first_stride in ROWS:
        for index in range(repeats):
            stride = 1 if index else first_stride
            inner = x.channels * expansion
            y = layer(x, inner, 1) if expansion != 1 else x
            y = layer(y, inner, 3, stride, inner)
            is_added = stride == 1 and x.channels == channels
            y = g.norm(g.conv(y, channels, 1), gain=0.7 if is_added else 1.0)
            x = g.add(x, y) if is_added else y
    return g.model(g.classify(layer(x, 1280, 1), 1000))


NETS = [
    Net(
        "mobilenetv2",
        "MobileNetV2 1.0, 224x224",
        mobilenetv2,
        "torchvision, MobileNet_V2_Weights",
        3_504_872,
        0.301e9,
    ),
]
