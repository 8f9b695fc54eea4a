# SPDX-License-Identifier: Apache-2.0
"""LLVM 22's rejection of debug information reaches no user and costs other kernels nothing."""

import numpy as np
import pytest
import tvm
from tvm import relay, tir
from tvm.contrib import graph_executor
from tvm.relay.collage.compile import build_library, build_vm, host_target, stock
from tvm.relay.collage.compile.debug_lets import (
    inline_undescribable_lets,
    is_describable,
    is_hoisted,
)
from tvm.relay.collage.messages import is_debug_info_failure

MESSAGE = "location of #dbg_declare must be a pointer or int\n  #dbg_declare(<12 x float> ..."


def resize():
    """A kernel whose hoisted vectors LLVM 22 refuses to describe."""
    data = relay.var("data", shape=(1, 8, 6, 6))
    body = relay.image.resize2d(data, size=(12, 12), method="linear")
    return tvm.IRModule.from_expr(relay.Function([data], body))


def run(library, data):
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=data)
    return executor.get_output(0).numpy()


def test_stock_fails_and_we_do_not():
    data = np.random.RandomState(0).randn(1, 8, 6, 6).astype("float32")
    build = stock.stock_build()
    with tvm.transform.PassContext(opt_level=3), pytest.raises(tvm.TVMError) as caught:
        build(resize(), host_target())
    assert is_debug_info_failure(caught.value)
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_cse_tir": True}):
        expected = run(build(resize(), host_target()), data)
    calls = []

    def counting(*args, **options):
        calls.append(args)
        return build(*args, **options)

    ours = run(build_library(resize(), host_target(), builder=counting), data)
    assert len(calls) == 1, "healed without a second build"
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


def test_vm():
    data = np.random.RandomState(0).randn(1, 8, 6, 6).astype("float32")
    machine = tvm.runtime.vm.VirtualMachine(build_vm(resize(), host_target()), tvm.cpu())
    expected = run(build_library(resize(), host_target()), data)
    np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-6, atol=1e-6)


def kernel(dtype, name):
    """A PrimFunc that binds `name` of `dtype` (its arithmetic on a loop variable) and stores it."""
    buffer = tir.decl_buffer((64,), dtype, name="out")
    index = tir.Var("i", "int32")
    lanes = tvm.DataType(dtype).lanes
    scalar = dtype.split("x")[0]
    value = tir.Cast(scalar, index + 1)
    value = tir.Broadcast(value, lanes) if lanes > 1 else value
    bound = tir.Var(name, dtype)
    at = tir.Ramp(index * lanes, 1, lanes) if lanes > 1 else index
    buffer = tir.decl_buffer((64,), scalar, name="out")
    body = tir.LetStmt(bound, value, tir.BufferStore(buffer, bound + bound, [at]))
    loop = tir.For(index, 0, 4, tir.ForKind.SERIAL, body)
    handle = tir.Var("out", "handle")
    return tvm.IRModule({"main": tir.PrimFunc([handle], loop, buffer_map={handle: buffer})})


def has_let(mod):
    found = []
    tir.stmt_functor.post_order_visit(
        mod["main"].body, lambda node: found.append(node) if isinstance(node, tir.LetStmt) else None
    )
    return bool(found)


@pytest.mark.parametrize("dtype", ["float32", "float32x4", "int32x4"])
def test_hoisted_floats_and_vectors_are_put_back(dtype):
    mod = kernel(dtype, "cse_var_1")
    assert inline_undescribable_lets(mod) and not has_let(mod)


@pytest.mark.parametrize("dtype, name", [("int32", "cse_var_1"), ("float32", "mine")])
def test_other_bindings_stay(dtype, name):
    mod = kernel(dtype, name)
    before = mod["main"]
    assert not inline_undescribable_lets(mod)
    assert mod["main"].same_as(before)


def test_predicates():
    assert is_hoisted(tir.Var("cse_var_12", "int32")) and not is_hoisted(tir.Var("x", "int32"))
    for dtype in ("int32", "uint8", "bool", "int64", "handle"):
        assert is_describable(dtype)
    for dtype in ("float32", "float16", "int32x4", "float64x2", "boolx4"):
        assert not is_describable(dtype)


@pytest.mark.parametrize("build", [build_library, build_vm])
def test_an_unknown_case_is_built_without_hoisting(build):
    configs = []

    def builder(mod, **_options):
        configs.append(dict(tvm.transform.PassContext.current().config.items()))
        if len(configs) == 1:
            raise tvm.TVMError(MESSAGE)
        return "library"

    with tvm.transform.PassContext(opt_level=2, config={"tir.disable_assert": True}):
        assert build(resize(), host_target(), builder=builder) == "library"
    assert "tir.disable_cse_tir" not in configs[0]
    assert configs[1]["tir.disable_cse_tir"] and configs[1]["tir.disable_assert"]


@pytest.mark.parametrize("message", ["out of memory", MESSAGE])
def test_other_errors_and_a_second_failure_are_raised(message):
    calls = []

    def builder(mod, **_options):
        calls.append(mod)
        raise tvm.TVMError(message)

    with pytest.raises(tvm.TVMError):
        build_library(resize(), host_target(), builder=builder)
    assert len(calls) == (2 if message == MESSAGE else 1)
