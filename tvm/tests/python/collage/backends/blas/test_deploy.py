# SPDX-License-Identifier: Apache-2.0
"""Products outside the compiler: prepared weights, the C++ example, one pool."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from blas_nets import BACKENDS, assert_equal, partition, require, values
from deployed import run_program
from onednn_nets import build, plan_of, run
from tvm import relay


@pytest.fixture(scope="module", params=BACKENDS)
def net(request):
    """(backend, module, input, wanted output) of two layers, one of them large enough to share."""
    require(request.param)
    a, b, bias, c = values(1, (60, 80)), values(2, (500, 80)), values(3, 500), values(4, (10, 500))
    x = relay.var("x", shape=a.shape)
    hidden = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, relay.const(b)), relay.const(bias)))
    mod = partition(request.param, relay.nn.dense(hidden, relay.const(c)))
    return request.param, mod, a, np.maximum(a @ b.T + bias, 0) @ c.T


@pytest.fixture(scope="module")
def exported(net, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("blas") / "net.so")
    build(net[1]).export_library(path)
    return path


def test_weights_are_prepared_once(net):
    backend, mod, a, wanted = net
    library = build(mod)
    assert_equal(run(library, {"x": a})[0], wanted)
    # Ten columns are too few to divide, and what is divided by rows is not packed.
    prepared = "weights packed" if backend == "mkl" else "weights transposed"
    assert prepared in plan_of(library, backend).splitlines()[0]


def test_cpp_example(net, exported, program, tmp_path):
    backend, _, a, wanted = net
    done = run_program(program, exported, a, tmp_path)
    assert done.returncode == 0, done.stderr
    head, *numbers = done.stdout.split("\n")
    assert head == "output 60 10"
    assert_equal(np.array(numbers[:-1], "float32").reshape(60, 10), wanted.astype("float32"))
    variable = {"cblas": "COLLAGE_OPENBLAS_LIBRARY", "mkl": "COLLAGE_MKL_LIBRARY"}[backend]
    done = run_program(program, exported, a, tmp_path, **{variable: "/nonexistent"})
    assert done.returncode == 1
    assert "was not found. Install it (pip install" in done.stderr and variable in done.stderr


THREADS = """
import ctypes, json, os, sys
import numpy as np
import tvm, tvm_collage
from tvm import te
from tvm.relay.collage import backends

def count():
    return len(os.listdir("/proc/self/task"))

n = te.var("n")
out = te.compute((64,), lambda i: i * 2, name="out")
schedule = te.create_schedule(out.op)
schedule[out].parallel(out.op.axis[0])
tvm.build(schedule, [out], "llvm")(tvm.nd.empty((64,), "int32"))
pool = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
before, launches = count(), pool.CollagePoolLaunchCount()
matmul = tvm.get_global_func(f"tvm.contrib.{sys.argv[1]}.matmul")
a, b, c = (tvm.nd.array(np.ones((400, 400), "float32")) for _ in range(3))
sums = []
for _ in range(3):
    matmul(a, b, c, False, True)
    sums.append(float(c.numpy().sum()))
maps = open("/proc/self/maps").read()
report = dict(
    new_threads=count() - before,
    launches=pool.CollagePoolLaunchCount() - launches,
    other_pools=[
        name
        for name in ("libiomp5", "libtbb", "mkl_gnu_thread", "mkl_intel_thread", "mkl_tbb_thread")
        if name in maps
    ],
    sums=sums,
    cpus=len(os.sched_getaffinity(0)),
)
print(json.dumps(report))
"""


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_second_pool(backend, threads):
    """The library starts no thread of its own: opening it and products leave their number alone."""
    require(backend)
    env = {**os.environ, "TVM_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    env |= {"OPENBLAS_NUM_THREADS": "4", "MKL_NUM_THREADS": "4", "MKL_THREADING_LAYER": "INTEL"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, backend],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["new_threads"] == 0 and report["other_pools"] == []
    assert report["launches"] == (0 if threads == "1" else 3), "products run on the one pool"
    assert report["sums"] == [400.0**3] * 3
    assert report["cpus"] == len(os.sched_getaffinity(0)), "the process keeps its CPUs"
