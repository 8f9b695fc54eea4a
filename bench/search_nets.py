# SPDX-License-Identifier: Apache-2.0
"""The nets of bench/search.py: published ones, checked by their size, and synthetic ones.

Builders return (module, params); weights are random with a fixed seed. Test: test_search_nets.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import testing

_SEED = 0
Workload = tuple[tvm.IRModule, dict[str, Any]]


class Builder:
    """Relay expressions with their weights, named as they are made."""

    def __init__(self) -> None:
        self._count = 0

    def weight(self, kind: str, shape: tuple[int, ...]) -> relay.Var:
        """A weight; the kind's ending (weight, bias, gamma, ...) says how it is initialised."""
        self._count += 1
        return relay.var(f"p{self._count}_{kind}", shape=shape)

    def conv(self, data, channels, kernel, *, inputs, strides=1, padding=None, groups=1):
        """Convolution without bias, NCHW; "same" padding unless it is given."""
        weight = self.weight("weight", (channels, inputs // groups, kernel, kernel))
        return relay.nn.conv2d(
            data,
            weight,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(strides, strides),
            padding=kernel // 2 if padding is None else padding,
            groups=groups,
        )

    def norm(self, data, channels):
        """Batch normalisation."""
        kinds = ("gamma", "beta", "moving_mean", "moving_var")
        return relay.nn.batch_norm(data, *(self.weight(kind, (channels,)) for kind in kinds))[0]

    def dense(self, data, units, inputs):
        """Dense layer with bias, (rows, inputs) -> (rows, units)."""
        product = relay.nn.dense(data, self.weight("weight", (units, inputs)), units=units)
        return relay.nn.bias_add(product, self.weight("bias", (units,)), axis=-1)

    def layer_norm(self, data, width):
        """Layer normalisation over the last axis."""
        gamma, beta = self.weight("gamma", (width,)), self.weight("beta", (width,))
        return relay.nn.layer_norm(data, gamma, beta, epsilon=1e-12)


def workload(body: relay.Expr) -> Workload:
    """Typed module of `body`'s free variables, random weights for all but `data*` variables."""
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    mod = relay.transform.InferType()(mod)
    rng = np.random.default_rng(_SEED)
    params = {}
    for var in mod["main"].params:
        name = var.name_hint
        if name.startswith("data"):
            continue
        shape = tuple(int(dim) for dim in var.checked_type.shape)
        if name.endswith(("gamma", "moving_var")):
            value = rng.uniform(0.5, 1.5, shape)
        else:
            value = rng.standard_normal(shape, dtype="float32") * 0.05
        params[name] = tvm.nd.array(value.astype("float32"))
    return mod, params


def num_parameters(params: dict[str, Any]) -> int:
    """Trainable parameters: running means and variances are not counted."""
    return sum(
        math.prod(value.shape)
        for name, value in params.items()
        if not name.endswith(("moving_mean", "moving_var"))
    )


def mobilenetv2() -> Workload:
    """MobileNetV2 1.0 at 224 (arXiv 1801.04381, table 2)."""
    net = Builder()
    out = net.conv(relay.var("data", shape=(1, 3, 224, 224)), 32, 3, inputs=3, strides=2)
    out, width = relay.clip(net.norm(out, 32), 0, 6), 32
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    rows += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, channels, repeats, first_stride in rows:
        for index in range(repeats):
            strides = 1 if index else first_stride
            block, inner = out, width * expand
            if expand != 1:
                block = net.norm(net.conv(block, inner, 1, inputs=width), inner)
                block = relay.clip(block, 0, 6)
            block = net.conv(block, inner, 3, inputs=inner, strides=strides, groups=inner)
            block = relay.clip(net.norm(block, inner), 0, 6)
            block = net.norm(net.conv(block, channels, 1, inputs=inner), channels)
            out = out + block if strides == 1 and width == channels else block
            width = channels
    out = relay.clip(net.norm(net.conv(out, 1280, 1, inputs=width), 1280), 0, 6)
    out = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(out))
    return workload(relay.nn.softmax(net.dense(out, 1000, 1280)))


def densenet121() -> Workload:
    """DenseNet-121 at 224 (arXiv 1608.06993): each layer concatenates all features before it."""
    net, growth = Builder(), 32

    def layer(data, channels, kernel, inputs):
        return net.conv(relay.nn.relu(net.norm(data, inputs)), channels, kernel, inputs=inputs)

    out, width = net.conv(relay.var("data", shape=(1, 3, 224, 224)), 64, 7, inputs=3, strides=2), 64
    out = relay.nn.relu(net.norm(out, width))
    out = relay.nn.max_pool2d(out, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for block, layers in enumerate((6, 12, 24, 16)):
        if block:
            out, width = layer(out, width // 2, 1, width), width // 2
            out = relay.nn.avg_pool2d(out, pool_size=(2, 2), strides=(2, 2))
        features = [out]
        for _ in range(layers):
            squeezed = layer(relay.concatenate(features, axis=1), 4 * growth, 1, width)
            features.append(layer(squeezed, growth, 3, 4 * growth))
            width += growth
        out = relay.concatenate(features, axis=1)
    out = relay.nn.global_avg_pool2d(relay.nn.relu(net.norm(out, width)))
    return workload(relay.nn.softmax(net.dense(relay.nn.batch_flatten(out), 1000, width)))


def bert_base(layers: int = 12, sequence: int = 128) -> Workload:
    """BERT-base, uncased, with embeddings and pooler (arXiv 1810.04805); inputs are token ids."""
    width, heads, inner, words, positions = 768, 12, 3072, 30522, 512
    size = width // heads
    net = Builder()
    tokens = relay.var("data", shape=(1, sequence), dtype="int64")
    kinds = relay.var("data_kinds", shape=(1, sequence), dtype="int64")
    places = relay.arange(relay.const(sequence, "int64"), dtype="int64")
    hidden = relay.take(net.weight("weight", (words, width)), tokens, axis=0)
    hidden = hidden + relay.take(net.weight("weight", (positions, width)), places, axis=0)
    hidden = hidden + relay.take(net.weight("weight", (2, width)), kinds, axis=0)
    hidden = relay.reshape(net.layer_norm(hidden, width), (sequence, width))

    def split(data, axes):
        data = relay.transpose(relay.reshape(data, (1, sequence, heads, size)), (0, 2, 1, 3))
        data = relay.reshape(data, (heads, sequence, size))
        return data if axes is None else relay.transpose(data, axes)

    def gelu(data):
        half = relay.const(0.5) * data
        return half * (relay.const(1.0) + relay.erf(data * relay.const(1 / math.sqrt(2))))

    for _ in range(layers):
        query, key, value = (net.dense(hidden, width, width) for _ in range(3))
        scores = relay.nn.batch_matmul(
            split(query, None), split(key, (0, 2, 1)), transpose_a=False, transpose_b=False
        )
        shares = relay.nn.softmax(scores / relay.const(math.sqrt(size)), axis=-1)
        mixed = relay.nn.batch_matmul(
            shares, split(value, None), transpose_a=False, transpose_b=False
        )
        mixed = relay.reshape(mixed, (1, heads, sequence, size))
        mixed = relay.reshape(relay.transpose(mixed, (0, 2, 1, 3)), (sequence, width))
        hidden = net.layer_norm(net.dense(mixed, width, width) + hidden, width)
        wide = gelu(net.dense(hidden, inner, width))
        hidden = net.layer_norm(net.dense(wide, width, inner) + hidden, width)
    first = relay.strided_slice(hidden, begin=[0, 0], end=[1, width])
    pooled = relay.tanh(net.dense(first, width, width))
    return workload(relay.Tuple([hidden, pooled]))


class NasNet(Builder):
    """NASNet-A's two cells (arXiv 1707.07012, figure 4)."""

    def separable(self, data, inputs, channels, kernel, strides=1):
        """ReLU, depthwise and pointwise convolution, batch norm; twice."""
        for width, step in ((inputs, strides), (channels, 1)):
            data = self.conv(
                relay.nn.relu(data), width, kernel, inputs=width, strides=step, groups=width
            )
            data = self.norm(self.conv(data, channels, 1, inputs=width), channels)
        return data

    def squeeze(self, data, inputs, channels):
        """ReLU, 1x1 convolution, batch norm."""
        return self.norm(self.conv(relay.nn.relu(data), channels, 1, inputs=inputs), channels)

    def adjust(self, last, last_width, channels, is_halved):
        """The cell before the last one, brought to this cell's size and channels."""
        if is_halved:
            data = relay.nn.relu(last)
            shifted = relay.nn.pad(data, ((0, 0), (0, 0), (0, 1), (0, 1)))
            shifted = relay.strided_slice(
                shifted, begin=[1, 1], end=[1 << 30, 1 << 30], strides=[1, 1], axes=[2, 3]
            )
            halves = [
                self.conv(
                    relay.nn.avg_pool2d(part, pool_size=(1, 1), strides=(2, 2)),
                    width,
                    1,
                    inputs=last_width,
                )
                for part, width in ((data, channels // 2), (shifted, channels - channels // 2))
            ]
            return self.norm(relay.concatenate(halves, axis=1), channels)
        return last if last_width == channels else self.squeeze(last, last_width, channels)

    def normal(self, last, this, channels, is_halved):
        """(cell before, its channels), (this, its channels) -> the next pair of them."""
        p = self.adjust(*last, channels, is_halved)
        h = self.squeeze(*this, channels)
        pool = {"pool_size": (3, 3), "padding": (1, 1)}
        pooled = [relay.nn.avg_pool2d(data, **pool) for data in (h, p, p)]
        parts = [
            p,
            self.separable(h, channels, channels, 5) + self.separable(p, channels, channels, 3),
            self.separable(p, channels, channels, 5) + self.separable(p, channels, channels, 3),
            pooled[0] + p,
            pooled[1] + pooled[2],
            self.separable(h, channels, channels, 3) + h,
        ]
        return this, (relay.concatenate(parts, axis=1), 6 * channels)

    def reduction(self, last, this, channels, is_halved=False):
        """As `normal`, at half the size."""
        if last is None:
            p, p_width = this
        else:
            p, p_width = self.adjust(*last, channels, is_halved), channels
        h = self.squeeze(*this, channels)
        pool = {"pool_size": (3, 3), "padding": (1, 1)}
        most = relay.nn.max_pool2d(h, strides=(2, 2), **pool)
        one = self.separable(h, channels, channels, 5, 2)
        one = one + self.separable(p, p_width, channels, 7, 2)
        two = most + self.separable(p, p_width, channels, 7, 2)
        three = relay.nn.avg_pool2d(h, strides=(2, 2), **pool)
        three = three + self.separable(p, p_width, channels, 5, 2)
        four = two + relay.nn.avg_pool2d(one, **pool)
        five = self.separable(one, channels, channels, 3) + most
        return this, (relay.concatenate([two, three, four, five], axis=1), 4 * channels)


def nasnet_a() -> Workload:
    """NASNet-A (4 @ 1056) at 224: the stem, three stacks of four normal cells, two reductions."""
    net, repeats, channels = NasNet(), 4, 1056 // 24
    data = relay.var("data", shape=(1, 3, 224, 224))
    this = (net.norm(net.conv(data, 32, 3, inputs=3, strides=2, padding=0), 32), 32)
    last, this = net.reduction(None, this, channels // 4)
    last, this = net.reduction(last, this, channels // 2, is_halved=True)
    for stack in range(3):
        if stack:
            last, this = net.reduction(last, this, channels << stack)
        for index in range(repeats):
            last, this = net.normal(last, this, channels << stack, is_halved=index == 0)
    out = relay.nn.global_avg_pool2d(relay.nn.relu(this[0]))
    return workload(net.dense(relay.nn.batch_flatten(out), 1000, this[1]))


def chain(nodes: int) -> Workload:
    """Convolution, bias, ReLU, one after the other: about `nodes` calls."""
    net = Builder()
    out = relay.var("data", shape=(1, 16, 8, 8))
    for _ in range(nodes // 3):
        out = net.conv(out, 16, 3, inputs=16)
        out = relay.nn.relu(relay.nn.bias_add(out, net.weight("bias", (16,))))
    return workload(out)


def inception_like(nodes: int) -> Workload:
    """Blocks of four branches, as Inception's: about `nodes` calls."""
    net = Builder()

    def layer(data, channels, kernel, inputs):
        data = net.conv(data, channels, kernel, inputs=inputs)
        return relay.nn.relu(relay.nn.bias_add(data, net.weight("bias", (channels,))))

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


def _testing(name: str, **options: Any) -> Callable[[], Workload]:
    return lambda: getattr(testing, name).get_workload(batch_size=1, **options)


# Name -> builder, published number of trainable parameters. relay.testing's ResNet-50 has a batch
# norm on its input and none at its end; its DenseNet concatenates at the end of a block only.
REAL: dict[str, tuple[Callable[[], Workload], int]] = {
    "resnet50": (_testing("resnet", num_layers=50), 25_549_486),
    "mobilenetv2": (mobilenetv2, 3_504_872),
    "inception_v3": (_testing("inception_v3"), 23_834_568),
    "densenet121": (densenet121, 7_978_856),
    "bert_base": (bert_base, 109_482_240),
    "nasnet_a": (nasnet_a, 5_289_978),
    "densenet121_tvm": (_testing("densenet", densenet_size=121), 3_544_744),
}
# Nets of bench.models: the widest positions, and the most candidates that real costs were asked of.
MODELS = ("nasrnn", "ppocr_rec")
SYNTHETIC: dict[str, Callable[[int], Workload]] = {
    "chain": chain,
    "inception": inception_like,
}
