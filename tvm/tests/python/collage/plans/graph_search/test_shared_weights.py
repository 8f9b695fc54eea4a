# SPDX-License-Identifier: Apache-2.0
"""Files of libraries without weights run as those with them do, and all read the same weights."""

import hashlib
import json
import os

import numpy as np
import own_code_backends
import pytest
import tvm
from relay_text import PLAIN
from tvm import relay
from tvm.relay.collage import backends
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.compile.compiled_parts import CompiledParts
from tvm.relay.collage.measure.race.library_contestant import library_contestant
from tvm.relay.collage.plans.graph_search import shared_weights
from tvm.relay.collage.plans.graph_search.shared_weights import (
    SharedWeights,
    _is_given_constants,
    files_of,
)

RANDOM = np.random.default_rng(0)
DENSE, TABLE = (RANDOM.standard_normal((256, 256)).astype("float32") for _ in range(2))
X = RANDOM.standard_normal((256, 256)).astype("float32")


def net():
    """A part of dnnl with a weight, and a kernel of TVM with another."""
    x = relay.var("x", shape=X.shape)
    y = relay.nn.dense(relay.nn.relu(x), relay.const(DENSE))
    y = relay.floor_mod(relay.cos(y), relay.const(TABLE))
    return prepare(tvm.IRModule.from_expr(relay.Function([x], y)))


def run(folder, file, weights):
    np.savez(folder / "in.npz", x=X)
    made = library_contestant(str(file), str(folder / "in.npz"), weights=weights)
    made.run()
    return made.outputs()[0]


@pytest.mark.parametrize("build", [build_library, lambda mod, _: CompiledParts(PLAIN).build(mod)])
def test_weights_are_read_and_written_once(tmp_path, build, monkeypatch):
    hashed, sha256 = [], hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda data: hashed.append(data) or sha256(data))
    mod = backends.greedy_partition(net(), "dnnl")
    build_library(mod, PLAIN).export_library(str(tmp_path / "whole.so"))
    right = run(tmp_path, tmp_path / "whole.so", "")
    shared = SharedWeights(str(tmp_path), mod)
    for name in ("one.so", "two.so"):
        weights = shared.export(build(mod, PLAIN), str(tmp_path / name))
        assert os.path.getsize(tmp_path / name) < DENSE.nbytes
        np.testing.assert_array_equal(run(tmp_path, tmp_path / name, weights), right)
    assert len(hashed) == 2
    arrays = {file: np.load(file) for file in tmp_path.glob("*.npy")}
    assert sorted(array.nbytes for array in arrays.values()) == [DENSE.nbytes, TABLE.nbytes]
    with open(weights) as stream:
        named = json.load(stream)
    assert named["parts"] and named["params"]
    entries = [*named["params"].values(), *(e for kept in named["parts"].values() for e in kept)]
    assert sorted(entry[0] for entry in entries) == sorted(map(str, arrays))


def test_a_type_without_numpys_numbers_keeps_its_bits(tmp_path):
    array = tvm.nd.empty((3,), "bfloat16").copyfrom(np.array([1, 2, 3], "uint16"))
    file, dtype = SharedWeights(str(tmp_path), tvm.IRModule())._add(array)
    assert dtype == "bfloat16" and np.load(file).tolist() == [1, 2, 3]


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_part_in_a_format_of_its_own_is_handed_its_model(tmp_path, backend):
    if reason := backends.get_backend(backend).available():
        pytest.skip(reason)
    mod = backends.greedy_partition(net(), backend)
    library = build_library(mod, PLAIN)
    library.export_library(str(tmp_path / "whole.so"))
    weights = SharedWeights(str(tmp_path), mod).export(library, str(tmp_path / "light.so"))
    assert os.path.getsize(tmp_path / "light.so") < DENSE.nbytes
    written = [np.load(file).tobytes() for file in files_of(weights)]
    assert any(DENSE.tobytes() in each for each in written), "the model has the weight"
    right = run(tmp_path, tmp_path / "whole.so", "")
    np.testing.assert_array_equal(run(tmp_path, tmp_path / "light.so", weights), right)
    # Each opening hands it a model of its own, which it has for good.
    np.testing.assert_array_equal(run(tmp_path, tmp_path / "light.so", weights), right)


def test_a_part_without_its_model_says_so():
    create = tvm.get_global_func("collage.onnx_model.create")
    whole = create("onnxruntime", "part", bytearray(b"model"), ["float32 4"], ["float32 4"], 0)
    light, x = whole["without_constants"](), tvm.nd.array(np.zeros(4, "float32"))
    with pytest.raises(ValueError, match="part lacks its ONNX model"):
        light["part"](x, x)
    [model] = whole["get_constants"]()
    assert model.numpy().tobytes() == b"model"
    assert whole.implements_function("__init_part") is False
    light["__init_part"]([model])
    assert light["get_onnx"]() == b"model"


class Part:
    """A module of these functions."""

    def __init__(self, is_dso_exportable=False, **functions):
        self.is_dso_exportable, self._functions = is_dso_exportable, functions

    def implements_function(self, name):
        return name in self._functions

    def get_function(self, name):
        return lambda: self._functions[name]


@pytest.mark.parametrize(
    "part, is_given",
    [
        (Part(), False),
        (Part(get_const_vars=[], get_symbol="f"), False),
        (Part(get_const_vars=["c"], get_symbol="f"), True),
        (Part(get_const_vars=[], get_symbol="f", __init_f=None), True),
        (Part(True, get_const_vars=["c"]), True),
        (Part(True, get_const_vars=[]), False),
    ],
)
def test_whom_tvm_hands_constants_or_tells_that_there_are_none(part, is_given):
    assert _is_given_constants(part) == is_given


def test_weights_that_tvm_hands_to_a_part_lie_apart_too(tmp_path):
    mod = backends.greedy_partition(prepare(own_code_backends.net(X)), own_code_backends.IN_C.name)
    weights = SharedWeights(str(tmp_path), mod).export(
        build_library(mod, PLAIN), str(tmp_path / "light.so")
    )
    assert os.path.getsize(tmp_path / "light.so") < X.nbytes
    np.testing.assert_array_equal(run(tmp_path, tmp_path / "light.so", weights), np.zeros_like(X))
    assert len(files_of(weights)) == 1


def test_a_library_that_holds_weights_which_nobody_tells_of_is_written_whole(tmp_path, monkeypatch):
    mod = backends.greedy_partition(prepare(own_code_backends.net(X)), own_code_backends.IN_C.name)
    monkeypatch.setattr(shared_weights, "constants_of", lambda part: None)
    shared = SharedWeights(str(tmp_path), mod)
    assert shared.export(build_library(mod, PLAIN), str(tmp_path / "whole.so")) == ""
    np.testing.assert_array_equal(run(tmp_path, tmp_path / "whole.so", ""), np.zeros_like(X))
    assert list(tmp_path.glob("*.npy")) == []
