# SPDX-License-Identifier: Apache-2.0
"""Each product that the BLAS backends take, against numpy in float64."""

import itertools

import numpy as np
import pytest
import tvm
from blas_nets import (  # noqa: F401
    assert_equal,
    backend,
    partition,
    run_partition,
    swapped,
    values,
)
from tvm import relay
from tvm.relay.collage.backends import get_backend

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


def variable(name, array):
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def product(a, b):
    return np.matmul(a.astype("float64"), b.astype("float64")).astype(a.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flags", FLAGS)
def test_matmul(backend, flags, dtype):  # noqa: F811
    """All shapes at once, as outputs of one partition: weights from the caller."""
    bodies, inputs, wanted = [], {}, []
    for i, (m, n, k) in enumerate(SHAPES):
        a, b = values(i, (m, k), dtype), values(i + 50, (k, n), dtype)
        wanted.append(product(a, b))
        a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
        inputs |= {f"a{i}": a, f"b{i}": b}
        x, y = variable(f"a{i}", a), variable(f"b{i}", b)
        bodies.append(relay.nn.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1]))
    for got, right in zip(run_partition(backend, relay.Tuple(bodies), inputs), wanted):
        assert_equal(got, right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dense_with_constant_weights(backend, dtype):  # noqa: F811
    bodies, inputs, wanted = [], {}, []
    for i, (m, n, k) in enumerate(SHAPES):
        a, b, bias = values(i, (m, k), dtype), values(i + 50, (n, k), dtype), values(i, n, dtype)
        inputs[f"a{i}"] = a
        x, weights, shift = variable(f"a{i}", a), relay.const(b, dtype), relay.const(bias, dtype)
        biased = relay.nn.bias_add(relay.nn.dense(x, weights), shift)
        bodies += [relay.nn.dense(x, weights), relay.nn.relu(biased)]
        wanted += [product(a, b.T), np.maximum(product(a, b.T) + bias, 0)]
    for got, right in zip(run_partition(backend, relay.Tuple(bodies), inputs), wanted):
        assert_equal(got, right)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("batches", [(1, 1), (3, 3), (12, 12), (1, 5), (5, 1)])
def test_batch_matmul(backend, flags, batches):  # noqa: F811
    bodies, inputs, wanted = [], {}, []
    for i, (m, n, k) in enumerate([(1, 64, 40), (33, 45, 17), (128, 130, 64)]):
        a, b = values(i, (batches[0], m, k)), values(i + 50, (batches[1], k, n))
        wanted.append(product(a, b))
        a, b = (swapped(x) if flag else x for x, flag in zip((a, b), flags))
        inputs[f"a{i}"] = a
        x = variable(f"a{i}", a)
        # Weights of the caller and constant ones in turn.
        y = relay.const(b) if i == 1 else variable(f"b{i}", b)
        inputs |= {} if i == 1 else {f"b{i}": b}
        bodies.append(relay.nn.batch_matmul(x, y, transpose_a=flags[0], transpose_b=flags[1]))
    for got, right in zip(run_partition(backend, relay.Tuple(bodies), inputs), wanted):
        assert_equal(got, right)


EPILOGUES = {
    "bias_add": lambda c, bias: relay.nn.bias_add(c, bias, axis=-1),
    "add": relay.add,
    "add_first": lambda c, bias: relay.add(bias, c),
    "add_row": lambda c, bias: relay.add(c, relay.const(bias.data.numpy()[None])),
    "bias_relu": lambda c, bias: relay.nn.relu(relay.add(c, bias)),
    "relu": lambda c, bias: relay.nn.relu(c),
}


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("kind", ["dense", "dense_3d", "batch_matmul"])
def test_epilogues(backend, name, kind):  # noqa: F811
    a = values(1, (67, 40) if kind == "dense" else (4, 67, 40))
    b = values(2, (4, 50, 40) if kind == "batch_matmul" else (50, 40))
    bias = values(3, 50)
    op = relay.nn.batch_matmul if kind == "batch_matmul" else relay.nn.dense
    weights = variable("b", b) if kind == "batch_matmul" else relay.const(b)
    shift = relay.const(bias) if name != "add" else variable("bias", bias)
    body = EPILOGUES[name](op(variable("a", a), weights), shift)
    inputs = {"a": a, "b": b, "bias": bias}
    inputs = {var.name_hint: inputs[var.name_hint] for var in relay.analysis.free_vars(body)}
    wanted = product(a, swapped(b))
    wanted = wanted + bias if name != "relu" else wanted
    wanted = np.maximum(wanted, 0) if "relu" in name else wanted
    assert_equal(run_partition(backend, body, inputs)[0], wanted)


def test_products_of_products(backend):  # noqa: F811
    """Results that stay inside, an output that is read, one output twice, an input as output."""
    a, b, c = values(1, (30, 40)), values(2, (20, 40)), values(3, (50, 20))
    x = variable("x", a)
    first = relay.nn.relu(relay.nn.dense(x, relay.const(b)))
    second = relay.nn.dense(first, relay.const(c))
    third = relay.nn.matmul(second, second, transpose_b=True)
    got = run_partition(backend, relay.Tuple([third, first, first, x]), {"x": a})
    wanted = np.maximum(product(a, b.T), 0)
    last = product(wanted, c.T)
    for each, right in zip(got, [product(last, last.T), wanted, wanted, a]):
        assert_equal(each, right)


def test_large_and_special_values(backend):  # noqa: F811
    a = np.full((20, 30), 1e19, "float32")
    b = np.full((40, 30), 1e19, "float32")
    x = variable("x", a)
    body = relay.Tuple(
        [relay.nn.dense(x, relay.const(b)), relay.nn.relu(relay.nn.dense(x, relay.const(-b)))]
    )
    large, small = run_partition(backend, body, {"x": a})
    assert np.isposinf(large).all() and (small == 0).all()
    a[3, 4] = np.nan
    large, small = run_partition(backend, body, {"x": a})
    assert np.isnan(large[3]).all() and np.isnan(small[3]).all(), "relu keeps what is no number"
    assert np.isposinf(np.delete(large, 3, 0)).all()


def compiled(backend, body):  # noqa: F811
    """The module of the expression as one partition, ready to be called."""
    function = partition(backend, body)["part"]
    return get_backend(backend).compile(function)["part"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("m, n, k", [(33, 48, 16), (1, 300, 257), (2, 200, 130)])  # gemm, gemv
def test_what_the_result_held_before_never_shows(backend, m, n, k, transpose_b, is_constant, dtype):  # noqa: F811
    a, b = values(1, (m, k), dtype), values(2, (k, n), dtype)
    wanted = product(a, b)
    b = swapped(b) if transpose_b else b
    x, y = variable("x", a), relay.const(b, dtype) if is_constant else variable("y", b)
    call = compiled(backend, relay.nn.matmul(x, y, transpose_b=transpose_b))
    out = tvm.nd.empty((m, n), dtype)
    for factor in (1, -2):
        out.copyfrom(np.full((m, n), np.nan, dtype))
        given = [a * factor] if is_constant else [a * factor, b]
        call(*map(tvm.nd.array, given), out)
        assert_equal(out.numpy(), wanted * factor)


def test_what_an_inner_result_held_before_never_shows(backend):  # noqa: F811
    """A call leaves NaN in memory that the next one has for the same results."""
    a, b, c = values(1, (33, 40)), values(2, (20, 40)), values(3, (50, 20))
    first = relay.nn.bias_add(
        relay.nn.dense(variable("x", a), relay.const(b)), relay.const(b[:, 0])
    )
    call = compiled(backend, relay.nn.dense(relay.nn.relu(first), relay.const(c)))
    out = tvm.nd.empty((33, 50))
    call(tvm.nd.array(a * np.float32(np.nan)), out)
    assert np.isnan(out.numpy()).all()
    call(tvm.nd.array(a), out)
    assert_equal(out.numpy(), product(np.maximum(product(a, b.T) + b[:, 0], 0), c.T))
