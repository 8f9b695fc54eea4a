# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share: a small ONNX file, and commands whose costs are made up."""

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.relay.collage import MockCostEstimator, optimizer
from tvm_collage.cli import main

COSTS = {"llvm": 10, "dnnl": 1}
# dnnl takes both convolutions; cos is TVM's.
_NODES = (
    ("Conv", ["x", "w"], "conv1", {"pads": [1] * 4, "kernel_shape": [3, 3]}),
    ("Relu", ["conv1"], "relu1", {}),
    ("Cos", ["relu1"], "cos1", {}),
    ("Conv", ["cos1", "w"], "conv2", {"pads": [1] * 4, "kernel_shape": [3, 3]}),
)
SHAPE = [1, 4, 8, 8]


def write_net(path, batch=1, scale=1.0, width=SHAPE[-1]):
    """A net of input x and output conv2; a text as batch or width is an open dimension."""
    values = scale * np.random.default_rng(0).standard_normal((4, 4, 3, 3))
    nodes = [
        helper.make_node(op, inputs, [output], name=output, **attrs)
        for op, inputs, output, attrs in _NODES
    ]
    tensor = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *SHAPE[1:-1], width])
        for name in ("x", "conv2")
    ]
    weights = [numpy_helper.from_array(values.astype("float32"), "w")]
    graph = helper.make_graph(nodes, "net", tensor[:1], tensor[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path


def write_library(path):
    """A shared library of TVM's without a report."""
    x = tvm.te.placeholder((1,), name="x")
    y = tvm.te.compute((1,), lambda i: x[i] + 1, name="y")
    tvm.build(tvm.te.create_schedule(y.op), [x, y], target="llvm").export_library(path)
    return path


def with_made_up_costs(monkeypatch):
    """Nothing is measured: dnnl is cheap."""
    monkeypatch.setattr(optimizer, "CostEstimator", lambda *_: MockCostEstimator(COSTS))


def call(*arguments):
    """The exit code of a command with a search in which nothing is measured."""
    return main([*map(str, arguments)])


# A build that takes little; of one that is COMPARED the outputs are those of the model's runtime.
COMPARED = ("--backends", "dnnl", "--no-guard", "--no-measure-kernels", "--progress", "quiet")
QUICK = (*COMPARED, "--original", "none")
