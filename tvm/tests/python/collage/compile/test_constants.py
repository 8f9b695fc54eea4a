# SPDX-License-Identifier: Apache-2.0
"""A library's file holds each constant once, whoever reads it, under a name that no input has."""

import os

import numpy as np
import pytest
import tvm
from onednn_nets import run
from own_code_backends import IN_C
from tvm import relay
from tvm.relay.collage import backends
from tvm.relay.collage.compile import build_library, build_vm
from tvm.relay.collage.compile.library import stock_build
from tvm_collage.runner import load_runner

ROWS, COLUMNS = 4096, 64
SIZE = 4 * ROWS * COLUMNS  # bytes of a constant
# Code, descriptions and the headers of constants.
MORE = SIZE // 4


def constant(seed):
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype("float32")


HOSTS, BACKENDS = constant(0), constant(1)


def net():
    """The host looks up rows of its table, two different parts of a backend read one constant."""
    index, x = relay.var("index", shape=(2,), dtype="int32"), relay.var("x", shape=(ROWS, COLUMNS))
    rows = relay.take(relay.const(HOSTS), index, axis=0)
    shared = relay.const(BACKENDS)
    y = relay.expand_dims(relay.tanh(x - shared), 0) - shared
    mod = tvm.IRModule.from_expr(relay.Function([index, x], relay.Tuple([rows, y])))
    mod = backends.greedy_partition(mod, IN_C.name)
    symbols = {
        str(f.attrs["global_symbol"]) for f in mod.functions.values() if "Compiler" in f.attrs
    }
    assert len(symbols) == 2
    return mod


@pytest.fixture(autouse=True)
def source(monkeypatch):
    code = IN_C.source.replace("SIZE", str(ROWS * COLUMNS))
    monkeypatch.setattr(IN_C, "source", code)


def inputs():
    return {
        "index": np.array([5, ROWS - 1], "int32"),
        "x": np.random.default_rng(2).standard_normal((ROWS, COLUMNS)).astype("float32"),
    }


def check(rows, y):
    given = inputs()
    np.testing.assert_array_equal(rows, HOSTS[given["index"]])
    right = np.tanh(given["x"] - BACKENDS) - BACKENDS
    np.testing.assert_allclose(y[0], right, rtol=1e-4, atol=1e-5)


def test_graph_executor(tmp_path):
    library = build_library(net(), "llvm")
    file = tmp_path / "net.so"
    library.export_library(str(file))
    assert 2 * SIZE < os.path.getsize(file) < 2 * SIZE + MORE
    check(*load_runner(file)(inputs()))


def test_in_memory_as_stock_tvm_and_not_copied():
    library = build_library(net(), "llvm")
    check(*run(library, inputs()))
    [param] = library.get_params().values()
    [kept] = library["get_graph_params"]().values()
    assert param.handle.contents.data == kept.handle.contents.data


def test_vm(tmp_path):
    file = str(tmp_path / "vm.so")
    build_vm(net(), "llvm").mod.export_library(file)
    assert 2 * SIZE < os.path.getsize(file) < 2 * SIZE + MORE
    machine = tvm.runtime.vm.VirtualMachine(tvm.runtime.load_module(file), tvm.cpu())
    check(*(field.numpy() for field in machine.invoke("main", *inputs().values())))


def test_a_library_of_tvm_alone_is_tvms(tmp_path):
    mod = tvm.IRModule.from_expr(relay.Function([], relay.take(relay.const(HOSTS), relay.const(3))))
    library, stock = build_library(mod, "llvm"), stock_build()(mod, "llvm")
    assert library.module.type_key == stock.module.type_key
    assert library.lib.type_key == stock.lib.type_key == "llvm"


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_inputs_that_are_called_as_tvm_calls_constants(kind, tmp_path):
    names = ["p1", "p0_0", "p0"]
    inputs = [relay.var(name, shape=(2, 3)) for name in names]
    constants = [relay.const(np.full((2, 3), value, "float32")) for value in (10, 20, 40)]
    a, b, c = (relay.tanh(x) - each for x, each in zip(inputs, constants, strict=True))
    mod = tvm.IRModule.from_expr(relay.Function(inputs, relay.Tuple([a, b, c])))
    library = build_library(mod, "llvm", executor=relay.backend.Executor(kind))
    library.export_library(str(tmp_path / "net.so"))
    given = {name: np.full((2, 3), value, "float32") for name, value in zip(names, (1, 2, 3))}
    outputs = load_runner(tmp_path / "net.so")(given)
    for found, value, minus in zip(outputs, (1, 2, 3), (10, 20, 40), strict=True):
        np.testing.assert_allclose(found, np.tanh(value) - minus, rtol=1e-5)
