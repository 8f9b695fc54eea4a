# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators on values whose sizes data decide, by the VM."""

import numpy as np
import pytest
import tvm
from onnx_one_node import by_vm
from tvm import relay
from tvm.relay.collage.tvm_fixes.shape_functions import OPERATORS

# Only within -1 and 1, or from 1 on.
X = np.array([0.25, 0.0, 0.5, 0.75], "float32")


@pytest.mark.parametrize("start", range(0, len(OPERATORS), 6))
def test_they_have_a_shape_function(start):
    x = relay.var("x", shape=(4,))
    chosen = relay.take(x, relay.reshape(relay.argwhere(x), [-1]))
    names = OPERATORS[start : start + 6]
    outputs = relay.Tuple([tvm.relay.Call(tvm.ir.Op.get(name), [chosen]) for name in names])
    (found,) = by_vm(relay.transform.InferType()(tvm.IRModule.from_expr(outputs)), {"x": X})
    assert [value.shape for value in found] == [(3,)] * len(names)


def test_a_reversed_sequence_has_the_shape_of_its_data():
    x = relay.var("x", shape=(4,))
    chosen = relay.take(x, relay.reshape(relay.argwhere(x), [-1]))
    column = relay.reshape(chosen, (-1, 1))
    turned = relay.reverse_sequence(column, relay.const(np.array([3], "int32")), 0, 1)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(turned))
    np.testing.assert_array_equal(next(by_vm(mod, {"x": X}))[0], X[[3, 2, 0]].reshape(3, 1))
