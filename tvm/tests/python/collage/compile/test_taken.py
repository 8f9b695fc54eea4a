# SPDX-License-Identifier: Apache-2.0
"""A take of neighbours is a slice, with the same results; another stays one."""

import numpy as np
import pytest
import tvm
from onednn_nets import random_inputs, run
from relay_text import parse, plain_host
from tvm import relay
from tvm.relay.collage.compile import build_library, prepare

DATA = relay.var("x", shape=(3, 4, 5))


def take(indices, axis, dtype="int64", **more):
    index = relay.const(np.array(indices, dtype))
    return relay.take(DATA, index, axis, **more)


def module(body):
    function = relay.Function(relay.analysis.free_vars(body), body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))


def test_the_text_before_and_after():
    before = parse("""def @main(%x: Tensor[(3, 4, 5), float32]) { take(%x, 2i64, axis=-3) }""")
    after = parse(
        """def @main(%x: Tensor[(3, 4, 5), float32]) {
          %0 = strided_slice(%x, begin=[2], end=[3], strides=[1], axes=[0]);
          reshape(%0, newshape=[4, 5]) }"""
    )
    tvm.ir.assert_structural_equal(prepare(before)["main"], after["main"])


def test_results_are_the_same():
    takes = [take(0, 0), take([1, 2], 1), take([2, 3, 4], 2), take([[0, 1], [2, 3]], 1)]
    before = module(relay.Tuple([*takes, take([2], 0, "int32", mode="fast")]))
    after = prepare(before)
    assert "take(" not in str(after)
    inputs = random_inputs(before["main"])
    wanted, got = (run(build_library(mod, plain_host()), inputs) for mod in (before, after))
    for one, other in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(one, other)


STAYS = {
    "in another order": lambda: take([1, 0], 0),
    "with a gap": lambda: take([0, 2], 0),
    "again": lambda: take([1, 1], 0),
    "before the first": lambda: take([-1, 0], 0),
    "behind the last": lambda: take([2, 3], 0),
    "of none": lambda: take(np.zeros(0), 0),
    "of all in a row": lambda: take([1, 2], None),
    "unknown": lambda: relay.take(DATA, relay.var("i", shape=(2,), dtype="int64"), 0),
    "row by row": lambda: take([[0, 1], [1, 2], [2, 3]], 1, batch_dims=1),
}


@pytest.mark.parametrize("case", STAYS)
def test_stays_as_it_is(case):
    mod = module(STAYS[case]())
    tvm.ir.assert_structural_equal(prepare(mod)["main"], mod["main"])
