# SPDX-License-Identifier: Apache-2.0
"""Kernels as people know them, by TVM's names and Ansor's keys."""

import json

import pytest
from transfer_nets import conv, task
from tvm.relay.collage.cli.tt.kernel_text import kernel_text, operators_in, texts_of
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel

BLOCKED = [1, 8, 56, 56, 8, 8, 8, 3, 3, 8, 8, 1, 8, 1, 1, 8]


def kernel(name, shape, sizes):
    return AnsorKernel(json.dumps(["a1", *sizes]), f"vm_mod_fused_{name}", "k", (), shape, 1.0)


@pytest.mark.parametrize(
    ("name", "shape", "sizes", "text"),
    [
        (
            "nn_contrib_conv2d_NCHWc_add_nn_relu_1",
            *(
                (1, 8, 56, 56, 8),
                BLOCKED,
                "conv2d + add + relu, 1x64x56x56, 3x3 kernel on 1x64x56x56",
            ),
        ),
        # What is added to the result comes first.
        (
            "nn_contrib_conv2d_NCHWc_add_add_3",
            (1, 4, 3, 96, 8),
            [1, 4, 3, 96, 8, 1, 2, 6, 96, 8, 4, 2, 1, 1, 8, 8, 1, 4, 1, 1, 8],
            "conv2d + add + add, 1x32x3x96, 1x1 kernel on 1x16x6x96",
        ),
        (
            "nn_global_avg_pool2d_2",
            (1, 25, 1, 1, 8),
            [1, 25, 2, 96, 8, 1, 25, 1, 1, 8],
            "global_avg_pool2d, 1x200x1x1, on 1x200x2x96",
        ),
        (
            "nn_max_pool2d",
            (1, 20, 1, 1),
            [1, 20, 2, 96, 1, 20, 1, 1],
            "max_pool2d, 1x20x1x1, on 1x20x2x96",
        ),
        ("nn_max_pool2d", (1, 20, 1, 1), [20, 1, 2, 96], "max_pool2d, 1x20x1x1"),
        # Weights that are not where they are looked for, or another layout: no kernel's size.
        ("nn_contrib_conv2d_NCHWc", (1, 4, 56, 56, 16), BLOCKED, "conv2d, 1x64x56x56"),
        ("nn_conv2d_add", (1, 64, 56, 56), [1, 64, 56, 56, 64, 64, 3, 3], None),
        ("nn_dense_2", (128, 768), [128, 3072, 768, 3072], "dense, 128x768, sums of 3072"),
        ("nn_dense", (128, 768), [768, 3072, 128, 3072], "dense, 128x768"),
        ("nn_batch_matmul_3", (12, 8, 8), [12, 8, 4, 12, 8, 4], "batch_matmul, 12x8x8"),
        ("sum", (), [4], "sum, scalar"),
    ],
)
def test_operators_and_sizes(name, shape, sizes, text):
    text = text or "conv2d + add, 1x64x56x56"
    assert kernel_text(kernel(name, shape, sizes)) == text


def test_kernels_of_one_text_are_told_apart_by_their_names():
    one, other = kernel("nn_dense", (2, 3), [4]), kernel("nn_dense_1", (2, 3), [5])
    single = kernel("sum", (), [4, 4])
    assert list(texts_of([one, other, single]).values()) == [
        "dense, 2x3 (vm_mod_fused_nn_dense)",
        "dense, 2x3 (vm_mod_fused_nn_dense_1)",
        "sum, scalar",
    ]
    assert list(texts_of([one, one]).values()) == ["dense, 2x3"], "of two models"


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("vm_mod_fused_nn_conv2d_add,vm_mod_fused_nn_conv2d_add_1", ["conv2d", "add"]),
        ("tvmgen_default_fused_nn_contrib_depthwise_conv2d_NCHWc", ["depthwise_conv2d"]),
        (
            "fused_nn_contrib_conv2d_winograd_without_weight_transform_nn_leaky_relu_12",
            ["conv2d_winograd", "leaky_relu"],
        ),
        ("fused_layout_transform_nn_pad_divide_nn_softmax", None),
        ("fused_nn_dense_nobodys_add", ["dense", "nobodys", "add"]),
        ("conv", ["conv"]),
    ],
)
def test_names_are_read_by_the_list_of_operators(name, operators):
    assert operators_in(name) == (operators or ["layout_transform", "pad", "divide", "softmax"])


def test_a_kernel_of_ansor():
    found = task(conv, kernel=3).kernel
    assert kernel_text(found) == "conv2d + add + relu, 1x16x8x8, 3x3 kernel on 1x16x8x8"
