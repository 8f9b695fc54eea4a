# SPDX-License-Identifier: Apache-2.0
"""Denormals as zero: in TVM's kernels and in parts of every backend, and back."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm
from tree import child_environment
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.backends import BUILTIN
from tvm.relay.collage.backends.registry import find_backend

ON_OUR_THREADS = ("cblas", "dnnl", "mkl")
ON_THEIR_OWN = ("onnxruntime", "openvino")
# A CPU's bfloat16 instructions take denormals for zero, and so does XNNPACK.
ALWAYS = ("dnnl_bf16", "openvino_bf16", "openvino_w8", "xnnpack")
BACKENDS = (*ON_OUR_THREADS, *ON_THEIR_OWN, *ALWAYS)
TINY = np.float32(1.5e-38)  # normal; half of it is not
ROWS = (4, 4096)  # small enough for one thread, and not


@pytest.fixture(autouse=True)
def restored():
    yield
    collage.flush_denormals(False)


def half(rows):
    """fn(x) -> x / 2 by a dense layer."""
    x = relay.var("x", shape=(rows, 64))
    weight = relay.const(np.eye(64, dtype="float32") * np.float32(0.5))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))
    return relay.transform.InferType()(mod)


def part(name, rows):
    """The module of a backend's part, ready to run."""
    backend, function = find_backend(name), half(rows)["main"].with_attr("global_symbol", "part")
    module = backend.compile(function)
    if len(module["get_const_vars"]()):  # TVM hands it the weight
        module["__init_part"]([function.body.args[1].data])
    return module


def is_flushed(module, rows):
    out = tvm.nd.empty((rows, 64))
    module["part"](tvm.nd.array(np.full((rows, 64), TINY)), out)
    values = np.unique(out.numpy())
    assert len(values) == 1 and values[0] in (0, TINY / 2)
    return values[0] == 0


def skip_unless_available(name):
    reason = find_backend(name).available()
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", ON_OUR_THREADS)
def test_parts_of_backends_follow(name, rows):
    skip_unless_available(name)
    for enabled in (True, False, True):
        collage.flush_denormals(enabled)
        assert collage.flushes_denormals() == enabled
        assert is_flushed(part(name, rows), rows) == enabled


def tell_parts(*names):
    """Print, in a process of its own, whether parts of those backends take denormals for zero."""
    for name in names:
        print(name, *(is_flushed(part(name, rows), rows) for rows in ROWS))


@pytest.mark.parametrize("value", ["0", "1"])
def test_parts_with_threads_of_their_own_follow_what_held_when_they_were_loaded(value):
    names = [name for name in ON_THEIR_OWN if find_backend(name).available() is None]
    if not names:
        pytest.skip(f"none of {ON_THEIR_OWN} is installed")
    done = subprocess.run(
        [sys.executable, "-c", f"import test_denormals as test; test.tell_parts(*{names!r})"],
        env=child_environment(Path(__file__).parent, COLLAGE_FLUSH_DENORMALS=value),
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert found == dict.fromkeys(names, " ".join([str(value == "1")] * len(ROWS)))


def test_a_part_follows_in_whatever_thread_it_runs():
    module, seen = part("dnnl", 4096), []
    collage.flush_denormals()
    thread = threading.Thread(target=lambda: seen.append(is_flushed(module, 4096)))
    thread.start()
    thread.join()
    assert seen == [True]


def test_no_backend_is_forgotten():
    assert set(BACKENDS) == set(BUILTIN)


def tvm_halves(rows):
    library = relay.build(half(rows), "llvm")
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(x=np.full((rows, 64), TINY))
    return np.unique(module.get_output(0).numpy())


@pytest.mark.parametrize("rows", ROWS)
def test_kernels_of_tvm_follow(rows):
    assert tvm_halves(rows) == [TINY / 2]
    collage.flush_denormals()
    assert tvm_halves(rows) == [0]


ASK = """
import numpy as np
from tvm.relay import collage
print(collage.flushes_denormals(), np.float32(1.5e-38) * np.float32(0.5) == 0)
collage.flush_denormals(not collage.flushes_denormals())
print(collage.flushes_denormals(), np.float32(1.5e-38) * np.float32(0.5) == 0)
"""


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("0", False), ("", False)])
def test_the_environment_decides_at_first(value, is_on):
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "COLLAGE_FLUSH_DENORMALS": value},
        capture_output=True,
        text=True,
        check=True,
    )
    # This thread's own arithmetic follows a call, not the environment.
    assert done.stdout.split() == [str(is_on), "False", str(not is_on), str(not is_on)]


def test_without_the_pool_the_error_says_why():
    code = (
        "import importlib.util, sys\n"
        "import tvm\n"
        "spec = importlib.util.spec_from_file_location('denormals', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert not module.flushes_denormals()\n"
        "try:\n"
        "    module.flush_denormals()\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    path = os.path.join(os.path.dirname(collage.__file__), "process_wide", "denormals.py")
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        env={**os.environ, "COLLAGE_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "unset COLLAGE_DISABLE" in done.stdout
