# SPDX-License-Identifier: Apache-2.0
"""Nets with a placement by hand for the tests and the table of "measured == deployed".

Nothing runs, so the CPU is fixed: the kernels are the same on every machine.
"""

import numpy as np
import tvm
from relay_text import operators
from tvm import relay
from tvm.relay import collage, transform
from tvm.relay.collage import optimizer
from tvm.relay.collage.estimators import FunctionCosts

CPU = "llvm -mcpu=haswell"


class _Costs(FunctionCosts):
    """A candidate of dnnl is cheap if its operators are one of `wanted`, else out of the question;
    TVM's cost one each, so that the largest ones win."""

    def __init__(self, wanted):
        def price(mod, target):
            if target.kind.name == "dnnl":
                return 0.1 if sorted(operators(mod)) in wanted else float("inf")
            return 1.0

        super().__init__(price)


def placed(mod, *wanted):
    """(module, placement): oneDNN has what computes just one of `wanted` (operators, separated by
    spaces), TVM the rest in parts as large as its rules make them."""
    wanted = [sorted(text.split()) for text in wanted]
    before = optimizer.CostEstimator
    optimizer.CostEstimator = lambda *_: _Costs(wanted)
    try:
        with tvm.transform.PassContext(opt_level=3):
            options = collage.CollageOptions(guard=False)
            return mod, collage.optimize(mod, None, [CPU, "dnnl"], options).placement
    finally:
        optimizer.CostEstimator = before


def _weights(seed=0):
    generator = np.random.default_rng(seed)
    return lambda *shape: relay.const(generator.standard_normal(shape).astype("float32"))


def _module(body):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return transform.InferType()(mod)


def _conv(data, weight, channels, inputs, kernel=3, bias=True):
    out = relay.nn.conv2d(
        data,
        weight(channels, inputs, kernel, kernel),
        channels=channels,
        kernel_size=(kernel, kernel),
        padding=kernel // 2,
    )
    return relay.nn.bias_add(out, weight(channels)) if bias else out


def convolutions():
    """Convolution on TVM, one on oneDNN, two on TVM, a pool on oneDNN."""
    weight = _weights()
    out = relay.nn.relu(_conv(relay.var("data", shape=(1, 32, 14, 14)), weight, 32, 32))
    out = relay.tanh(_conv(out, weight, 32, 32, bias=False))
    for _ in range(2):
        out = relay.nn.relu(_conv(out, weight, 32, 32))
    out = relay.nn.global_avg_pool2d(out)
    return placed(_module(out), "nn.conv2d tanh", "nn.global_avg_pool2d")


def attention():
    """An attention block: both products of matrices and the softmax on oneDNN."""
    weight = _weights()
    data = relay.var("data", shape=(16, 32))

    def heads(axes):
        out = relay.nn.bias_add(relay.nn.dense(data, weight(32, 32)), weight(32))
        return relay.transpose(relay.reshape(out, (16, 4, 8)), axes)

    query, key, value = heads((1, 0, 2)), heads((1, 0, 2)), heads((1, 2, 0))
    scores = relay.nn.batch_matmul(query, key) * relay.const(0.35)
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), value)
    mixed = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (16, 32))
    out = relay.nn.relu(relay.nn.dense(mixed + data, weight(64, 32)))
    return placed(_module(out), "nn.batch_matmul", "nn.softmax")


def bottlenecks():
    """Two residual blocks of ResNet-50's kind; 3x3 convolutions on oneDNN."""
    weight = _weights()
    out = relay.var("data", shape=(1, 64, 14, 14))
    for index in range(2):
        block = relay.nn.relu(_conv(out, weight, 16, 64, 1))
        block = relay.nn.relu(_conv(block, weight, 16, 16))
        shortcut = out if index else _conv(out, weight, 64, 64, 1)
        out = relay.nn.relu(_conv(block, weight, 64, 16, 1) + shortcut)
    return placed(_module(out), "nn.conv2d nn.bias_add nn.relu", "nn.conv2d add nn.relu")


def followers():
    """Element-wise TVM parts between a convolution on TVM and one on oneDNN: they take the layout
    of the convolution, and FuseOps groups them anew."""
    weight = _weights()
    out = _conv(relay.var("data", shape=(1, 32, 14, 14)), weight, 32, 32)
    out = relay.nn.max_pool2d(out, (3, 3), (2, 2), padding=(1, 1))
    out = relay.nn.relu(relay.exp(out) + relay.const(1.0))
    return placed(_module(_conv(out, weight, 16, 32, bias=False)), "nn.conv2d")


NETS = {
    "convolutions": convolutions,
    "attention": attention,
    "bottlenecks": bottlenecks,
    "followers": followers,
}
