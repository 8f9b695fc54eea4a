# SPDX-License-Identifier: Apache-2.0
"""The nets of bench/search.py and bench/measuring.py: those of bench/models, and synthetic ones of
any size. Test: bench/test_search_nets.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import models
import numpy as np
import tvm
from tvm import relay

_SEED = 0
Workload = tuple[tvm.IRModule, dict[str, Any]]

PUBLISHED = ("resnet50", "mobilenetv2", "inception_v3", "densenet121", "bert", "nasnet")
# The widest positions, and the most candidates that real costs were asked of.
WIDEST = ("nasrnn", "ppocr_rec")


def build(name: str) -> Workload:
    """Module and parameters of a net of bench/models, or of a synthetic one as "chain:1000".

    ValueError for a name that is neither.
    """
    kind, _, nodes = name.partition(":")
    if kind in SYNTHETIC and nodes.isdigit():
        return SYNTHETIC[kind](int(nodes))
    (net,) = models.find(name)
    return models.to_relay(net.build(1))


class Builder:
    """Relay expressions with their weights, named as they are made."""

    def __init__(self) -> None:
        self._count = 0

    def weight(self, *shape: int) -> relay.Var:
        self._count += 1
        return relay.var(f"weight{self._count}", shape=shape)

    def conv(self, data, channels, kernel, *, inputs, groups=1):
        """Convolution with bias, NCHW, of the same height and width."""
        out = relay.nn.conv2d(
            data,
            self.weight(channels, inputs // groups, kernel, kernel),
            channels=channels,
            kernel_size=(kernel, kernel),
            padding=kernel // 2,
            groups=groups,
        )
        return relay.nn.bias_add(out, self.weight(channels))


def workload(body: relay.Expr) -> Workload:
    """Typed module of `body`'s free variables, random weights for all but "data"."""
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    mod = relay.transform.InferType()(mod)
    rng = np.random.default_rng(_SEED)
    params = {}
    for var in mod["main"].params:
        if var.name_hint != "data":
            shape = tuple(int(dim) for dim in var.checked_type.shape)
            value = rng.standard_normal(shape, "float32") / math.sqrt(math.prod(shape[1:]))
            params[var.name_hint] = tvm.nd.array(value)
    return mod, params


def chain(nodes: int) -> Workload:
    """Convolution, bias, ReLU, one after the other: about `nodes` calls."""
    net = Builder()
    out = relay.var("data", shape=(1, 16, 8, 8))
    for _ in range(nodes // 3):
        out = relay.nn.relu(net.conv(out, 16, 3, inputs=16))
    return workload(out)


def inception_like(nodes: int) -> Workload:
    """Blocks of four branches, as Inception's: about `nodes` calls."""
    net = Builder()

    def layer(data, channels, kernel, inputs):
        return relay.nn.relu(net.conv(data, channels, kernel, inputs=inputs))

    out = relay.var("data", shape=(1, 32, 8, 8))
    for _ in range(max(1, nodes // 24)):
        branches = [
            layer(out, 8, 1, 32),
            layer(layer(out, 8, 1, 32), 8, 3, 8),
            layer(layer(layer(out, 8, 1, 32), 8, 3, 8), 8, 3, 8),
            layer(relay.nn.avg_pool2d(out, pool_size=(3, 3), padding=(1, 1)), 8, 1, 32),
        ]
        out = relay.concatenate(branches, axis=1)
    return workload(out)


SYNTHETIC: dict[str, Callable[[int], Workload]] = {
    "chain": chain,
    "inception": inception_like,
}
