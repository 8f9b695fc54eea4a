# SPDX-License-Identifier: Apache-2.0
"""DenseNet-121 (arXiv 1608.06993): each layer takes all features before it.
Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

GROWTH, LAYERS = 32, (6, 12, 24, 16)


def densenet121(batch: int) -> onnx.ModelProto:
    g = Graph("densenet121")

    def layer(data: Tensor, channels: int, kernel: int) -> Tensor:
        return g.conv(g.relu(g.norm(data)), channels, kernel)

    x = g.relu(g.norm(g.conv(g.input("image", (batch, 3, 224, 224)), 64, 7, 2)))
    x = g.pool("Max", x, 3, 2, 1)
    for block, layers in enumerate(LAYERS):
        if block:
            x = g.pool("Average", layer(x, x.channels // 2, 1), 2, 2)
        features = [x]
        for _ in range(layers):
            inputs = g.concat(features) if len(features) > 1 else x
            features.append(layer(layer(inputs, 4 * GROWTH, 1), GROWTH, 3))
        x = g.concat(features)
    return g.model(g.classify(g.relu(g.norm(x)), 1000))


NETS = [
    Net(
        "densenet121",
        "DenseNet-121, 224x224",
        densenet121,
        "torchvision, DenseNet121_Weights",
        7_978_856,
        2.834e9,
    ),
]
