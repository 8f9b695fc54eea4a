# SPDX-License-Identifier: Apache-2.0
"""Weights are in memory once: a loaded part keeps their packed form alone, and what it reads."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from onednn_nets import build, constant, function_of, hand_placed, modules, run
from tree import child_environment
from tvm import relay
from tvm.relay.collage.backends import get_backend

MEGABYTES = 64
WIDTH = 4096  # a dense layer of so many columns and rows has 64 MB of weights


def private_megabytes():
    """Memory of this process that is no file's."""
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def dense(rows=4, width=WIDTH):
    x = relay.var("x", shape=(rows, width))
    weights = np.random.default_rng(0).standard_normal((width, width), "float32")
    return function_of(
        relay.nn.bias_add(relay.nn.dense(x, relay.const(weights)), constant(1, width))
    )


def part(backend, function):
    function = hand_placed(function)["dnnl_part"]
    return get_backend(backend).compile(function)


def called(module, rows=4, width=WIDTH):
    x = np.random.default_rng(1).standard_normal((rows, width), "float32")
    out = tvm.nd.empty((rows, width))
    module["dnnl_part"](tvm.nd.array(x), out)
    return out.numpy()


def loaded(module):
    """The module as it comes out of a file."""
    return tvm.ir.load_json(tvm.ir.save_json(module))


def grown(path):
    """How much a library adds to this process' memory, all told, once it has run."""
    small = part("dnnl", dense(width=64))
    called(small, width=64)  # what a first run brings apart from weights
    before = private_megabytes()
    library = tvm.runtime.load_module(path)
    (out,) = run(library, {"x": np.ones((4, WIDTH), "float32")})
    assert np.isfinite(out).all()
    return private_megabytes() - before


def test_a_library_that_has_run_has_its_weights_once(tmp_path):
    build(hand_placed(dense())).export_library(str(tmp_path / "net.so"))
    program = "import sys, test_partition_memory as t; print(t.grown(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "net.so"],
        env=child_environment(Path(__file__).parent), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 0.9 * MEGABYTES < float(done.stdout) < 1.4 * MEGABYTES


def test_a_loaded_part_drops_what_it_packed():
    made = part("dnnl", dense(width=96))
    wanted = called(made, width=96)
    module = loaded(made)
    assert len(module["get_constants"]()) == 2
    for _ in range(2):
        np.testing.assert_array_equal(called(module, width=96), wanted)
    for again in (module["get_constants"], lambda: tvm.ir.save_json(module)):
        with pytest.raises(ValueError, match="dnnl_part was loaded from a library and has run"):
            again()


def test_a_part_that_was_made_here_can_be_saved_after_it_ran():
    made = part("dnnl", dense(width=96))
    wanted = called(made, width=96)
    text = tvm.ir.save_json(made)
    np.testing.assert_array_equal(called(tvm.ir.load_json(text), width=96), wanted)
    assert json.loads(text)["nodes"][1]["type_key"] == "runtime.Module"


def test_constants_that_are_read_as_they_are_stay():
    """An output that is a constant, one that two steps read in two layouts, and a plain operand."""
    x = relay.var("x", shape=(1, 16, 8, 8))
    weights = constant(1, 16, 16, 3, 3)
    y = relay.nn.conv2d(x, weights, channels=16, kernel_size=(3, 3), padding=1)
    flat = relay.nn.dense(relay.reshape(weights, (16, 144)), constant(2, 4, 144))
    function = function_of(relay.Tuple([y * constant(3, 1, 16, 1, 1), flat]))
    library = build(hand_placed(function))
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 16, 8, 8), "float32")}
    wanted = run(library, inputs)
    (module,) = (m for m in modules(library.get_lib()) if m.type_key == "collage.onednn")
    again, shapes = loaded(module), [each.shape for each in wanted]
    outputs = [tvm.nd.empty(shape) for shape in shapes]
    for _ in range(2):
        again["dnnl_part"](tvm.nd.array(inputs["x"]), *outputs)
        for got, each in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(got.numpy(), each)
