# SPDX-License-Identifier: Apache-2.0
"""Operands of a concatenation are written where it has them, and nobody writes over what is read.

Rows of an image of one batch lie one after the other along their channels; 16 x 4 numbers are
whole multiples of the bytes that buffers are aligned to.
"""

import itertools

import numpy as np
from onednn_nets import check_all, constant
from tvm import relay
from tvm.relay import nn

FUNCTIONS = (relay.tanh, relay.exp, relay.sigmoid, relay.abs)


def x(channels=16, name="x", batch=1):
    return relay.var(name, shape=(batch, channels, 4, 4))


def cat(*parts):
    return relay.concatenate(list(parts), axis=1)


def pieces(data, count=4):
    """Values of `data`, each made by a step of its own; none is a view of another."""
    return [function(data) for function in FUNCTIONS[:count]]


def dense_block():
    """Each layer reads all features before it, which are operands of all later concatenations."""
    features = [relay.tanh(x())]
    for _ in range(4):
        joined = cat(*features) if len(features) > 1 else features[0]
        every = relay.sum(joined * relay.const(np.float32(0.1)), axis=1, keepdims=True)
        features.append(relay.tanh(features[0] * every))
    return cat(*features)


def readers(order):
    """Sums and functions write over an operand that nobody reads later: not over these."""
    a, b, c = pieces(x(), 3)
    joined = cat(a, b, c)
    doubled = cat(*pieces(a * relay.const(np.float32(2)), 3))
    some = [nn.relu(joined), doubled, relay.exp(b + c)]
    return *(some[i] for i in order), relay.sqrt(relay.abs(joined)), a + b


X = x()
A, B, C, D = pieces(X)
MADE, WIDE = relay.tanh(X), relay.tanh(x(32))
FLAT = relay.reshape(A, (1, 256))
FIRST_ROWS = relay.strided_slice(WIDE, [0, 0, 0, 0], [1, 16, 4, 4])
# Outputs; how many concatenations copy, and how many do not; how many reorders there are, if told.
CASES = {
    "nothing is copied": ([cat(A, B, C, D)], 0, 1, 0),
    "a dense block lies in its largest": ([dense_block()], 0, 4, None),
    "one in another": ([cat(cat(A, B), cat(C, D)), relay.tanh(C)], 0, 3, None),
    # At bytes that contradict each other, or beside something else.
    "an operand of two is copied into the other": ([cat(A, B), cat(B, C), cat(A, D)], 0, 3, 2),
    "two orders": ([cat(A, B), cat(B, A)], 1, 1, None),
    **{
        f"readers {order}": (readers(order), None, 2, None)
        for order in itertools.permutations(range(3))
    },
    # An input and a constant beside a step's result; one operand twice.
    "not made here": ([cat(X, MADE, constant(0, 1, 16, 4, 4))], 0, 1, 2),
    "an input twice": ([cat(X, X)], 1, 0, None),
    "an operand twice": ([cat(MADE, MADE)], 1, 0, None),
    # The other one lies there.
    "first rows are no whole": ([cat(FIRST_ROWS, relay.exp(x(name="y"))), WIDE], 0, 1, None),
    "views of it and of its operands": (
        [relay.reshape(cat(A, B), (1, 4, 8, 16)), FLAT, cat(relay.reshape(FLAT, (1, 16, 4, 4)), B)],
        0, 2, None,
    ),
}  # fmt: skip


def shown(*outputs):
    return relay.Tuple([relay.negative(each) for each in outputs])


def lines_of(plan):
    return [line for line in plan.splitlines() if line.startswith("concat")]


def test_operands_lie_in_their_concatenation():
    plans = check_all({name: shown(*outputs) for name, (outputs, *_) in CASES.items()})
    for name, (_, copying, in_place, reorders) in CASES.items():
        found = [line.endswith("in place") for line in lines_of(plans[name])]
        assert found.count(True) == in_place, name
        assert copying in (None, found.count(False)), name
        assert reorders in (None, plans[name].count("reorder")), name


def test_what_cannot_lie_there_is_copied():
    """Rows that take turns, or are no multiples of the alignment; a result of the part, since the
    caller's tensor is no memory of ours."""
    shapes = [(2, 16, 4, 4), (1, 3, 1, 3)]
    bodies = {str(s): shown(cat(*pieces(relay.var("x", shape=s), 2))) for s in shapes}
    plans = check_all(bodies | {"result": cat(A, B, C, D)})
    for name in bodies:
        copying = [line for line in lines_of(plans[name]) if not line.endswith("in place")]
        assert len(copying) + plans[name].count("reorder") == 1, name
    assert "in place" not in plans["result"] and "concat" in plans["result"]
