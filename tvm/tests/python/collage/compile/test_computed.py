# SPDX-License-Identifier: Apache-2.0
"""Calls on constants whose kernels LLVM rejects are computed by builds of ours."""

import numpy as np
import pytest
import tvm
from relay_text import assert_equal
from tvm import relay
from tvm.relay.collage.compile import computed, prepare
from tvm.topi.testing import resize2d_python


def resized(data):
    """As vision transformers do to their table of positions; a cubic kernel that LLVM rejects."""
    return relay.image.resize2d(
        data, (7, 14), method="cubic", coordinate_transformation_mode="half_pixel"
    )


def net():
    positions, x = relay.var("positions", shape=(1, 3, 4, 4)), relay.var("x", shape=(1, 3, 7, 14))
    return tvm.IRModule.from_expr(relay.Function([x, positions], x + relay.exp(resized(positions))))


def test_a_table_of_positions_is_folded():
    table = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype("float32")
    with pytest.raises(tvm.TVMError, match="verification failed"):
        stock = net()
        stock["main"] = relay.build_module.bind_params_by_name(stock["main"], {"positions": table})
        relay.transform.FoldConstant()(stock)
    mod = prepare(net(), {"positions": table})
    call = mod["main"].body
    assert call.op.name == "add" and isinstance(call.args[1], relay.Constant)
    wanted = resize2d_python(table, (7 / 4, 14 / 4), "NCHW", "cubic", "half_pixel")
    np.testing.assert_allclose(call.args[1].data.numpy(), np.exp(wanted), rtol=1e-4)


def test_a_pass_that_the_user_disabled_stays_so():
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x + relay.exp(relay.const([1.0, 2.0]))))
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        assert "exp" in str(prepare(mod)["main"])
    assert "exp" not in str(prepare(mod)["main"])


def test_what_tvm_keeps_is_kept_beside_what_it_cannot_fold():
    table = relay.const(np.ones((1, 3, 4, 4), "float32"))
    weight = relay.qnn.op.dequantize(
        relay.const(np.ones((3, 1, 1), "int8")), relay.const(0.5), relay.const(0)
    )
    x = relay.var("x", shape=(1, 3, 7, 14))
    mod = prepare(tvm.IRModule.from_expr(relay.Function([x], x + resized(table) * weight)))
    text = str(mod["main"])
    assert "qnn.dequantize" in text and "resize2d" not in text


def test_what_is_no_fault_of_llvms_stays_as_it_was():
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))))
    assert_equal(computed.fold_constant(mod), mod)
