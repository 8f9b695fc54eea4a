# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests of candidates measure: a convolution, and a part of a backend."""

import numpy as np
import tvm
from tvm import relay


def conv(seed=0, channels=32, size=3, bias=True, name="x"):
    rng = np.random.default_rng(seed)
    x = relay.var(name, shape=(1, 4, 8, 8))
    weight = relay.const(rng.standard_normal((channels, 4, size, size)).astype("float32"))
    y = relay.nn.conv2d(x, weight, channels=channels, kernel_size=(size, size))
    if bias:
        y = relay.nn.bias_add(y, relay.const(rng.standard_normal(channels).astype("float32")))
    return relay.Function([x], relay.nn.relu(y))


def external(seed=0, symbol="a", weight_shape=(8, 8), compiler="dnnl"):
    """main that calls a function literal of an external backend that holds a weight."""
    weight = np.random.default_rng(seed).standard_normal(weight_shape).astype("float32")
    p = relay.var("p", shape=(2, 8))
    inner = relay.Function([p], relay.nn.relu(relay.nn.dense(p, relay.const(weight))))
    inner = inner.with_attr("Compiler", compiler).with_attr("global_symbol", symbol)
    inner = inner.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    x = relay.var("x", shape=(2, 8))
    return relay.Function([x], relay.exp(relay.Call(inner, [x])))
