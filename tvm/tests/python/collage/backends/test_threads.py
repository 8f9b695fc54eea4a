# SPDX-License-Identifier: Apache-2.0
"""Every backend's deployed libraries: several models and threads at once, and how many threads the
process then has. Parts mixed from several backends: backends/test_agree.py.
"""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import tvm
from onednn_nets import build, constant, function_of
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.backends import get_backend, greedy_partition

BACKENDS = ("tvm", "dnnl", "cblas", "mkl", "onnxruntime", "openvino", "xnnpack")
# Those whose parts run on threads of the library's own; the others run on TVM's, the one pool.
OWN_POOL = ("onnxruntime", "openvino")
# Those of which each part has threads of its own.
OWN_POOL_PER_PART = ("onnxruntime",)
# Rows of the input and widths of the layers: enough work to be divided among threads.
NETS = {"wide": (256, 128, 512, 64), "deep": (192, 96, 96, 96, 96, 96)}


def net(name):
    """fn(x): dense layers with relu between; and the same of numpy."""
    rows, *widths = NETS[name]
    weights = [constant(k, *pair[::-1]) for k, pair in enumerate(zip(widths, widths[1:]))]
    out = relay.var("x", shape=(rows, widths[0]))
    for weight in weights:
        out = relay.nn.relu(relay.nn.dense(out, weight))

    def expected(x):
        for weight in weights:
            x = np.maximum(x @ weight.data.numpy().T, 0)
        return x

    return tvm.IRModule.from_expr(function_of(out)), expected


def data(name, seed):
    rows, width, *_ = NETS[name]
    return np.random.default_rng(seed).standard_normal((rows, width)).astype("float32")


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    if request.param != "tvm" and (reason := get_backend(request.param).available()):
        pytest.skip(f"{request.param}: {reason}")
    return request.param


@pytest.fixture(scope="module")
def libraries(backend, tmp_path_factory):
    """Files of both nets, by name; each has a part of the backend's."""
    folder, files = tmp_path_factory.mktemp(backend), {}
    for name in NETS:
        mod, _ = net(name)
        if backend != "tvm":
            mod = greedy_partition(mod, backend)
            assert len(mod.get_global_vars()) > 1
        files[name] = str(folder / f"{name}.so")
        build(mod).export_library(files[name])
    return files


def test_two_models_in_several_threads_at_once(libraries):
    """Three threads a model, each with its executor and its input; the first run is theirs too."""
    wrong, threads, start = [], [], threading.Barrier(3 * len(NETS))

    def work(name, executor, x, expected):
        executor.set_input("x", x)
        start.wait()
        for _ in range(20):
            executor.run()
            found = executor.get_output(0).numpy()
            if not np.allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()):
                wrong.append(name)

    for name, file in libraries.items():
        library, expected = tvm.runtime.load_module(file), net(name)[1]
        for seed in range(3):
            executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
            x = data(name, seed)
            threads.append(threading.Thread(target=work, args=(name, executor, x, expected(x))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Runs both libraries in each of so many threads and prints how many threads there are beside them.
COUNT = """
import ctypes, os, sys, threading
import tvm, tvm_collage
from tvm.contrib import graph_executor

ctypes.CDLL(tvm_collage.library_path("tvm_collage_runtime"), mode=ctypes.RTLD_GLOBAL)
callers, set_later, *files = sys.argv[1:]
libraries = [tvm.runtime.load_module(file) for file in files]
have_run, counted = (threading.Barrier(int(callers) + 1) for _ in range(2))
before = len(os.listdir("/proc/self/task"))

def work():
    if int(set_later):
        tvm.get_global_func("runtime.config_threadpool")(1, int(set_later))
    for library in libraries * 2:
        graph_executor.GraphModule(library["default"](tvm.cpu())).run()
    have_run.wait()
    counted.wait()

for _ in range(int(callers)):
    threading.Thread(target=work, daemon=True).start()
have_run.wait(timeout=100)
print(len(os.listdir("/proc/self/task")) - before - int(callers))
counted.wait()
"""


def new_threads(libraries, threads, callers, set_later=0):
    """Threads beside the callers, in a process of TVM's runtime alone, given a number of threads by
    the environment, and another one later by a call."""
    env = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    env |= {"TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", COUNT, str(callers), str(set_later), *libraries.values()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def helpers(libraries, backend):
    """Threads that a library has though it was given one: they wait, for logs or for callbacks."""
    count = new_threads(libraries, threads=1, callers=1)
    assert backend in OWN_POOL or count == 0
    return count


def test_as_many_threads_as_asked_for(libraries, backend, helpers):
    """Two callers, two models of a part each: on the one pool each caller has a team, which is its
    own; other pools are shared by the callers."""
    count = new_threads(libraries, threads=3, callers=2) - helpers
    if backend == "openvino":  # takes no more than there are CPUs, some more for a second caller
        assert min(3, len(os.sched_getaffinity(0))) - 1 <= count <= 4
    else:
        assert count == 4


def test_as_many_threads_as_asked_for_later(libraries, backend, helpers):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: OpenVINO takes one thread then")
    count = new_threads(libraries, threads=5, callers=1, set_later=2) - helpers
    assert count == (len(NETS) if backend in OWN_POOL_PER_PART else 1)
