# SPDX-License-Identifier: Apache-2.0
"""Other frameworks as contestants: their variables of threads, and what they answer."""

import os
import subprocess
import sys

import models
import numpy as np
import onnx
import pytest
from bench_nets import small_classifier
from onnx import TensorProto, helper
from tvm.relay.collage.exec.resolve import resolve
from tvm.relay.collage.measure import peers
from tvm.relay.collage.measure.peers import onnxruntime_session


def test_variables_that_only_ours_needs_are_not_the_peers(tmp_path):
    """What the user had set before this process stays; ours are undone."""
    started = tmp_path / "environ"
    started.write_text("PATH=/bin\0TVM_BIND_THREADS=0\0")
    found = peers.untouched_variables(str(started))
    assert found == {"GOMP_SPINCOUNT": "300000", "TVM_BIND_THREADS": "0"}
    peer = peers.PEERS["openvino"].contestant("m", "i", {"TVM_NUM_THREADS": "2"})
    assert {"GOMP_SPINCOUNT", "TVM_BIND_THREADS", "TVM_NUM_THREADS"} == set(peer.environment)
    echo = "import tvm_collage, os, tvm; print(os.environ['GOMP_SPINCOUNT'])"
    said = subprocess.run(
        [sys.executable, "-c", echo],
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "300000\n"


def test_openvino_answers_what_onnxruntime_does(tmp_path):
    peer = peers.PEERS["openvino"]
    pytest.importorskip(peer.package)
    net = models.Net("small", "a small net", small_classifier, "this test")
    files = models.save(net, small_classifier(1), tmp_path)
    (expected,) = onnxruntime_session(*files, threads=1).outputs()
    (found,) = resolve(peer.factory)(*files, threads=1).outputs()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_output_of_another_rank_than_the_file_says_is_given(tmp_path):
    """As in ddddocr's nets of PyPI: onnxruntime warns of it, and cannot bind it."""
    pytest.importorskip("onnxruntime")
    given = {"x": np.arange(6, dtype="float32"), "shape": np.array([1, 2, 3])}
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, ["rank"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "length"]),
    ]
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph = helper.make_graph([node], "net", infos[:2], infos[2:])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", **given)
    session = onnxruntime_session(str(tmp_path / "net.onnx"), str(tmp_path / "in.npz"), 1)
    session.run()
    assert session.outputs()[0].tolist() == given["x"].reshape(1, 2, 3).tolist()
