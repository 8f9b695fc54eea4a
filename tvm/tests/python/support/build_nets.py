# SPDX-License-Identifier: Apache-2.0
"""Small networks for the build's tests: one of each kind of model that people deploy."""

import numpy as np
import tvm
from tvm import relay
from tvm.relay import testing


def _weights(seed):
    rng = np.random.RandomState(seed)
    return lambda *shape: relay.const((rng.randn(*shape) * 0.2).astype("float32"))


def resnet():
    """A stem and one residual block of TVM's ResNet for 1x3x28x28: (module, params)."""
    net = testing.resnet.resnet(
        units=[1], num_stages=1, filter_list=[16, 16], num_classes=10, data_shape=(1, 3, 28, 28)
    )
    return testing.init.create_workload(net)


def separable():
    """Two depthwise-separable convolutions with batch norm and ReLU6, as in MobileNet."""
    weight = _weights(1)
    body = data = relay.var("data", shape=(1, 16, 7, 7))
    for _ in range(2):
        body = relay.nn.conv2d(
            body, weight(16, 1, 3, 3), padding=1, groups=16, channels=16, kernel_size=(3, 3)
        )
        gamma, beta, mean = weight(16), weight(16), weight(16)
        variance = relay.const(np.linspace(0.5, 2, 16).astype("float32"))
        body = relay.nn.batch_norm(body, gamma, beta, mean, variance)[0]
        body = relay.clip(body, 0, 6)
        body = relay.nn.conv2d(body, weight(16, 16, 1, 1), channels=16, kernel_size=(1, 1))
    body = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(body))
    return tvm.IRModule.from_expr(relay.Function([data], body)), {}


def transformer():
    """A transformer block: attention of 2 heads over 8 tokens of 16, and its feed-forward part."""
    weight = _weights(2)
    data = relay.var("data", shape=(1, 8, 16))

    def dense(value, outputs, inputs):
        value = relay.nn.dense(relay.reshape(value, (8, inputs)), weight(outputs, inputs))
        return relay.nn.bias_add(value, weight(outputs), axis=-1)

    def heads(value):
        value = relay.transpose(relay.reshape(value, (8, 2, 8)), (1, 0, 2))
        return value

    query, key, value = (heads(dense(data, 16, 16)) for _ in range(3))
    scores = relay.nn.batch_matmul(query, key, transpose_b=True) * relay.const(0.3)
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), value, transpose_b=False)
    mixed = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (1, 8, 16))
    body = relay.nn.layer_norm(data + mixed, weight(16), weight(16))
    hidden = dense(body, 32, 16)
    hidden = (
        hidden * relay.const(0.5) * (relay.erf(hidden * relay.const(0.7071)) + relay.const(1.0))
    )
    body = body + relay.reshape(dense(hidden, 16, 32), (1, 8, 16))
    return tvm.IRModule.from_expr(relay.Function([data], body)), {}


def lstm():
    """Three steps of an LSTM cell with 8 units, unrolled; one weight is a parameter."""
    weight = _weights(3)
    data = relay.var("data", shape=(3, 1, 8))
    to_gates, from_state, bias = relay.var("to_gates", shape=(32, 8)), weight(32, 8), weight(32)
    state = cell = relay.zeros((1, 8), "float32")
    steps = relay.split(data, 3)
    for step in range(3):
        gates = relay.nn.dense(relay.reshape(steps[step], (1, 8)), to_gates)
        gates = relay.nn.bias_add(gates + relay.nn.dense(state, from_state), bias)
        update, forget, output, value = relay.split(gates, 4, axis=1)
        cell = relay.sigmoid(forget) * cell + relay.sigmoid(update) * relay.tanh(value)
        state = relay.sigmoid(output) * relay.tanh(cell)
    function = relay.Function([data, to_gates], relay.Tuple([state, cell]))
    return tvm.IRModule.from_expr(function), {"to_gates": weight(32, 8).data}


NETS = {"resnet": resnet, "separable": separable, "transformer": transformer, "lstm": lstm}


def input_of(mod):
    """A random input for the network's one free parameter, `data`."""
    mod = relay.transform.InferType()(mod)
    (data,) = [p for p in mod["main"].params if p.name_hint == "data"]
    shape = [int(dim) for dim in data.checked_type.shape]
    return np.random.RandomState(0).randn(*shape).astype("float32")
