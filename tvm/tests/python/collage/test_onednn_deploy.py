# SPDX-License-Identifier: Apache-2.0
"""A library without the compiler: Python and C++ on the runtimes alone, several threads."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm_collage
from onednn_nets import (
    assert_close,
    assert_threads_share,
    build,
    constant,
    function_of,
    hand_placed,
    random_inputs,
    run,
)
from tvm import relay

ROOT = Path(__file__).resolve().parents[4]

RUNTIME_ONLY = """
import ctypes, sys
import numpy as np
import tvm
from tvm.contrib import graph_executor
import tvm_collage
assert tvm._ffi.base._RUNTIME_ONLY
assert tvm.get_global_func("relay._transform.InferType", allow_missing=True) is None
ctypes.CDLL(tvm_collage.library_path("tvm_collage_runtime"), mode=ctypes.RTLD_GLOBAL)
library, inputs, outputs = sys.argv[1:]
module = graph_executor.GraphModule(tvm.runtime.load_module(library)["default"](tvm.cpu()))
module.set_input("x", np.load(inputs))
module.run()
np.save(outputs, module.get_output(0).numpy())
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(library's path, input, wanted output) of a small net with one op outside the partition."""
    x = relay.var("x", shape=(1, 8, 14, 14))
    part = relay.nn.conv2d(x, constant(1, 16, 8, 3, 3), channels=16, kernel_size=(3, 3), padding=1)
    part = relay.nn.relu(relay.add(part, constant(2, 16, 1, 1)))
    part = relay.nn.dense(relay.nn.batch_flatten(part), constant(3, 10, 16 * 14 * 14))
    mod = hand_placed(function_of(part))
    mod["main"] = relay.Function(mod["main"].params, relay.tanh(mod["main"].body))
    library = build(relay.transform.InferType()(mod))
    inputs = random_inputs(function_of(part))
    path = str(tmp_path_factory.mktemp("deploy") / "net.so")
    library.export_library(path)
    return path, inputs["x"], run(library, inputs)


def test_python_with_the_runtime_alone(exported, tmp_path):
    path, data, wanted = exported
    np.save(tmp_path / "in.npy", data)
    command = [sys.executable, "-c", RUNTIME_ONLY, path, tmp_path / "in.npy", tmp_path / "out.npy"]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "TVM_USE_RUNTIME_LIB": "1"})
    assert_close([np.load(tmp_path / "out.npy")], wanted)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C++ example, built."""
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("needs g++ and make")
    build_directory = tmp_path_factory.mktemp("cpp")
    command = ["make", "-C", ROOT / "demos" / "cpp_deploy"]
    command += [f"BUILD={build_directory}", f"PYTHON={sys.executable}"]
    subprocess.run(command, check=True, timeout=300)
    return build_directory / "cpp_deploy"


def run_program(program, path, data, tmp_path, **env):
    data.tofile(tmp_path / "in.bin")
    shape = "x".join(str(extent) for extent in data.shape)
    command = [program, path, "x", shape, tmp_path / "in.bin"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **env}
    )


def test_cpp_example(exported, program, tmp_path):
    path, data, wanted = exported
    done = run_program(program, path, data, tmp_path)
    assert done.returncode == 0, done.stderr
    head, *numbers = done.stdout.split("\n")
    assert head == "output 1 10"
    assert_close([np.array(numbers[:-1], "float32").reshape(1, 10)], wanted)
    assert "median of 20 runs" in done.stderr


def test_cpp_example_without_onednn(exported, program, tmp_path):
    path, data, _ = exported
    done = run_program(program, path, data, tmp_path, COLLAGE_ONEDNN_LIBRARY="/nonexistent")
    assert done.returncode == 1
    assert "oneDNN (libdnnl.so.3, version 3.2 or a later 3.x) was not found" in done.stderr


def test_cpp_example_needs_no_compiler(program):
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtvm_runtime.so" in libraries and "libtvm.so" not in libraries
    assert "libdnnl" not in libraries, "oneDNN is opened when a model first needs it"


def test_runtime_library_loads_without_tvm_compiler_symbols():
    path = tvm_collage.library_path("tvm_collage_runtime")
    shown = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    needed = "".join(line for line in shown.stdout.splitlines() if "NEEDED" in line)
    assert "libc" in needed and "libdnnl" not in needed and "libtvm" not in needed


def test_threads_share_one_module(exported):
    path, data, _ = exported
    assert_threads_share(path, data)
