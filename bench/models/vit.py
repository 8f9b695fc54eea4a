# SPDX-License-Identifier: Apache-2.0
"""ViT-B/16 (arXiv 2010.11929). Test: bench/test_models.py."""

from __future__ import annotations

import onnx

from .graph import Graph, Tensor
from .net import Net
from .transformer import LAYERS, WIDTH, Layers

PATCHES = (224 // 16) ** 2


def vit(batch: int) -> onnx.ModelProto:
    g = Graph("vit")
    net = Layers(g, batch, PATCHES + 1, 1e-6)
    patches = g.conv(g.input("image", (batch, 3, 224, 224)), WIDTH, 16, 16, pad=0, bias=True)
    rows = g.op("Reshape", patches, g.constant([batch, WIDTH, PATCHES]))
    rows = g.op("Transpose", rows, perm=[0, 2, 1])
    first = g.op("Expand", g.normal((1, 1, WIDTH), 0.02), g.constant([batch, 1, WIDTH]))
    x = g.op("Concat", first, rows, axis=1)
    x = Tensor(g.op("Add", x, g.normal((1, PATCHES + 1, WIDTH), 0.02)), WIDTH)
    for _ in range(LAYERS):
        x = net.pre_norm_block(x, net.gelu)
    token = g.op("Gather", net.norm(x), g.constant(0), axis=1)
    return g.model(g.dense(Tensor(token, WIDTH), 1000))


NETS = [
    Net(
        "vit",
        "ViT-B/16, 224x224",
        vit,
        "torchvision, ViT_B_16_Weights",
        86_567_656,
        17.564e9,
    ),
]
