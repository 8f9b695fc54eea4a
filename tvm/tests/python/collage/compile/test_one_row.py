# SPDX-License-Identifier: Apache-2.0
"""Convolutions along one axis, which our builds compute as those of an image of one row."""

import numpy as np
import pytest
import tvm
from onednn_nets import run
from relay_text import parse
from tvm import autotvm, relay
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, one_row, stock

BLOCKED = "contrib_conv2d_NCHWc"
# Data, weight and attributes of what is rewritten, and of what is not.
ALONG = {
    "conv1d": ((2, 16, 40), (32, 16, 3), {"padding": (1, 1)}),
    "one_sided": ((1, 8, 41), (24, 8, 4), {"padding": (3, 0), "strides": 2, "dilation": 2}),
    "column": ((1, 16, 40, 1), (32, 16, 5, 1), {"padding": (2, 0, 1, 0), "strides": (3, 1)}),
}
OTHERS = {
    "grouped": ((1, 16, 40), (32, 8, 3), {"groups": 2}),
    "channels_last": ((1, 40, 16), (3, 16, 32), {"data_layout": "NWC", "kernel_layout": "WIO"}),
}


def net(data, weight, attrs, has_constant=True):
    """The convolution between others' operators, and its input."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(data).astype("float32")
    kernel = rng.standard_normal(weight).astype("float32")
    x, w = relay.var("x", shape=data), relay.var("w", shape=weight)
    is_last = attrs.get("data_layout") == "NWC"
    sizes = {
        "channels": weight[-1] if is_last else weight[0],
        "kernel_size": weight[:1] if is_last else weight[2:],
    }
    conv = relay.nn.conv1d if len(data) == 3 else relay.nn.conv2d
    y = conv(relay.nn.relu(x), relay.const(kernel) if has_constant else w, **sizes, **attrs)
    params = [x] if has_constant else [x, w]
    inputs = {"x": values} if has_constant else {"x": values, "w": kernel}
    return tvm.IRModule.from_expr(relay.Function(params, relay.tanh(y))), inputs


@pytest.mark.parametrize("name", [*ALONG, *OTHERS])
def test_same_values_by_the_blocked_kernel(name):
    mod, inputs = net(*(ALONG | OTHERS)[name])
    with tvm.transform.PassContext(opt_level=1):
        expected = stock.stock_build()(mod, target="llvm")
    library = build_library(mod, collage.host_target())
    assert (BLOCKED in library.graph_json) == (name in ALONG)
    [got], [wanted] = run(library, inputs), run(expected, inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    if name in ALONG:  # weights are laid out while it is built
        names = [str(key) for key in library.params]
        assert [len(library.params[key].shape) for key in names] == [6], names


def test_stock_and_low_levels_and_unknown_weights_stay_as_they_are():
    mod, _ = net(*ALONG["conv1d"])
    with tvm.transform.PassContext(opt_level=3):
        assert BLOCKED not in stock.stock_build()(mod, target="llvm").graph_json
    assert BLOCKED not in build_library(mod, "llvm", opt_level=2).graph_json
    mod, _ = net(*ALONG["conv1d"], has_constant=False)
    assert BLOCKED not in build_library(mod, "llvm").graph_json


@pytest.mark.parametrize("padding", ["[2, 0]", "[2, 0, 2, 0]"])
def test_paddings_as_relays_text_has_them(padding):
    mod = parse(f"""
        def @main(%x: Tensor[(1, 16, 40, 1), float32], %w: Tensor[(8, 16, 5, 1), float32]) {{
          nn.conv2d(%x, %w, padding={padding}, channels=8, kernel_size=[5, 1])
        }}""")
    weights = {"w": tvm.nd.array(np.ones((8, 16, 5, 1), "float32"))}
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], weights)
    mod = relay.transform.InferType()(mod)
    wanted = mod["main"].checked_type
    assert one_row.lay_in_rows(mod)
    assert mod["main"].checked_type == wanted
    assert "padding=[0, 2, 0, 2]" in mod.astext(show_meta_data=False)


@pytest.mark.parametrize("padding", [(1, 1), (0, 0)])
def test_one_pixel_and_paddings_across_the_axis_stay(padding):
    """The convolutions of a squeeze-and-excite block have nothing to gain, and much to lose."""
    shape = (1, 16, 1, 1) if padding == (0, 0) else (1, 16, 40, 1)
    size = (8, 16, 1, 1) if padding == (0, 0) else (8, 16, 3, 1)
    mod, _ = net(shape, size, {"padding": padding})
    assert not one_row.lay_in_rows(relay.transform.InferType()(mod))


def test_where_tuning_records_are_looked_up_kernels_are_those_that_tuners_find():
    def changes():
        mod, _ = net(*ALONG["conv1d"])
        return one_row.lay_in_rows(relay.transform.InferType()(mod))

    assert changes()
    with autotvm.apply_history_best([]):
        assert not changes()
    for name in ("use_auto_scheduler", "use_meta_schedule"):
        with tvm.transform.PassContext(config={f"relay.backend.{name}": True}):
            assert not changes()
    assert changes()
