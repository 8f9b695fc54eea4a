# SPDX-License-Identifier: Apache-2.0
"""The generator of DCGAN (arXiv 1511.06434), 64x64, in the widths of PyTorch's example.
Test: bench/test_models.py."""

from __future__ import annotations

import math

import onnx

from .graph import Graph, Tensor
from .net import Net

NOISE, WIDTHS = 100, (512, 256, 128, 64, 3)


def dcgan(batch: int) -> onnx.ModelProto:
    g = Graph("dcgan")
    x = g.input("noise", (batch, NOISE, 1, 1))
    for index, width in enumerate(WIDTHS):
        # A kernel of 4 at stride 2 adds four products for each input channel.
        terms = x.channels * (4 if index else 1)
        weight = g.normal((x.channels, width, 4, 4), math.sqrt(2 / terms))
        stride, pad = (2, 1) if index else (1, 0)
        name = g.op(
            "ConvTranspose", x, weight, kernel_shape=[4, 4], strides=[stride] * 2, pads=[pad] * 4
        )
        x = Tensor(name, width)
        if width != WIDTHS[-1]:
            x = g.relu(g.norm(x))
    return g.model(g.op("Tanh", x))


# Input pixels times the kernel, layer by layer.
_MACS = 16 * sum(
    a * b * pixels
    for a, b, pixels in zip((NOISE, *WIDTHS), WIDTHS, (1, 16, 64, 256, 1024), strict=False)
)

NETS = [
    Net(
        "dcgan",
        "DCGAN generator, 64x64",
        dcgan,
        "parameters: PyTorch's DCGAN tutorial, netG; MACs: by definition, none published",
        3_576_704,
        _MACS,
        mac_tolerance=0.0,
    ),
]
