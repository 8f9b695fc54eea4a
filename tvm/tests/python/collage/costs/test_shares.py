# SPDX-License-Identifier: Apache-2.0
"""Times of kernels are shared out among operators, and nothing of them is lost."""

import math

import numpy as np
import pytest
from tvm.relay.collage.costs.shares import KernelTime, OperatorCall, share_out


def chain(*works):
    """A call that reads the one before it, for each work."""
    return [OperatorCall(k, [k - 1] if k else [], work) for k, work in enumerate(works)]


def times(**seconds):
    """Times by names such as _3 and _3_4."""
    return [
        KernelTime(tuple(map(int, name.split("_")[1:])), each) for name, each in seconds.items()
    ]


@pytest.mark.parametrize(
    "calls, given, shares",
    [
        # A kernel is named by its last operator, and shared by work.
        (chain(3, 1, 1), times(_1=4, _2=2), {0: 3, 1: 1, 2: 2}),
        # What nothing later has belongs to the kernel before it.
        (chain(3, 1), times(_0=4), {0: 3, 1: 1}),
        # One named by several is all of these.
        (chain(1, 1, 2), times(_0_1=4, _2=1), {0: 2, 1: 2, 2: 1}),
        # Steps of one call add up, and tie those that they name together.
        (chain(1, 1, 2), times(_1=1, _1_2=3), {0: 1, 1: 1, 2: 2}),
        # Without work all have the same.
        (chain(0, 0), times(_1=4), {0: 2, 1: 2}),
        # No time for nobody.
        (chain(1, 1), [], {}),
        ([], [], {}),
        # Of two readers the nearest has it.
        (
            [OperatorCall(0, [], 1), OperatorCall(1, [0], 1), OperatorCall(2, [0], 1)],
            times(_1=4, _2=3),
            {0: 2, 1: 2, 2: 3},
        ),
        # A reader that is far is one by others that have no time; the input is not of this piece.
        (
            [OperatorCall(4, [2], 1), OperatorCall(5, [4], 1), OperatorCall(7, [5], 2)],
            times(_7=4),
            {4: 1, 5: 1, 7: 2},
        ),
        # Without any neighbour the next in order has it, and the last one behind the end.
        ([OperatorCall(k, [], 1) for k in range(4)], times(_1=2, _2=6), {0: 1, 1: 1, 2: 3, 3: 3}),
    ],
)
def test_shares(calls, given, shares):
    assert share_out(calls, given) == pytest.approx(shares)


@pytest.mark.parametrize("seed", range(50))
def test_shares_add_up_in_random_graphs(seed):
    rng = np.random.default_rng(seed)
    nodes = np.cumsum(rng.integers(1, 4, rng.integers(1, 30))).tolist()
    calls = [
        OperatorCall(
            node,
            rng.choice([*nodes[:place], -1], rng.integers(0, 3)).tolist(),
            float(rng.choice([0, 1, 100])),
        )
        for place, node in enumerate(nodes)
    ]
    given = [
        KernelTime(tuple(rng.choice(nodes, rng.integers(1, 4)).tolist()), float(rng.random()))
        for _ in range(rng.integers(1, 8))
    ]
    shares = share_out(calls, given)
    assert list(shares) == nodes and min(shares.values()) >= 0
    assert math.isclose(sum(shares.values()), sum(each.seconds for each in given))
