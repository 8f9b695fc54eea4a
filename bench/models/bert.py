# SPDX-License-Identifier: Apache-2.0
"""BERT-base, uncased, with embeddings and pooler (arXiv 1810.04805). Test: bench/test_models.py."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from .graph import Graph, Tensor
from .net import Net
from .transformer import LAYERS, WIDTH, Layers

WORDS, POSITIONS, SEGMENTS, TOKENS = 30522, 512, 2, 128


def bert_base(batch: int, layers: int = LAYERS) -> onnx.ModelProto:
    g = Graph("bert_base")
    shape = (batch, TOKENS)
    names = ("input_ids", "attention_mask", "token_type_ids")
    words, mask, segments = (g.input(name, shape, TensorProto.INT64) for name in names)
    net = Layers(g, batch, TOKENS, 1e-12)
    places = g.constant([range(TOKENS)])
    x = g.op("Gather", net.table(WORDS), words)
    x = g.op("Add", x, g.op("Gather", net.table(SEGMENTS), segments))
    x = g.op("Add", x, g.op("Gather", net.table(POSITIONS), places))
    x = net.norm(Tensor(x, WIDTH))
    # 0 where a token counts, far below zero where not; (batch, 1, 1, tokens).
    kept = g.op("Cast", g.op("Unsqueeze", mask, g.constant([1, 2])), to=TensorProto.FLOAT)
    hidden = g.op("Sub", g.constant(1.0, "float32"), kept)
    hidden = g.op("Mul", hidden, g.constant(-10000.0, "float32"))
    for _ in range(layers):
        q, k, v = (net.linear(x, WIDTH).name for _ in range(3))
        x = net.norm(g.add(net.linear(net.attention(q, k, v, hidden), WIDTH), x))
        x = net.norm(g.add(net.feed_forward(x, net.gelu), x))
    first = g.op("Gather", x, g.constant(0), axis=1)
    pooled = g.op("Tanh", g.dense(Tensor(first, WIDTH), WIDTH))
    return g.model(x, pooled)


NETS = [
    Net(
        "bert",
        "BERT-base, 128 tokens",
        bert_base,
        "parameters: bert-base-uncased; MACs: half the 22.5 GFLOPs of arXiv 2004.02984, table 3",
        109_482_240,
        11.25e9,
        limits={"input_ids": WORDS, "attention_mask": 2, "token_type_ids": SEGMENTS},
    ),
]
