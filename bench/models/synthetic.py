# SPDX-License-Identifier: Apache-2.0
"""Nets that nobody published: of any size, as "chain:1000", for what grows with it, and a small one
of two inputs. Test: bench/test_models.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx

from .graph import Graph, Tensor
from .net import Net


def chain(batch: int, nodes: int) -> onnx.ModelProto:
    """Convolution, bias, ReLU, one after the other: about `nodes` calls in Relay."""
    g = Graph("chain")
    x = g.input("data", (batch, 16, 8, 8))
    for _ in range(nodes // 3):
        x = g.relu(g.conv(x, 16, 3, bias=True))
    return g.model(x)


def inception(batch: int, nodes: int) -> onnx.ModelProto:
    """Make blocks of four branches, as Inception's: about `nodes` calls in Relay."""
    g = Graph("inception")

    def layer(data: Tensor, channels: int, kernel: int) -> Tensor:
        return g.relu(g.conv(data, channels, kernel, bias=True))

    x = g.input("data", (batch, 32, 8, 8))
    for _ in range(max(1, nodes // 24)):
        branches = [
            layer(x, 8, 1),
            layer(layer(x, 8, 1), 8, 3),
            layer(layer(layer(x, 8, 1), 8, 3), 8, 3),
            layer(g.pool("Average", x, 3, 1, pad=1), 8, 1),
        ]
        x = g.concat(branches)
    return g.model(x)


def two_inputs(batch: int) -> onnx.ModelProto:
    """Two dense layers of the sum of two inputs, some 20 us."""
    g = Graph("two_inputs")
    x = g.add(g.input("a", (batch, 256)), g.input("b", (batch, 256)))
    return g.model(g.dense(g.relu(g.dense(x, 512)), 256))


SIZED: dict[str, Callable[[int, int], onnx.ModelProto]] = {"chain": chain, "inception": inception}
_SMALL = Net("two_inputs", "two dense layers of a sum", two_inputs, "nobody")


def find_synthetic(name: str) -> Net | None:
    """Return the net of a name as "two_inputs" or "chain:1000"; None for another."""
    if name == _SMALL.name:
        return _SMALL
    kind, _, nodes = name.partition(":")
    if kind not in SIZED or not nodes.isdigit():
        return None
    build = functools.partial(SIZED[kind], nodes=int(nodes))
    return Net(name, f"{kind} of about {nodes} calls", build, "nobody")
