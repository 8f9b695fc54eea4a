# SPDX-License-Identifier: Apache-2.0
"""A library without the compiler: the C++ example on the runtimes alone."""

import subprocess

import numpy as np
import pytest
import tvm_collage
from deployed import run_program
from onednn_nets import assert_close, build, constant, function_of, hand_placed, random_inputs, run
from tvm import relay


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


def test_cpp_example(exported, program, tmp_path):
    path, data, wanted = exported
    done = run_program(program, path, data, tmp_path)
    assert done.returncode == 0, done.stderr
    head, *numbers = done.stdout.split("\n")
    assert head == "output 1 10"
    assert_close([np.array(numbers[:-1], "float32").reshape(1, 10)], wanted)
    assert "median of 20 runs" in done.stderr


def test_cpp_example_answers_numbers_of_runs(exported, program, tmp_path):
    path, data, _ = exported
    done = run_program(program, path, data, tmp_path, "serve", requests="0\n5\n")
    assert done.returncode == 0, done.stderr
    none, five = (line.split() for line in done.stdout.splitlines()[11:])
    assert none[0] == five[0] == "seconds" and float(none[1]) >= 0 and float(five[1]) > 0
    done = run_program(program, path, data, tmp_path, "sevre")
    assert done.returncode == 2 and "usage: " in done.stderr


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"TVM_NUM_THREADS": "3"}, {"GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": "3"}),
        (
            {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "7"},
            {"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "2"},
        ),
    ],
)
def test_cpp_example_sets_the_variables_that_openmp_reads(
    exported, program, tmp_path, given, found
):
    path, data, _ = exported
    env = dict.fromkeys(["TVM_NUM_THREADS", "OMP_NUM_THREADS", "GOMP_SPINCOUNT"])
    env |= {"OMP_DISPLAY_ENV": "verbose", **given}
    done = run_program(program, path, data, tmp_path, **env)
    assert done.returncode == 0, done.stderr
    # Told whenever OpenMP is loaded: before the variables were set, and after.
    told = done.stderr.rpartition("OPENMP DISPLAY ENVIRONMENT BEGIN")[2]
    for name, value in found.items():
        assert f"{name} = '{value}'" in told


@pytest.mark.parametrize("value", ["0", "1"])
def test_cpp_example_takes_denormals_for_zero_if_asked(program, tmp_path, value):
    tiny = np.full((4, 64), 1.5e-38, "float32")  # normal; half of it is not
    x = relay.var("x", shape=tiny.shape)
    half = relay.nn.dense(x, relay.const(np.eye(64, dtype="float32") * np.float32(0.5)))
    path = str(tmp_path / "half.so")
    build(hand_placed(function_of(half))).export_library(path)
    done = run_program(program, path, tiny, tmp_path, COLLAGE_FLUSH_DENORMALS=value)
    assert done.returncode == 0, done.stderr
    found = {np.float32(line) for line in done.stdout.splitlines()[1:]}
    assert found == {np.float32(0) if value == "1" else tiny[0, 0] / 2}


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
