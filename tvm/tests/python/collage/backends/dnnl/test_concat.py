# SPDX-License-Identifier: Apache-2.0
"""Operands of a concatenation are written where it has them, and nobody writes over what is read.

Rows of an image of one batch lie one after the other along their channels; 16 x 4 numbers are
whole multiples of the bytes that buffers are aligned to.
"""

import itertools

import numpy as np
import pytest
from onednn_nets import check, constant
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


def plan_of(*outputs):
    """The plan, whose outputs were compared; how many concatenations copy, and how many do not."""
    plan = check(relay.Tuple([relay.negative(each) for each in outputs]))
    lines = [line for line in plan.splitlines() if line.startswith("concat")]
    in_place = [line for line in lines if line.endswith("in place")]
    return plan, len(lines) - len(in_place), len(in_place)


def test_nothing_is_copied():
    plan, copying, in_place = plan_of(cat(*pieces(x())))
    assert (copying, in_place) == (0, 1)
    assert "reorder" not in plan


def test_a_dense_block_lies_in_its_largest_concatenation():
    """Each layer reads all features before it, which are operands of all later concatenations."""
    features = [relay.tanh(x())]
    for _ in range(4):
        joined = cat(*features) if len(features) > 1 else features[0]
        every = relay.sum(joined * relay.const(np.float32(0.1)), axis=1, keepdims=True)
        features.append(relay.tanh(features[0] * every))
    _, copying, in_place = plan_of(cat(*features))
    assert (copying, in_place) == (0, 4)


def test_one_concatenation_in_another():
    a, b, c, d = pieces(x())
    _, copying, in_place = plan_of(cat(cat(a, b), cat(c, d)), relay.tanh(c))
    assert (copying, in_place) == (0, 3)


def test_an_operand_of_two_lies_in_one_and_is_copied_into_the_other():
    """At bytes that contradict each other, or beside something else."""
    a, b, c, d = pieces(x())
    plan, copying, in_place = plan_of(cat(a, b), cat(b, c), cat(a, d))
    assert (copying, in_place) == (0, 3)
    assert plan.count("reorder") == 2
    _, copying, in_place = plan_of(cat(a, b), cat(b, a))
    assert (copying, in_place) == (1, 1)


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_each_reader_finds_what_it_reads(order):
    """Sums and functions write over an operand that nobody reads later: not over these."""
    a, b, c = pieces(x(), 3)
    joined = cat(a, b, c)
    readers = [nn.relu(joined), cat(*pieces(a * relay.const(np.float32(2)), 3)), relay.exp(b + c)]
    shown = [readers[i] for i in order]
    _, _, in_place = plan_of(*shown, relay.sqrt(relay.abs(joined)), a + b)
    assert in_place == 2


def test_what_is_not_made_here_is_copied():
    """An input and a constant beside a step's result; one operand twice."""
    data = x()
    made = relay.tanh(data)
    plan, copying, in_place = plan_of(cat(data, made, constant(0, 1, 16, 4, 4)))
    assert (copying, in_place) == (0, 1) and plan.count("reorder") == 2
    _, copying, in_place = plan_of(cat(data, data))
    assert (copying, in_place) == (1, 0)
    _, copying, in_place = plan_of(cat(made, made))
    assert (copying, in_place) == (1, 0)


def test_first_rows_of_a_value_are_no_whole_operand():
    made = relay.tanh(x(32))
    first = relay.strided_slice(made, [0, 0, 0, 0], [1, 16, 4, 4])
    _, copying, in_place = plan_of(cat(first, relay.exp(x(name="y"))), made)
    assert (copying, in_place) == (0, 1), "the other one lies there"


@pytest.mark.parametrize("shape", [(2, 16, 4, 4), (1, 3, 1, 3)])
def test_rows_that_take_turns_or_are_no_multiples_of_the_alignment_are_copied(shape):
    plan, copying, in_place = plan_of(cat(*pieces(relay.var("x", shape=shape), 2)))
    assert copying + plan.count("reorder") == 1


def test_a_result_of_the_part_is_copied():
    """The caller's tensor is no memory of ours."""
    plan = check(cat(*pieces(x())))
    assert "in place" not in plan and "concat" in plan


def test_views_of_a_concatenation_and_of_its_operands():
    a, b = pieces(x(), 2)
    turned = relay.reshape(cat(a, b), (1, 4, 8, 16))
    flat = relay.reshape(a, (1, 256))
    _, copying, in_place = plan_of(turned, flat, cat(relay.reshape(flat, (1, 16, 4, 4)), b))
    assert (copying, in_place) == (0, 2)
