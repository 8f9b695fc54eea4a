# SPDX-License-Identifier: Apache-2.0
"""bench/border_bound.py: each convolution by the faster kernel, and what all of them gain."""

import border_bound
import models
import pytest
from architectures.kernels import Log
from bench_nets import small_classifier

WIDE = (1, 32, 64, 14, 14, 14, 14, 3, 3)
DEEP = (64, 64, 64, 14, 14, 7, 7, 3, 3)


def onednn(problem, microseconds, kind="convolution"):
    return f"{kind} convolution_direct by brgconv:avx512", problem, microseconds, (0.0, 0.0)


def logs(tvm_wide, tvm_deep):
    """Two equal wide convolutions, a deep one and a pool, of 10 us each on oneDNN."""
    wide = "mb1_ic32oc64_ih14oh14kh3sh1dh0ph1_iw14ow14kw3sw1dw0pw1"
    deep = "g64mb1_ic64oc64_ih14oh7kh3sh2dh0ph1_iw14ow7kw3sw2dw0pw1"
    pool = "mb1ic64_ih14oh7kh2sh2dh0ph0_iw14ow7kw2sw2dw0pw0"
    calls = [onednn(wide, 10.0), onednn(wide, 10.0), onednn(deep, 10.0)]
    name, of = "nn_contrib_conv2d_NCHWc_nn_relu", "float32[1, 2, 14, 14, 16]"
    theirs = [
        (name, tvm_wide, f"{of}, float32[4, 2, 3, 3, 16, 16], float32[1, 4, 14, 14, 16]"),
        (
            "nn_contrib_depthwise_conv2d_NCHWc_add",
            tvm_deep,
            "float32[1, 8, 14, 14, 8], float32[8, 1, 3, 3, 1, 8], float32[1, 8, 1, 1, 8], "
            "float32[1, 8, 7, 7, 8]",
        ),
        ("nn_conv2d", 1.0, "float32[1, 32, 14, 14], float32[64, 32, 3, 3]"),
    ]
    return Log([*calls, onednn(pool, 10.0, "pooling")], [], 50.0), Log([], theirs, 20.0)


def times_of(ours, theirs):
    return border_bound.onednn_kernels(ours), border_bound.tvm_kernels(theirs)


def test_kernels_are_known_by_the_shapes_of_both_logs():
    ours, theirs = logs(8.0, 12.0)
    assert dict(border_bound.onednn_kernels(ours)) == {WIDE: [10.0, 10.0], DEEP: [10.0]}
    assert dict(border_bound.tvm_kernels(theirs)) == {WIDE: [8.0], DEEP: [12.0]}


def test_products_are_known_by_their_sizes_however_their_weights_lie():
    """A dense layer, one whose weight TVM has laid out, and products of twelve heads."""
    problems = [("matmul", "128x768:768x3072"), ("matmul", "12x128x64:12x64x128")]
    problems += [("inner_product", "mb128ic768oc3072"), ("matmul", "1x128x768:1x768x3072")]
    ours = Log([onednn(problem, 10.0, kind) for kind, problem in problems], [], 40.0)
    tensors = [
        ("nn_dense_add", "float32[128, 768], float32[3072, 768], float32[128, 3072]"),
        ("nn_contrib_dense_pack", "float32[128, 768], float32[192, 768, 16], float32[128, 3072]"),
        ("nn_batch_matmul", "float32[12, 128, 64], float32[12, 128, 64], float32[12, 128, 128]"),
        ("nn_dense_reshape", "float32[1, 128, 768], float32[3072, 768], float32[128, 3072]"),
    ]
    theirs = Log([], [(name, 8.0, shapes) for name, shapes in tensors], 32.0)
    dense, heads = (1, 128, 3072, 768), (12, 128, 128, 64)
    assert dict(border_bound.onednn_kernels(ours)) == {dense: [10.0] * 3, heads: [10.0]}
    assert dict(border_bound.tvm_kernels(theirs)) == {dense: [8.0] * 2, heads: [8.0]}
    table = border_bound.table_of_kernels({dense: [10.0] * 3, heads: [4.0]}, {dense: [8.0]})
    rows = [line.split() for line in table.splitlines()[-2:]]
    assert rows == [
        ["1", "128", "3072", "768", "3", "10.0", "8.0"],
        ["12", "128", "128", "64", "1", "4.0", "-"],
    ]


@pytest.mark.parametrize(
    ("tvm_wide", "tvm_deep", "faster", "gain"),
    [(8.0, 12.0, 2, 4.0), (8.0, 3.0, 3, 11.0), (10.0, 12.0, 0, 0.0)],
)
def test_only_faster_kernels_gain(tvm_wide, tvm_deep, faster, gain):
    found = border_bound.bound(*times_of(*logs(tvm_wide, tvm_deep)))
    assert found == {"kernels": 3, "compared": 3, "faster": faster, "gain": gain}


def test_the_quickest_run_of_each_kernel_counts():
    one, other = logs(8.0, 12.0)[1], logs(9.0, 7.0)[1]
    assert [call[1] for call in border_bound.quickest([one, other]).tvm] == [8.0, 7.0, 1.0]


def test_what_tvm_has_no_kernel_for_gains_nothing():
    found = border_bound.bound(*times_of(logs(1.0, 1.0)[0], Log([], [], 1.0)))
    assert (found["compared"], found["gain"]) == (0, 0.0)


def test_the_whole_way(monkeypatch, capsys):
    net = models.Net("small", "a net", small_classifier, "none")
    monkeypatch.setitem(models.NETS, "small", net)
    assert border_bound.main(["--nets", "small", "--threads", "1", "--rounds", "1"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[0] == "small" and row[2] == row[3] != "0"
