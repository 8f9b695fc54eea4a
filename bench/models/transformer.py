# SPDX-License-Identifier: Apache-2.0
"""Layers that BERT, GPT-2 and ViT share, in the form in which PyTorch exports them.

Sequences are (batch, tokens, features). Test: bench/test_models.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .graph import Graph, Tensor

WIDTH, HEADS, INNER, LAYERS = 768, 12, 3072, 12
_DEVIATION = 0.02


class Layers:
    def __init__(self, g: Graph, batch: int, tokens: int, epsilon: float) -> None:
        self.g = g
        self._epsilon = epsilon
        self._split = g.constant([batch, tokens, HEADS, WIDTH // HEADS])
        self._join = g.constant([batch, tokens, WIDTH])
        self._scale = g.constant(math.sqrt(WIDTH // HEADS), "float32")
        self._one, self._half = g.constant(1.0, "float32"), g.constant(0.5, "float32")

    def table(self, rows: int) -> str:
        """Add an embedding's weights."""
        return self.g.normal((rows, WIDTH), _DEVIATION)

    def linear(self, data: Tensor, units: int) -> Tensor:
        g = self.g
        product = g.op("MatMul", data, g.normal((data.channels, units), _DEVIATION))
        return Tensor(g.op("Add", product, g.normal((units,), _DEVIATION)), units)

    def norm(self, data: Tensor) -> Tensor:
        g, shape = self.g, (data.channels,)
        weights = g.uniform(shape, 0.7, 1.3), g.normal(shape, 0.1)
        name = g.op("LayerNormalization", data, *weights, axis=-1, epsilon=self._epsilon)
        return Tensor(name, data.channels)

    def attention(self, q: str, k: str, v: str, mask: str | None = None) -> Tensor:
        """Add attention of projections (batch, tokens, features); the mask is added to the
        scores."""
        g = self.g
        q, k, v = (g.op("Reshape", item, self._split) for item in (q, k, v))
        q, v = (g.op("Transpose", item, perm=[0, 2, 1, 3]) for item in (q, v))
        k = g.op("Transpose", k, perm=[0, 2, 3, 1])
        scores = g.op("Div", g.op("MatMul", q, k), self._scale)
        if mask is not None:
            scores = g.op("Add", scores, mask)
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
        mixed = g.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return Tensor(g.op("Reshape", mixed, self._join), WIDTH)

    def mixed_attention(self, data: Tensor, mask: str | None = None) -> Tensor:
        """Attention whose three projections are one product, and the output's projection."""
        joined = self.linear(data, 3 * WIDTH)
        parts = self.g.constant([WIDTH] * 3)
        q, k, v = self.g.op("Split", joined, parts, outputs=3, axis=-1)
        return self.linear(self.attention(q, k, v, mask), WIDTH)

    def feed_forward(self, data: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        return self.linear(activation(self.linear(data, INNER)), WIDTH)

    def gelu(self, data: Tensor) -> Tensor:
        """Add it by the error function."""
        g = self.g
        root = g.constant(math.sqrt(2), "float32")
        bell = g.op("Add", g.op("Erf", g.op("Div", data, root)), self._one)
        return Tensor(g.op("Mul", g.op("Mul", data, bell), self._half), data.channels)

    def gelu_tanh(self, data: Tensor) -> Tensor:
        """Add it by the hyperbolic tangent, as GPT-2 has it."""
        g = self.g
        cube = g.op("Pow", data, g.constant(3.0, "float32"))
        inner = g.op("Add", data, g.op("Mul", cube, g.constant(0.044715, "float32")))
        inner = g.op("Mul", inner, g.constant(math.sqrt(2 / math.pi), "float32"))
        bell = g.op("Add", g.op("Tanh", inner), self._one)
        return Tensor(g.op("Mul", g.op("Mul", data, self._half), bell), data.channels)

    def pre_norm_block(
        self, data: Tensor, activation: Callable[[Tensor], Tensor], mask: str | None = None
    ) -> Tensor:
        """Add a layer that normalises before attention and before the feed-forward net."""
        data = self.g.add(data, self.mixed_attention(self.norm(data), mask))
        return self.g.add(data, self.feed_forward(self.norm(data), activation))
