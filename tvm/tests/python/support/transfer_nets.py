# SPDX-License-Identifier: Apache-2.0
"""Ansor's tasks of single kernels, and schedules of them that no search was needed for."""

import functools
import json

import numpy as np
import tvm
from tuning_nets import TARGET
from tvm import relay
from tvm.relay.collage.tuning.ansor import Ansor
from tvm.relay.collage.tuning.ansor_kernel import kernel_of
from tvm.relay.collage.tuning.transfer.log import Source

SIZE = 8


def conv(kernel=3, stride=1, channels=16, size=SIZE, groups=1):
    """conv2d with its bias and relu, with as much padding as keeps an image's size."""
    return _module(_biased(_conv(_image(channels, size), kernel, stride, channels, groups)))


def conv_alone():
    """As in candidates of one operator, whose class is not that of conv."""
    return _module(_conv(_image(16, SIZE), 3, 1, 16, 1))


def residual_conv():
    x = _image(16, SIZE)
    return _module(relay.nn.relu(relay.add(_conv(x, 3, 1, 16, 1), x)))


def dense(rows=4, inputs=32, outputs=24):
    x = relay.var("x", shape=(rows, inputs))
    weight = relay.const(_random(outputs, inputs))
    return _module(relay.nn.relu(relay.nn.dense(x, weight)))


@functools.cache
def task(make=conv, **arguments):
    """The one task of a net of this file that multiplies."""
    [found] = Ansor().tasks(make(**arguments), TARGET)
    return found


@functools.cache
def kernel(make=conv, **arguments):
    return kernel_of(task(make, **arguments).work, make.__name__)


def source(steps, make=conv, seconds=1e-3, **arguments):
    """A schedule for a net of this file as one that a log has."""
    of = kernel(make, **arguments)
    row = {
        "i": [[of.workload, str(TARGET), [1, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], list(steps)]],
        "r": [[seconds], 0, 0.1, 1.0],
        "v": "v0.6",
    }
    return Source(json.dumps(row), of, "made.jsonl")


def _image(channels, size):
    return relay.var("x", shape=(1, channels, size, size))


def _conv(x, kernel, stride, channels, groups):
    return relay.nn.conv2d(
        x,
        relay.const(_random(channels, channels // groups, kernel, kernel)),
        strides=stride,
        padding=kernel // 2,
        channels=channels,
        kernel_size=(kernel, kernel),
        groups=groups,
    )


def _biased(y):
    channels = 16
    return relay.nn.relu(relay.add(y, relay.const(_random(channels, 1, 1))))


def _random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def _module(body):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return relay.transform.InferType()(mod)
