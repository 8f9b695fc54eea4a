# SPDX-License-Identifier: Apache-2.0
"""Times that are far from the machine's peaks are marked, on every backend, up to the report."""

import onnx_cases
import pytest
import tvm
from onednn_nets import constant, function_of
from tvm import relay
from tvm.relay.collage import CollageOptions
from tvm.relay.collage.estimators.batch import measure_batch
from tvm.relay.collage.estimators.session import open_session
from tvm.relay.collage.estimators.work import roofline_remark
from tvm.relay.collage.measure import Cost, MeasuredCostEstimator
from tvm.target import Target


def typed(body):
    return relay.transform.InferType()(tvm.IRModule.from_expr(function_of(body)))


def x(*shape):
    return relay.var("x", shape=shape)


def conv():
    weights = constant(1, 64, 64, 3, 3)
    return relay.nn.conv2d(x(1, 64, 56, 56), weights, channels=64, kernel_size=(3, 3), padding=1)


# With a time that good code takes on one core, and one that only bad code takes.
KERNELS = {
    "arithmetic": (conv, 3e-3, 0.1),
    "traffic": (lambda: relay.mean(x(1, 144, 56, 56), axis=[2, 3]), 2e-4, 2.3e-3),
    "a start": (lambda: relay.exp(x(1, 8)), 5e-5, 1e-3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_only_slow_kernels_are_marked(name):
    make, good, bad = KERNELS[name]
    assert roofline_remark(typed(make()), good) == ""
    assert "times its roofline" in roofline_remark(typed(make()), bad)


def test_nothing_is_said_of_recurrent_layers():
    function = onnx_cases.typed(*onnx_cases.layer("LSTM"))
    assert roofline_remark(tvm.IRModule.from_expr(function), 1.0) == ""


@pytest.mark.parametrize("target", ["llvm", "dnnl", "cblas", "mkl"])
def test_a_candidates_message_says_so(target, monkeypatch):
    seconds = [1e-5, 1.0]
    monkeypatch.setattr(
        MeasuredCostEstimator,
        "estimate",
        lambda _, candidates: [Cost.measured([s] * 20) for s, _ in zip(seconds, candidates)],
    )
    mods = [typed(relay.nn.dense(x(4, 8), constant(k, 8, 8))) for k in range(2)]
    targets = [Target(target, host="llvm")] * 2
    with open_session(CollageOptions().session, targets) as session:
        fast, slow = measure_batch(session, mods, targets, ["a", "b"])
    assert (fast.status, fast.seconds, fast.message) == ("measured", pytest.approx(1e-5), "")
    assert (slow.status, slow.seconds) == ("measured", pytest.approx(1.0))
    assert "times its roofline (20" in slow.message
