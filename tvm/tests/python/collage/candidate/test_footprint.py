# SPDX-License-Identifier: Apache-2.0
"""Bytes that caches may have lost when a module runs again: its weights, and values inside."""

import numpy as np
import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay.collage.candidate import footprint
from tvm.relay.collage.candidate.footprint import bytes_in_turn, inner_bytes
from tvm.relay.collage.candidate.weights import weight_bytes

KB, MB = 1 << 10, 1 << 20
# A value of 1024 numbers has 4 KB.
SHAPE = (1, 1024)


def module(make):
    x = relay.var("x", shape=SHAPE)
    mod = tvm.IRModule.from_expr(relay.Function([x], make(x)))
    return relay.transform.InferType()(mod)


def softmax(x):
    """No function of elements: its result needs memory of its own."""
    return relay.nn.softmax(x)


def chain(x, length):
    for _ in range(length):
        x = softmax(x)
    return x


def doubled(x):
    return softmax(relay.concatenate([softmax(x), softmax(x + x)], axis=1))


def composite(x):
    y = relay.var("y", shape=SHAPE)
    function = relay.Function([y], softmax(softmax(y))).with_attr("Composite", "fake.two")
    return softmax(relay.Call(function, [softmax(x)]))


def halves(x):
    first, second = relay.split(softmax(x), 2, axis=1)
    return softmax(first) + second


@pytest.mark.parametrize(
    "make, kilobytes",
    [
        (lambda x: x, 0),
        (softmax, 0),  # its result is an output
        (lambda x: relay.nn.relu(relay.exp(softmax(x))), 0),  # in the memory of the output
        (lambda x: chain(x, 2), 4),
        (lambda x: chain(x, 3), 8),  # a value and the next one
        (lambda x: chain(x, 40), 8),  # memory that is free is used again
        (lambda x: softmax(relay.exp(relay.tanh(softmax(x)))), 4),
        (lambda x: softmax(relay.exp(y := softmax(x)) + softmax(y)), 12),  # y is read later
        (lambda x: relay.Tuple([softmax(x), chain(x, 2)]), 4),
        (doubled, 16),  # two operands, and both side by side
        (composite, 8),  # as the same calls outside of a function
        (halves, 8),  # what is split, and its halves: one of them is in the output's memory later
        (lambda x: relay.const(np.ones(SHAPE, "float32")) + x, 0),
        (lambda x: relay.Tuple([y := softmax(x), softmax(relay.exp(y))]), 4),  # y is not free
        (lambda x: softmax(relay.reshape(softmax(relay.reshape(x, (32, 32))), SHAPE)), 4),
    ],
)
def test_values_that_are_alive_at_once(make, kilobytes):
    assert inner_bytes(module(make)) == kilobytes * KB


def test_functions_of_elements_of_another_size_have_memory_of_their_own():
    x = relay.var("x", shape=(1024, 1))
    wide = relay.nn.softmax(x) + relay.const(np.ones((1, 4), "float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(wide)))
    assert inner_bytes(relay.transform.InferType()(mod)) == (4 + 16) * KB


def test_parts_count_by_themselves_and_weights_once():
    mod = parse(
        """
        def @main(%x: Tensor[(1, 1024), float32]) {
          @part(nn.softmax(nn.softmax(%x)))
        }
        def @part(%y: Tensor[(1, 1024), float32], Inline=1, Compiler="fake", Primitive=1,
                  global_symbol="part") -> Tensor[(1, 1024), float32] {
          nn.softmax(nn.softmax(%y))
        }
        """
    )
    assert inner_bytes(mod) == (8 + 4) * KB
    weight = relay.const(np.ones((1024, 1024), "float32"))
    dense = module(lambda x: relay.nn.dense(relay.nn.dense(x, weight), weight))
    assert (weight_bytes(dense), inner_bytes(dense)) == (4 * MB, 4 * KB)


def test_what_is_not_known_counts_nothing():
    x = relay.var("x", shape=(relay.Any(), 4))
    open_size = tvm.IRModule.from_expr(relay.Function([x], softmax(softmax(x))))
    assert inner_bytes(relay.transform.InferType()(open_size)) == 0
    flag = relay.var("flag", shape=(), dtype="bool")
    y = relay.var("y", shape=SHAPE)
    branches = relay.If(flag, chain(y, 3), y)
    mod = tvm.IRModule.from_expr(relay.Function([flag, y], branches))
    assert inner_bytes(relay.transform.InferType()(mod)) == 0


@pytest.mark.parametrize(
    "weights, inside, found",
    [
        (0, 9 * MB, 32 * MB),  # without weights it says nothing of its network
        (16, 0, 64 * KB),
        (MB, 0, MB),
        (MB, MB, 2 * MB),
        (12 * MB, 0, 16 * MB),
        (8 * MB, 2 * MB, 8 * MB),
        (256 * MB, 0, 32 * MB),
        (MB, 256 * MB, 32 * MB),
    ],
)
def test_what_a_network_touches_is_a_power_of_two_that_caches_hold(
    weights, inside, found, monkeypatch
):
    monkeypatch.setattr(footprint, "weight_bytes", lambda mod: weights)
    monkeypatch.setattr(footprint, "inner_bytes", lambda mod: inside)
    assert bytes_in_turn(None) == found
