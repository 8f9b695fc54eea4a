# SPDX-License-Identifier: Apache-2.0
"""A squeeze of the channels is a reshape where layouts change; other squeezes stay."""

import numpy as np
import pytest
import tvm
from relay_text import plain_host
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.compile.squeezed_channels import reshape_squeezed_channels


def typed(body):
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    )


def squeezed(shape, axis):
    return typed(relay.squeeze(relay.var("x", shape=shape), axis))


@pytest.mark.parametrize("axis", [[1], [-3], [1, 3], None])
def test_channels_of_one_are_reshaped_away(axis):
    mod = squeezed((2, 1, 5, 1), axis)
    wanted = mod["main"].ret_type
    assert reshape_squeezed_channels(mod)
    assert mod["main"].body.op.name == "reshape"
    assert tvm.ir.structural_equal(mod["main"].ret_type, wanted)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 5, 1), [3]), ((1, 3, 5, 6), [0]), ((4, 1), [1])]
)
def test_other_squeezes_stay(shape, axis):
    mod = squeezed(shape, axis)
    assert not reshape_squeezed_channels(mod) and mod["main"].body.op.name == "squeeze"


def test_a_value_of_open_shape_stays():
    assert not reshape_squeezed_channels(squeezed((relay.Any(), 1, 5, 6), [1]))


def test_a_convolution_to_one_channel_whose_result_is_squeezed_builds(capfd):
    """As a net that gives a picture of probabilities ends, read in two layouts."""
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((1, 4, 1, 1)).astype("float32")
    data = generator.standard_normal((1, 4, 6, 5)).astype("float32")
    given = relay.nn.conv2d(
        relay.var("x", shape=data.shape), relay.const(weight), channels=1, kernel_size=(1, 1)
    )
    turned = relay.transpose(relay.squeeze(given, [1]), [0, 2, 1])
    kept = relay.where(relay.const(np.arange(6) > 2), turned, relay.const(-1.0))
    library = build_library(typed(relay.Tuple([kept, relay.argmax(turned, -1)])), plain_host())
    assert "not convertible" not in capfd.readouterr().err
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=data)
    right = np.einsum("c,nchw->nwh", weight[0, :, 0, 0], data)
    np.testing.assert_allclose(
        executor.get_output(0).numpy(), np.where(np.arange(6) > 2, right, -1.0), rtol=1e-5
    )
