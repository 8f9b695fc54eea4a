# SPDX-License-Identifier: Apache-2.0
"""Winograd's algorithm for windows other than 3x3, and with strides: each form against a direct
convolution in float64, at whole and at cut tiles."""

import numpy as np
import pytest
import tvm
from onednn_nets import build_with_winograd, constant, function_of, plan_of, random_inputs, run, var
from tvm import relay

nn = relay.nn

# Window and strides of rows and columns; error of one layer beside its largest output.
FORMS = {
    "3x3": ((3, 3), (1, 1)),
    "row of 3": ((1, 3), (1, 1)),
    "column of 3": ((3, 1), (1, 1)),
    "5x5": ((5, 5), (1, 1)),
    "row of 7": ((1, 7), (1, 1)),
    "column of 7": ((7, 1), (1, 1)),
    "7x7, strides of 2": ((7, 7), (2, 2)),
}
MOST_ERROR = 4e-5


def convolution(image, out_channels, window, strides, padding=0):
    weight = constant(1, out_channels, image[1], *window)
    attrs = dict(strides=strides, padding=padding, kernel_size=window, channels=out_channels)
    conv = nn.conv2d if len(image) == 4 else nn.conv3d
    return conv(var("x", *image), weight, **attrs)


def direct(body, image):
    """The convolution's outputs in float64."""
    attrs = body.attrs
    weight = body.args[1].data.numpy().astype("float64")
    axes = weight.ndim - 2
    pads = [int(pad) for pad in attrs.padding]
    padded = np.pad(
        image.astype("float64"), [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)]
    )
    spatial = tuple(range(2, 2 + axes))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=spatial)
    steps = tuple(slice(None, None, int(stride)) for stride in attrs.strides)
    windows = windows[(slice(None), slice(None), *steps)]
    at, taps = "xyz"[:axes], "XYZ"[:axes]
    return np.einsum(f"nc{at}{taps},oc{taps}->no{at}", windows, weight)


def check_form(body, winograd="always"):
    """Build and run it; return its plan."""
    function = function_of(body)
    inputs = random_inputs(function)
    library = build_with_winograd(winograd, function)
    [got] = run(library, inputs)
    wanted = direct(body, inputs["x"])
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() < MOST_ERROR * np.abs(wanted).max()
    return plan_of(library)


def row(image, window, strides, padding=0, channels=32):
    """A convolution by what tells it from others."""
    return image, channels, window, strides, padding


# Channels and volumes of few, padding, window, strides: those of a window's depths are gathered,
# whatever their number. Two depths at a time where there are two or more: whole pairs and an odd
# one, cut rows.
ROWS = {
    **{f"{name}, whole": row((1, 32, 17, 19), *form) for name, form in FORMS.items()},
    **{
        f"{name}, cut": row((2, 48, 13, 7), *form, padding=(3, 2, 1, 3))
        for name, form in FORMS.items()
    },
    **{
        f"{depth} depths": row((2, 32, depth, 9, 7), (3, 3, 3), (1, 1, 1), padding, 48)
        for depth, padding in [(4, 1), (5, (0, 1, 2, 1, 0, 1)), (1, 1), (3, (2, 1, 1))]
    },
    "an image": row((2, 3, 21, 30), (7, 7), (2, 2), 3, 64),
    "one channel": row((1, 1, 16, 16), (3, 3), (1, 1), 0, 64),
    "a volume": row((1, 3, 5, 22, 19), (7, 7, 7), (1, 2, 2), 3, 64),
    "strides in depth": row((2, 2, 9, 14, 15), (3, 7, 7), (2, 2, 2), (1, 3, 3, 0, 2, 3), 64),
    "a window deeper than the volume": row((1, 3, 2, 12, 12), (3, 3, 3), (1, 1, 1), 1, 64),
}


@pytest.mark.parametrize("name", ROWS)
def test_forms(name):
    assert "by winograd:" in check_form(convolution(*ROWS[name]))


# Channels, depth, rows and columns of a volume; threads; results that are computed at once.
VOLUMES = {
    "depths share transforms": (32, 16, 14, 2, "2x4x4"),
    # Depths by twos would compute a fourth, and in pieces that 8 threads do not share evenly: no
    # gain of 1.25 over a direct convolution, while depths that are added up gain 1.9.
    "few depths on many threads": (96, 3, 22, 8, "1x4x4"),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_the_form_that_is_expected_to_take_least(name):
    channels, depth, size, threads, tile = VOLUMES[name]
    body = convolution((1, channels, depth, size, size), channels, (3, 3, 3), (1, 1, 1), 1)
    configure = tvm.get_global_func("runtime.config_threadpool")
    configure(1, threads)
    try:
        plan = check_form(body, "auto")
    finally:
        configure(1, 0)
    assert f":{tile}" in plan


WITHOUT = {
    "a window of even size": ((1, 16, 12, 12), (4, 4), (1, 1)),
    "a row of 5": ((1, 16, 12, 12), (1, 5), (1, 1)),
    "7x7": ((1, 16, 12, 12), (7, 7), (1, 1)),
    "3x3, strides of 2": ((1, 16, 12, 12), (3, 3), (2, 2)),
    "strides of one axis": ((1, 16, 12, 12), (7, 7), (2, 1)),
    "strides of 3": ((1, 16, 12, 12), (3, 3), (3, 3)),
    "channels between few and a vector": ((1, 12, 12, 12), (3, 3), (1, 1)),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_has_no_form(name):
    assert "by winograd:" not in check_form(convolution(*row(*WITHOUT[name])))
