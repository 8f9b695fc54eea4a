# SPDX-License-Identifier: Apache-2.0
"""Strided transposed convolutions to few channels are plain ones; others stay what they are."""

from onednn_nets import check_all, constant
from tvm import relay

nn = relay.nn


def conv(kernel=(4, 4), strides=(2, 2), inputs=6, outputs=3, size=(5, 7), batch=1, **attrs):
    return nn.conv2d_transpose(
        relay.var("x", shape=(batch, inputs, *size)), constant(1, inputs, outputs, *kernel),
        channels=outputs, kernel_size=kernel, strides=strides, **attrs,
    )  # fmt: skip


PHASES = {
    "as generators end": relay.tanh(conv(padding=(1, 1), inputs=64)),
    "windows side by side": conv((2, 2), inputs=1, outputs=1, size=(3, 1)),
    "a large window": conv((9, 9), (3, 3), outputs=1, padding=(3, 3)),
    "uneven": conv((3, 4), (2, 3), padding=(1, 0, 0, 1), batch=2),
    "one axis": conv((3, 4), (1, 2), padding=(1, 1)),
    "output padding": conv((3, 3), padding=(1, 1), output_padding=(1, 1)),
    "bias and scale behind": nn.relu(conv() * constant(2, 3, 1, 1) + constant(3, 3, 1, 1)),
}


def test_phases_are_channels():
    for name, plan in check_all(PHASES).items():
        assert plan.count("\nconv ") + plan.startswith("conv ") == 1, name
        assert "deconv" not in plan, name


OTHERS = {
    "many channels": conv(outputs=8),
    "steps of 1": conv(strides=(1, 1)),
    "a phase without weights": conv((1, 1)),
    "a size that is not whole": conv((3, 3), padding=(1, 1)),
}


def test_others_stay_transposed():
    assert all("deconv" in plan for plan in check_all(OTHERS).values())
