# SPDX-License-Identifier: Apache-2.0
"""The backends cblas and mkl: each product that they take against numpy, what they refuse and why,
and their library. What every backend keeps is test_contract.py's, their threads test_threads.py's.
"""

import ctypes
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import relay_text
import tvm
import tvm_collage
import tvm_forks
from blas_nets import (  # noqa: F401
    BACKENDS,
    assert_equal,
    backend,
    compiled,
    computed,
    partition,
    product,
    require,
    swapped,
    values,
    variable,
)
from onednn_nets import build, constant, run, typed, var
from relay_text import composites
from sessions import shared_session
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import backends
from tvm.relay.collage.compile.library import inline_external_functions
from tvm.relay.collage.relay_util.external import on_one_thread

nn = relay.nn
FLAGS = list(itertools.product([False, True], repeat=2))
# Rows, columns, depth: one row, one column, no multiple of any block, tall, wide, deep.
SHAPES = [
    (1, 1, 1),
    (1, 300, 257),
    (2, 200, 130),
    (5, 190, 140),
    (300, 1, 70),
    (37, 53, 29),
    (301, 19, 65),
    (19, 301, 65),
    (9, 11, 1000),
]


@pytest.fixture
def set_threads():
    """A function that gives the pool a number of threads, also more than there are cores."""
    pool = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
    yield lambda count: pool.CollagePoolSetNumThreads(count) == 0
    pool.CollagePoolSetNumThreads(0)


@pytest.mark.parametrize("m, n, k", SHAPES)
def test_matmul(backend, m, n, k, set_threads):  # noqa: F811
    """Weights of the caller and constant ones, both types, however work is divided. One row or
    column has all flags; of other shapes every other has b as it lies, every other transposed."""
    first, step = (0, 1) if 1 in (m, n) else (SHAPES.index((m, n, k)) % 2, 2)
    for number, flags in list(enumerate(FLAGS))[first::step]:
        assert set_threads([1, 2, 3, 16][number])
        dtype = ["float32", "float64"][(m + number // 2) % 2]
        a, b = values(m, (m, k), dtype), values(n, (k, n), dtype)
        wanted = product(a, b)
        a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
        weights = relay.const(b, dtype) if (n + number) % 2 else variable("b", b)
        body = nn.matmul(variable("a", a), weights, transpose_a=flags[0], transpose_b=flags[1])
        assert_equal(computed(backend, body, {"a": a, "b": b}), wanted)


@pytest.mark.parametrize("batches", [(1, 1), (3, 3), (12, 12), (1, 5), (5, 1)])
def test_batch_matmul(backend, batches, set_threads):  # noqa: F811
    """Threads that divide the batch, that cut matrices, and more of them than there are blocks."""
    shapes = [(1, 64, 40), (33, 45, 17), (128, 130, 64), (70, 20, 9)]
    for threads, flags, (m, n, k) in zip((3, 7, 16, 2), FLAGS, shapes):
        assert set_threads(threads)
        a, b = values(m, (batches[0], m, k)), values(n, (batches[1], k, n))
        wanted = product(a, b)
        a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
        x, y = variable("a", a), variable("b", b)
        body = nn.batch_matmul(x, y, transpose_a=flags[0], transpose_b=flags[1])
        assert_equal(computed(backend, body, {"a": a, "b": b}), wanted)


EPILOGUES = {
    "bias_add": lambda c, bias: nn.bias_add(c, bias, axis=-1),
    "add": relay.add,
    "add_first": lambda c, bias: relay.add(bias, c),
    "add_row": lambda c, bias: relay.add(c, relay.const(bias.data.numpy()[None])),
    "bias_relu": lambda c, bias: nn.relu(relay.add(c, bias)),
    "relu": lambda c, bias: nn.relu(c),
}


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("kind", ["dense", "dense_3d", "batch_matmul"])
def test_epilogues(backend, name, kind):  # noqa: F811
    a = values(1, (67, 40) if kind == "dense" else (4, 67, 40))
    b = values(2, (4, 50, 40) if kind == "batch_matmul" else (50, 40))
    bias = values(3, 50)
    op = nn.batch_matmul if kind == "batch_matmul" else nn.dense
    weights = variable("b", b) if kind == "batch_matmul" else relay.const(b)
    shift = relay.const(bias) if name != "add" else variable("bias", bias)
    body = EPILOGUES[name](op(variable("a", a), weights), shift)
    wanted = product(a, swapped(b))
    wanted = wanted + bias if name != "relu" else wanted
    wanted = np.maximum(wanted, 0) if "relu" in name else wanted
    assert_equal(computed(backend, body, {"a": a, "b": b, "bias": bias}), wanted)


def test_large_and_special_values(backend):  # noqa: F811
    a, b = np.full((20, 30), 1e19, "float32"), np.full((40, 30), 1e19, "float32")
    x = variable("x", a)
    for a[3, 4] in (1e19, np.nan):
        large = computed(backend, nn.dense(x, relay.const(b)), {"x": a})
        small = computed(backend, nn.relu(nn.dense(x, relay.const(-b))), {"x": a})
        if np.isnan(a[3, 4]):
            assert np.isnan(large[3]).all() and np.isnan(small[3]).all(), "relu keeps NaN"
        others = np.delete(large, 3, 0), np.delete(small, 3, 0)
        assert np.isposinf(others[0]).all() and (others[1] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("m, n, k", [(33, 48, 16), (1, 300, 257), (2, 200, 130)])  # gemm, gemv
def test_what_the_result_held_before_never_shows(backend, m, n, k, transpose_b, dtype):  # noqa: F811
    a, b = values(1, (m, k), dtype), values(2, (k, n), dtype)
    wanted = product(a, b)
    b = swapped(b) if transpose_b else b
    call = compiled(backend, nn.matmul(variable("x", a), variable("y", b), transpose_b=transpose_b))
    out = tvm.nd.empty((m, n), dtype)
    for factor in (1, -2):
        out.copyfrom(np.full((m, n), np.nan, dtype))
        call(tvm.nd.array(a * factor), tvm.nd.array(b), out)
        assert_equal(out.numpy(), wanted * factor)


def merged(backend, body):  # noqa: F811
    """The typed module with all neighbouring products of the expression joined into one part."""
    mod = typed(body)
    costs = {"llvm": 30, backend: 1}
    return relay_text.partition(mod, [tvm.target.Target(backend)], costs, merge_parts=True)


def test_neighbours_that_are_joined(backend):  # noqa: F811
    """Of two types: results that stay inside, one of them read twice, and one that is given too."""
    a, b, c = values(1, (30, 40)), values(2, (20, 40)), values(3, (50, 20))
    first = nn.relu(nn.bias_add(nn.dense(variable("x", a), relay.const(b)), relay.const(b[:, 0])))
    second = nn.dense(first, relay.const(c))
    body = relay.Tuple([nn.matmul(second, second, transpose_b=True), first])
    plan = merged(backend, body)
    assert len(composites(plan)) == 3 and len(plan.get_global_vars()) == 2
    library = build(inline_external_functions(plan))
    wanted = np.maximum(product(a, b.T) + b[:, 0], 0)
    last = product(wanted, c.T)
    for scale in (np.nan, 1):  # what a run leaves in memory never shows in the next
        got = run(library, {"x": a * np.float32(scale)})
        for each, right in zip(got, [product(last, last.T), wanted], strict=True):
            assert_equal(each, right * np.float32(scale))


def test_a_part_on_one_thread_launches_nothing(backend, set_threads):  # noqa: F811
    assert set_threads(2)
    pool = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
    a, b = values(1, (200, 300)), values(2, (400, 300))
    mod = partition(backend, nn.dense(variable("x", a), relay.const(b)))
    for each, launches in ((mod, 1), (on_one_thread(mod), 0)):
        library = build(each)
        run(library, {"x": a})
        before = pool.CollagePoolLaunchCount()
        assert_equal(run(library, {"x": a})[0], product(a, b.T))
        assert pool.CollagePoolLaunchCount() - before == launches


def taken(backend, body) -> list[str]:  # noqa: F811
    """Return the composites of the greedy partition, sorted."""
    mod = typed(body)
    return sorted(composites(backends.greedy_partition(mod, backend)))


def bytes_dense():
    x, weights = var("x", 4, 8, dtype="int8"), var("w", 16, 8, dtype="int8")
    return nn.dense(x, weights, None, "int32")


DENSE = nn.dense(var("x", 4, 8), constant(1, 16, 8))
BATCH = nn.batch_matmul(var("x", 3, 4, 8), var("y", 1, 16, 8))
SQUARE = nn.dense(var("x", 4, 8), constant(1, 4, 8))


@pytest.mark.parametrize(
    "body, wanted",
    [
        (DENSE, ["dense"]),
        (nn.relu(DENSE), ["dense_relu"]),
        (nn.relu(nn.bias_add(DENSE, constant(2, 16))), ["dense_bias_relu"]),
        (relay.add(constant(2, 1, 16), DENSE), ["dense_bias"]),
        (relay.add(DENSE, var("b", 16)), ["dense_bias"]),
        (nn.matmul(var("x", 4, 8), var("y", 8, 16)), ["matmul"]),
        (nn.relu(relay.add(BATCH, constant(2, 16))), ["batch_matmul_bias_relu"]),
        # A bias of other axes, a residual sum and a second bias stay outside.
        (nn.bias_add(SQUARE, constant(2, 4), axis=0), ["dense"]),
        (relay.add(DENSE, var("r", 4, 16)), ["dense"]),
        (relay.add(DENSE, nn.dense(var("y", 4, 8), constant(3, 16, 8))), ["dense", "dense"]),
        (relay.add(relay.add(DENSE, constant(2, 16)), constant(3, 16)), ["dense_bias"]),
        (relay.tanh(DENSE), ["dense"]),
        # No dynamic shape, no empty one, no other type.
        (nn.dense(var("x", relay.Any(), 8), constant(1, 16, 8)), []),
        (nn.dense(var("x", 0, 8), constant(1, 16, 8)), []),
        (nn.batch_matmul(var("x", 0, 4, 8), var("y", 0, 16, 8)), []),
        (nn.dense(var("x", 4, 8, dtype="float16"), var("w", 16, 8, dtype="float16")), []),
        (bytes_dense(), []),
    ],
)  # fmt: skip
def test_greedy(backend, body, wanted):  # noqa: F811
    assert taken(backend, body) == [f"{backend}.{each}" for each in wanted]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "body, words",
    [
        (nn.relu(var("x", 2, 3)), ["nn.relu", "does not end a matrix product"]),
        (relay.add(DENSE, var("y", 4, 16)), ["add", "shape [4, 16] is not one number"]),
        (relay.add(nn.relu(DENSE), constant(2, 16)), ["add", "shape [4, 16] is not one number"]),
        (nn.bias_add(SQUARE, constant(2, 4), axis=0), ["nn.bias_add", "one number for each"]),
        (nn.dense(var("x", 0, 8), constant(1, 16, 8)), ["nn.dense", "[0, 8]", "empty"]),
        (bytes_dense(), ["nn.dense", "its types are int32, int8"]),
        (nn.dense(var("x", relay.Any(), 8), constant(1, 16, 8)), ["nn.dense", "dynamic"]),
        (nn.matmul(var("x", 2, 8, 4), var("y", 8, 3), transpose_a=True), ["transposed"]),
        (relay.Tuple([nn.relu(DENSE), DENSE]), ["Tuple", "does not end a matrix product"]),
    ],
)  # fmt: skip
def test_what_it_does_not_take_is_named(backend, body, words):  # noqa: F811
    function = partition(backend, body)["part"]
    with pytest.raises(backends.UnsupportedOpError) as raised:
        backends.get_backend(backend).compile(function)
    for word in [f"{backend} cannot run", *words]:
        assert word in str(raised.value)


def test_refusals_give_the_reason():
    require("cblas")
    body = nn.dense(var("x", 0, 8), constant(1, 16, 8))
    mod = typed(body)
    found = collage.refusals(mod, [collage.host_target(), "cblas"])
    assert any("dynamic, empty or more than an int holds" in each.Summary() for each in found)


def test_measured_build_with_three_backends():
    """relay.build(mod, target=[llvm, dnnl, cblas]) with the option: costs are measured."""
    require("cblas")
    a, b = values(1, (64, 96)), values(2, (80, 96))
    body = nn.relu(nn.dense(var("x", *a.shape), relay.const(b)))
    mod = typed(body)
    targets = [collage.host_target(), tvm.target.Target("dnnl"), tvm.target.Target("cblas")]
    options = collage.CollageOptions(
        enable_collage=True, measure_seconds=0.01, guard_rounds=3, workers=1, progress="quiet"
    )
    config = options.to_config()
    with shared_session(options) as session, tvm.transform.PassContext(opt_level=3, config=config):
        library = relay.build(mod, target=targets)
        costs = collage.candidates(mod, targets, estimator=collage.CostEstimator(session))
    assert_equal(run(library, {"x": a})[0], np.maximum(a @ b.T, 0))
    found = [each for each in costs if each.backend == "cblas"]
    assert found and all(each.cost.status == "measured" for each in found)


THREADS = """
import ctypes, json, os, sys
import numpy as np
import tvm, tvm_collage
from tvm.contrib import graph_executor

ctypes.CDLL(tvm_collage.library_path("tvm_collage_runtime"), mode=ctypes.RTLD_GLOBAL)
pool = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
executor = graph_executor.GraphModule(tvm.runtime.load_module(sys.argv[1])["default"](tvm.cpu()))
before, launches = len(os.listdir("/proc/self/task")), pool.CollagePoolLaunchCount()
sums = []
for _ in range(3):
    executor.run(x=np.ones((400, 400), "float32"))
    sums.append(float(executor.get_output(0).numpy().sum()))
pools = ("libiomp5", "libtbb", "mkl_gnu_thread", "mkl_intel_thread", "mkl_tbb_thread")
maps = open("/proc/self/maps").read()
print(json.dumps(dict(
    new_threads=len(os.listdir("/proc/self/task")) - before,
    launches=pool.CollagePoolLaunchCount() - launches,
    other_pools=[name for name in pools if name in maps],
    sums=sums,
    cpus=len(os.sched_getaffinity(0)),
)))
"""


def test_no_second_pool(backend, tmp_path):  # noqa: F811
    """The library starts no thread of its own, whatever the variables say, and shares the pool."""
    threads = 3
    weights = relay.const(np.ones((400, 400), "float32"))
    library = build(partition(backend, nn.dense(var("x", 400, 400), weights)))
    library.export_library(str(tmp_path / "net.so"))
    env = {**os.environ, "TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    env |= {"OPENBLAS_NUM_THREADS": "4", "MKL_NUM_THREADS": "4", "MKL_THREADING_LAYER": "INTEL"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, tmp_path / "net.so"],
        env={**env, "TVM_USE_RUNTIME_LIB": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["new_threads"] == threads - 1 and report["other_pools"] == []
    assert report["launches"] == 3, "products run on the one pool"
    assert report["sums"] == [400.0**3] * 3
    assert report["cpus"] == len(os.sched_getaffinity(0)), "the process keeps its CPUs"


VARIABLES = {"cblas": "COLLAGE_OPENBLAS_LIBRARY", "mkl": "COLLAGE_MKL_LIBRARY"}
SAY = "import sys; from tvm.relay.collage import backends; print(backends.get_backend(sys.argv[1]))"
SAY = SAY.replace("sys.argv[1])", "sys.argv[1]).summary()")
MKL = """
int MKL_Set_Interface_Layer(int layer) { return %d; }
int MKL_Set_Threading_Layer(int layer) { return %d; }
void MKL_Get_Version_String(char* text, int size) { text[0] = '1'; text[1] = 0; }
"""


@pytest.mark.parametrize(
    "backend, text, words",
    [
        ("cblas", "int nothing_of_blas;", "undefined symbol: scipy_"),
        ("mkl", "int nothing_of_blas;", "undefined symbol: MKL_"),
        ("mkl", MKL % (0, 1), "mkl (op-level): version 1, tiles"),
        ("mkl", MKL % (1, 1), "is in use already with 64-bit sizes"),
        ("mkl", MKL % (0, 3), "is in use already with threads of its own (layer 3)"),
    ],
)  # fmt: skip
def test_a_library_of_another_kind(backend, text, words, tmp_path):  # noqa: F811
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    done = tvm_forks.run(SAY, backend, env={**os.environ, VARIABLES[backend]: str(library)})
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert ("not available" in done.stdout) == (": version" not in done.stdout)


def test_a_file_finds_its_library_where_it_runs(backend, tmp_path):  # noqa: F811
    """By the variable, in another folder than where it was compiled; the error says what to do."""
    a, b = values(1, (4, 8)), values(2, (16, 8))
    build(partition(backend, nn.dense(variable("x", a), relay.const(b)))).export_library(
        str(tmp_path / "net.so")
    )
    needs = backends.get_backend(backend).needs
    (tmp_path / "lib").symlink_to(Path(needs.file()).resolve().parent)
    elsewhere = tmp_path / "lib" / needs.soname
    program = (
        "import sys, numpy as np\nfrom tvm_collage.runner import load_runner\n"
        "x, file = np.load(sys.argv[1]), sys.argv[2]\n"
        "print(*load_runner(file)(x=x)[0].ravel()[:1])\nprint(open('/proc/self/maps').read())"
    )
    np.save(tmp_path / "x.npy", a)
    arguments = [sys.executable, "-c", program, tmp_path / "x.npy", tmp_path / "net.so"]
    found = {}
    for place in (elsewhere, "/nonexistent"):
        env = {**os.environ, VARIABLES[backend]: str(place), "TVM_USE_RUNTIME_LIB": "1"}
        found[place] = subprocess.run(
            arguments, env=env, capture_output=True, text=True, timeout=120
        )
    assert found[elsewhere].returncode == 0, found[elsewhere].stderr
    first = float(found[elsewhere].stdout.splitlines()[0])
    assert first == pytest.approx(float(product(a, b.T)[0, 0]), rel=1e-4)
    assert found["/nonexistent"].returncode != 0
    said = found["/nonexistent"].stderr
    assert "was not found. Install it (pip install" in said and VARIABLES[backend] in said


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_library_of_an_earlier_version_says_what_to_do(kind):
    load = tvm.get_global_func(f"runtime.module.loadbinary_collage.{kind}")
    with pytest.raises(ValueError, match="from an earlier version of Collage.* compile the model"):
        load(None)
