# SPDX-License-Identifier: Apache-2.0
"""Nodes of the original model in parts of onnxruntime and OpenVINO, beside operators of Relay."""

import os
import signal

import numpy as np
import onnx_nets
import pytest
from onnx import helper
from onnx_one_node import assert_alike, by_onnxruntime
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.backends.onnx_model import export_function, ops_opaque, why_not_exported
from tvm.relay.collage.backends.onnx_model.ops_opaque import oldest_opset
from tvm.relay.collage.ops import ONNX_NODES, model_of
from tvm.relay.collage.relay_util.walk import nodes_of

onnxruntime = pytest.importorskip("onnxruntime")
node = helper.make_node
X = np.random.default_rng(0).standard_normal((1, 2, 8, 8)).astype("float32")


def net(opset, made, *more, weights=None):
    """Relu, the node from r to z, a mean over axes that are an input from version 18 on."""
    nodes = [node("Relu", ["x"], ["r"]), made, *more, node("GlobalMaxPool", ["z"], ["y"])]
    outputs = [("y", [1, 2, 1, 1])]
    return onnx_nets.model(nodes, [("x", X.shape)], outputs, weights or {}, opset)


RESIZE = node("Resize", ["r", "", "s"], ["z"], mode="linear", antialias=1)
SCALES = {"s": np.array([1, 1, 0.5, 0.5], "float32")}
MODELS = {
    "a node of a newer version": net(18, RESIZE, weights=SCALES),
    "with a reduction, whose axes are an input there": net(
        18,
        RESIZE,
        node("ReduceMean", ["z", "a"], ["m"]),
        node("Sub", ["z", "m"], ["z2"]),
        node("Relu", ["z2"], ["z3"]),
        weights={**SCALES, "a": np.array([2, 3])},
    ),
    "two of one kind": net(
        18, node("Resize", ["r", "", "s"], ["q"], mode="linear", antialias=1),
        node("Resize", ["q", "", "s"], ["z"], mode="cubic", antialias=1), weights=SCALES,
    ),
    "of an old version": net(13, node("LpPool", ["r"], ["z"], kernel_shape=[2, 2], p=1)),
    "of a version that changed": net(
        10, node("Resize", ["r", "s"], ["z"], mode="linear"),
        weights={"s": np.array([1, 1, 1.3, 1.3], "float32")},
    ),
}  # fmt: skip


def function_of(model):
    mod, _ = collage.from_onnx(model)
    return relay.transform.InferType()(mod)["main"]


@pytest.mark.parametrize("name", [name for name in MODELS if "changed" not in name])
def test_a_part_holds_the_node_among_others(name):
    model = MODELS[name]
    written = export_function(function_of(model), "onnxruntime")
    assert_alike(by_onnxruntime(written, {"input_0": X}), by_onnxruntime(model, {"x": X}))
    kinds = [each.op_type for each in written.graph.node]
    assert {"Relu", model.graph.node[1].op_type} <= set(kinds)


def opaque_call(model):
    (call,) = (
        each
        for each in nodes_of(function_of(model))
        if isinstance(each, relay.Call) and each.op.name in ONNX_NODES
    )
    return call


def test_the_oldest_version_that_has_a_node():
    assert oldest_opset(model_of(opaque_call(MODELS["a node of a newer version"]).attrs)) == 18
    assert oldest_opset(model_of(opaque_call(MODELS["of an old version"]).attrs)) == 17
    changed = opaque_call(MODELS["of a version that changed"])
    assert oldest_opset(model_of(changed.attrs)) is None
    assert "of a version of ONNX" in why_not_exported(changed, "onnxruntime")


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_library_takes_what_it_can_make_ready(backend):
    assert why_not_exported(opaque_call(MODELS["a node of a newer version"]), backend) == ""


def test_what_a_library_does_not_know_it_refuses():
    pytest.importorskip("openvino")
    nodes = [node("Relu", ["x"], ["r"]), node("Det", ["r"], ["y"])]
    call = opaque_call(onnx_nets.model(nodes, [("x", X.shape)], [("y", [1, 2])], {}, 18))
    assert why_not_exported(call, "onnxruntime") == ""
    assert "openvino cannot run Det: " in why_not_exported(call, "openvino")


def test_a_library_that_dies_of_a_model_does_not_take_it(monkeypatch):
    """OpenVINO does so of some nodes with bodies: this process goes on."""
    monkeypatch.setattr(
        ops_opaque.tvm,
        "get_global_func",
        lambda _: lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    )
    why = ops_opaque._why_not_read.__wrapped__("openvino", "00")
    assert why == "reading it fails: killed by SIGKILL"
