# SPDX-License-Identifier: Apache-2.0
"""GPT-2 small, one pass over 64 tokens, logits of all of them. Test: bench/test_models.py."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .graph import Graph, Tensor
from .net import Net
from .transformer import INNER, LAYERS, WIDTH, Layers

WORDS, POSITIONS, TOKENS = 50257, 1024, 64


def gpt2(batch: int) -> onnx.ModelProto:
    g = Graph("gpt2")
    words = g.input("input_ids", (batch, TOKENS), TensorProto.INT64)
    net = Layers(g, batch, TOKENS, 1e-5)
    table = net.table(WORDS)
    places = g.op("Gather", net.table(POSITIONS), g.constant([range(TOKENS)]))
    x = Tensor(g.op("Add", g.op("Gather", table, words), places), WIDTH)
    # Nobody looks ahead.
    mask = g.constant(np.triu(np.full((TOKENS, TOKENS), -10000.0), 1)[None, None], "float32")
    for _ in range(LAYERS):
        x = net.pre_norm_block(x, net.gelu_tanh, mask)
    rows = g.op("Reshape", net.norm(x), g.constant([batch * TOKENS, WIDTH]))
    logits = g.op("Gemm", rows, table, transB=1)  # the embedding's weights once more
    return g.model(g.op("Reshape", logits, g.constant([batch, TOKENS, WORDS])))


# arXiv 2001.08361, table 1: weights of the layers, attention over the context; then the logits.
_LAYER = 4 * WIDTH**2 + 2 * WIDTH * INNER
_MACS = TOKENS * (LAYERS * (_LAYER + 2 * TOKENS * WIDTH) + WIDTH * WORDS)

NETS = [
    Net(
        "gpt2",
        "GPT-2 small, 64 tokens",
        gpt2,
        "parameters: the released 124M model; MACs: the formula of arXiv 2001.08361, table 1",
        124_439_808,
        _MACS,
        limits={"input_ids": WORDS},
    ),
]
