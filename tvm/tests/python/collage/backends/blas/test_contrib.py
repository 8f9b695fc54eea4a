# SPDX-License-Identifier: Apache-2.0
"""`llvm -libs=cblas` and `-libs=mkl` in stock relay.build, and the functions that they call."""

import ctypes
import itertools

import numpy as np
import pytest
import tvm
import tvm_collage
from blas_nets import assert_equal, backend, require, swapped, values  # noqa: F401
from onednn_nets import function_of, run
from tvm import relay, te
from tvm.contrib import cblas, mkl

CONTRIB = {"cblas": cblas, "mkl": mkl}
FLAGS = list(itertools.product([False, True], repeat=2))


def function(backend, name):  # noqa: F811
    return tvm.get_global_func(f"tvm.contrib.{backend}.{name}")


def test_relay_build(backend):  # noqa: F811
    """All ops that TVM's strategy gives to the library, from outside any partition."""
    a, b, bias, batch = (
        values(1, (37, 53)),
        values(2, (29, 53)),
        values(3, 29),
        values(4, (3, 29, 37)),
    )
    x, y = relay.var("x", shape=a.shape), relay.var("y", shape=batch.shape)
    dense = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, relay.const(b)), relay.const(bias)))
    product = relay.nn.matmul(x, dense, transpose_a=True)
    both = relay.nn.batch_matmul(y, relay.expand_dims(relay.transpose(dense), 0))
    body = relay.Tuple([product, both])
    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.IRModule.from_expr(function_of(body))
        library = relay.build(mod, target=f"llvm -libs={backend}")
    code = library.get_lib().get_source("ll")
    assert f"tvm.contrib.{backend}.matmul" in code
    assert f"tvm.contrib.{backend}.batch_matmul" in code
    got = run(library, {"x": a, "y": batch})
    wanted = np.maximum(a @ b.T + bias, 0)
    for each, right in zip(got, [a.T @ wanted, np.matmul(batch, wanted)]):
        assert_equal(each, right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flags", FLAGS)
def test_extern_ops(backend, flags, dtype):  # noqa: F811
    a, b = values(1, (4, 30, 20), dtype), values(2, (4, 20, 50), dtype)
    wanted = np.matmul(a, b)
    a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
    library = CONTRIB[backend]
    for op, inputs, right in (
        (library.matmul, (a[0], b[0]), wanted[0]),
        (library.batch_matmul, (a, b), wanted),
        (
            library.batch_matmul,
            (a[:1], b),
            np.matmul(*(swapped(x) if f else x for x, f in zip((a[:1], b), flags))),
        ),
    ):
        placeholders = [te.placeholder(x.shape, dtype, name=n) for x, n in zip(inputs, "ab")]
        result = op(*placeholders, *flags, dtype=dtype)
        built = tvm.build(te.create_schedule(result.op), [*placeholders, result], "llvm")
        out = tvm.nd.empty(right.shape, dtype)
        built(*map(tvm.nd.array, inputs), out)
        assert_equal(out.numpy(), right)
    iterative = function(backend, "batch_matmul_iterative")
    out = tvm.nd.empty(wanted.shape, dtype)
    iterative(tvm.nd.array(a), tvm.nd.array(b), out, *flags)
    assert_equal(out.numpy(), wanted)


def test_alpha_and_beta(backend):  # noqa: F811
    a, b, c = values(1, (30, 20)), values(2, (20, 50)), values(3, (30, 50))
    out = tvm.nd.array(c)
    function(backend, "matmul")(tvm.nd.array(a), tvm.nd.array(b), out, False, False, 0.5, 2.0)
    assert_equal(out.numpy(), np.float32(0.5) * (a @ b) + 2 * c)


def test_strides(backend):  # noqa: F811
    """Columns of wider matrices, and one whose strides say that it is transposed."""
    m, n, k = 30, 50, 20
    wide_a, wide_b = values(1, (m, k + 7)), values(2, (n, k + 3))
    out = tvm.nd.empty((m, n))
    views = [strided(wide_a, (m, k), (k + 7, 1)), strided(wide_b, (k, n), (1, k + 3))]
    function(backend, "matmul")(*views, out, False, False)
    assert_equal(out.numpy(), wide_a[:, :k] @ wide_b[:, :k].T)


def strided(owner, shape, strides):
    """Return a TVM tensor with a copy of the owner's memory, read by other extents and strides."""
    view = tvm.nd.array(owner)
    view.numbers = [(ctypes.c_int64 * 2)(*shape), (ctypes.c_int64 * 2)(*strides)]
    view.handle.contents.shape, view.handle.contents.strides = view.numbers
    return view


@pytest.mark.parametrize("flags", FLAGS)
def test_bytes(flags):
    require("mkl")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 100, (30, 20), "uint8")
    b = rng.integers(-100, 100, (20, 50), "int8")
    wanted = a.astype("int32") @ b.astype("int32")
    a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
    out = tvm.nd.empty(wanted.shape, "int32")
    function("mkl", "matmul_u8s8s32")(tvm.nd.array(a), tvm.nd.array(b), out, *flags)
    assert np.array_equal(out.numpy(), wanted)


@pytest.mark.parametrize(
    "shapes, words",
    [
        ([(3, 4), (5, 6), (3, 6)], "don't fit"),
        ([(3, 4), (4, 6), (3, 7)], "don't fit"),
        ([(3, 4), (4, 6), (3, 6, 1)], "takes tensors of 2 axes, not 3"),
        ([(0, 4), (4, 6), (0, 6)], "a size or stride of 0"),
    ],
)
def test_user_errors(shapes, words):
    require("cblas")
    arrays = [tvm.nd.array(np.zeros(shape, "float32")) for shape in shapes]
    with pytest.raises(ValueError, match=words):
        function("cblas", "matmul")(*arrays, False, False)


def test_mixed_types_are_refused():
    require("cblas")
    arrays = [tvm.nd.array(np.zeros((4, 4), dtype)) for dtype in ("float32", "float64", "float32")]
    with pytest.raises(ValueError, match="must all be float32 or all be float64"):
        function("cblas", "matmul")(*arrays, False, False)
    with pytest.raises(ValueError, match="takes a, b, c, transpose_a"):
        function("cblas", "matmul")(*arrays)


@pytest.fixture
def set_threads():
    """A function that gives the pool a number of threads, also more than there are cores."""
    pool = ctypes.CDLL(tvm_collage.library_path("tvm_collage_pool"))
    yield lambda count: pool.CollagePoolSetNumThreads(count) == 0
    pool.CollagePoolSetNumThreads(0)


def test_every_element_is_computed_once_however_work_is_divided(backend, set_threads):  # noqa: F811
    """Random batches of random shapes, added twice to what is there, on 1 to 16 threads."""
    rng = np.random.default_rng(0)
    batch_matmul = function(backend, "batch_matmul")
    for _ in range(120):
        assert set_threads(int(rng.choice([1, 2, 3, 4, 7, 12, 16])))
        m, n, k = (int(size) for size in rng.choice([1, 3, 16, 17, 60, 250, 1200], 3))
        k = min(k, 250)
        batches = [(1, 1), (2, 2), (5, 1), (1, 3), (12, 12)][rng.integers(5)]
        flags = FLAGS[rng.integers(4)]
        a, b = values(m, (batches[0], m, k)), values(n, (batches[1], k, n))
        if m * n * k * max(batches) > 2e7:
            a, b = a[:1], b[:1]
        wanted = np.matmul(a, b)
        start = values(k, wanted.shape)
        out = tvm.nd.array(start)
        a, b = (tvm.nd.array(swapped(x) if flag else x) for x, flag in zip((a, b), flags))
        batch_matmul(a, b, out, *flags, 1.0, 1.0)
        assert_equal(out.numpy(), wanted + start)
