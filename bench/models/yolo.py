# SPDX-License-Identifier: Apache-2.0
"""YOLOv3 (arXiv 1804.02767) on 416x416, 80 classes; outputs are the three raw feature maps.
Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net

STAGES = (1, 2, 8, 8, 4)
ANSWERS = 3 * (80 + 5)


def yolov3(batch: int) -> onnx.ModelProto:
    g = Graph("yolov3")

    def layer(
        data: Tensor, channels: int, kernel: int, stride: int = 1, gain: float = 1.0
    ) -> Tensor:
        x = g.norm(g.conv(data, channels, kernel, stride), gain)
        return Tensor(g.op("LeakyRelu", x, alpha=0.1), channels)

    def neck(data: Tensor, channels: int) -> Tensor:
        """Five layers, narrow and wide in turn."""
        for index in range(5):
            wide = index % 2
            data = layer(data, channels * (1 + wide), 3 if wide else 1)
        return data

    x = layer(g.input("image", (batch, 3, 416, 416)), 32, 3)
    stages = []
    for index, blocks in enumerate(STAGES):
        x = layer(x, 64 << index, 3, 2)
        for _ in range(blocks):
            x = g.add(x, layer(layer(x, x.channels // 2, 1), x.channels, 3, gain=0.4))
        stages.append(x)
    scales = g.constant([1.0, 1.0, 2.0, 2.0], "float32")
    answers = []
    for index, channels in enumerate((512, 256, 128)):
        if index:
            x = layer(x, channels, 1)
            larger = g.op(
                "Resize",
                x,
                "",
                scales,
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
            x = g.concat([Tensor(larger, channels), stages[-1 - index]])
        x = neck(x, channels)
        answers.append(g.conv(layer(x, 2 * channels, 3), ANSWERS, 1, bias=True))
    return g.model(*answers)


NETS = [
    Net(
        "yolov3",
        "YOLOv3, 416x416",
        yolov3,
        "MACs: half the 65.86 BFLOPs of the authors' page; parameters: its weights file",
        61_949_149,
        32.93e9,
    ),
]
