# SPDX-License-Identifier: Apache-2.0
"""A small net beside the frameworks in each precision that they have."""

import numpy as np
import onnx
import pytest
from onnx_nets import conv_net
from tvm.relay import collage
from tvm.relay.collage.errors import ModelError
from tvm.relay.collage.measure.race.race import RaceOptions
from tvm.relay.collage.precision import peers
from tvm.relay.collage.precision.calibration import Calibration, load_calibration
from tvm.relay.collage.precision.metrics import find_metric

ONE_THREAD = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
RNG = np.random.default_rng(0)
GIVEN = [RNG.standard_normal((1, 3, 16, 16)).astype("float32") for _ in range(8)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The net on TVM alone."""
    found = collage.optimize(
        collage.from_onnx(conv_net())[0],
        None,
        ["llvm"],
        collage.CollageOptions(guard=False, progress="quiet", store="none"),
    )
    file = str(tmp_path_factory.mktemp("library") / "ours.so")
    found.save_library(file)
    return file


def measured(library, folder):
    net = conv_net()
    return peers.beside_peers(
        "ours",
        library,
        net,
        Calibration.of(load_calibration(GIVEN, net)),
        str(folder),
        metric=find_metric("max", ["y"]),
        environment=ONE_THREAD,
        race=RaceOptions(rounds=2),
    )


def test_errors_of_all_are_on_the_same_samples(library, tmp_path):
    found = measured(library, tmp_path)
    errors = {item.name: item.output_error for item in found}
    exact = {"ours", "onnxruntime float32", "openvino float32 f32"} & errors.keys()
    assert len(exact) >= 2 and all(errors[name] < 1e-4 for name in exact)
    assert 1e-4 < errors["onnxruntime int8"] < 0.5
    assert 1e-5 < errors["onnxruntime int8 dynamic"] < 0.5
    if "openvino int8 f32" in errors:
        assert 1e-4 < errors["openvino int8 f32"] < 0.5
    assert all(item.cost.seconds for item in found if item.name in exact)


def test_a_form_that_cannot_be_made_is_left_out(library, tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise ModelError("it cannot be quantised: no")

    monkeypatch.setattr(peers, "quantise", refuse)
    monkeypatch.setattr(peers, "_made", refuse)
    names = {item.name for item in measured(library, tmp_path)}
    assert "onnxruntime float32" in names and not any("int8" in name for name in names)
    assert "no peer in int8: it cannot be quantised: no" in caplog.text


def test_weights_alone_keep_what_is_computed(tmp_path):
    source, made = str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")
    onnx.save(conv_net(), source)
    peers.quantise_weights(source, made)
    assert "DequantizeLinear" in {node.op_type for node in onnx.load(made).graph.node}
