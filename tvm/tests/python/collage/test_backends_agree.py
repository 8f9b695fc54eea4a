# SPDX-License-Identifier: Apache-2.0
"""What an ONNX model gives on each backend, against onnxruntime's own session of the model."""

import functools

import numpy as np
import onnx_nets
import pytest
import tvm
from onednn_nets import assert_close, build, run
from tvm import relay
from tvm.relay.collage.backends import get_backend, greedy_partition

ort = pytest.importorskip("onnxruntime")

NETS = {
    "conv": onnx_nets.conv_net,
    "transformer": onnx_nets.attention,
    "two results": onnx_nets.several_outputs,
}
BACKENDS = ("dnnl", "cblas", "mkl", "onnxruntime", "openvino")
# BLAS multiplies matrices only.
NOTHING_TO_TAKE = {("two results", "cblas"), ("two results", "mkl")}


@functools.cache
def net(name):
    """The typed Relay module with its weights bound, inputs, and onnxruntime's results."""
    model = NETS[name]()
    draw = np.random.default_rng(0)
    inputs = {
        value.name: draw.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype("float32")
        for value in model.graph.input
    }
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    mod, params = relay.frontend.from_onnx(model, freeze_params=True)
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    passes = [relay.transform.DynamicToStatic(), relay.transform.SimplifyInference()]
    passes += [relay.transform.FoldConstant(), relay.transform.InferType()]
    return tvm.transform.Sequential(passes)(mod), inputs, session.run(None, inputs)


@pytest.mark.parametrize("name", NETS)
def test_tvm_alone(name):
    mod, inputs, wanted = net(name)
    assert_close(run(build(mod), inputs), wanted)


@pytest.mark.parametrize("level", ["region", "op"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NETS)
def test_all_that_a_backend_takes(name, backend, level):
    reason = get_backend(backend).available()
    if reason:
        pytest.skip(reason)
    mod, inputs, wanted = net(name)
    placed = greedy_partition(mod, backend, op_level=level == "op")
    takes_some = len(placed.get_global_vars()) > 1
    assert takes_some == ((name, backend) not in NOTHING_TO_TAKE)
    assert_close(run(build(placed), inputs), wanted)
