# SPDX-License-Identifier: Apache-2.0
"""Kernels of TVM that do little run on one thread, others on all; so do steps of oneDNN's parts."""

import os
import statistics
import threading

import numpy as np
import pytest
import tvm
from onednn_nets import build, constant, function_of, hand_placed, plan_of, run
from tvm import relay, te, tir
from tvm.contrib import graph_executor
from tvm.relay import collage
from tvm.relay.collage.compile import build_library, prepare
from tvm.relay.collage.compile.small_loops import nanoseconds, run_small_loops_on_one_thread
from tvm.relay.collage.ops.onnx_node import NONE, OWN
from tvm.relay.collage.plans.greedy import greedy_partition
from tvm.relay.collage.relay_util.external import on_one_thread
from tvm.script import tir as T
from tvm.target import Target


def threads_woken(library, **inputs):
    """How many threads a run starts where its caller has none yet, and may have one; as most of
    several callers find, since other threads of this process start as well."""
    return statistics.mode(_threads_woken(library, inputs) for _ in range(5))


def _threads_woken(library, inputs):
    found = []

    def work():
        tvm.get_global_func("runtime.config_threadpool")(1, 2)
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
        module.set_input(**inputs)
        before = set(os.listdir("/proc/self/task"))  # those of the last caller may be ending yet
        module.run()
        module.run()
        found.append(len(set(os.listdir("/proc/self/task")) - before))

    caller = threading.Thread(target=work)
    caller.start()
    caller.join()
    return found[0]


@pytest.mark.parametrize("rows, woken", [(4, 0), (4096, 1)])
def test_a_kernel_of_tvm(rows, woken):
    x = relay.var("x", shape=(rows, 256))
    data = np.random.default_rng(0).standard_normal((rows, 256)).astype("float32")
    library = build_library(tvm.IRModule.from_expr(function_of(relay.exp(x) + x)), "llvm")
    np.testing.assert_allclose(run(library, {"x": data})[0], np.exp(data) + data, atol=1e-5)
    assert threads_woken(library, x=data) == woken


def mlp(rows):
    x = relay.var("x", shape=(rows, 64))
    hidden = relay.nn.relu(relay.nn.dense(x, constant(1, 64, 64)))
    image = relay.reshape(relay.nn.dense(hidden, constant(2, 64, 64)), (rows, 4, 4, 4))
    mixed = relay.nn.conv2d(image, constant(3, 4, 4, 3, 3), padding=1, channels=4, kernel_size=3)
    scores = relay.nn.batch_matmul(*[relay.reshape(mixed, (rows, 8, 8))] * 2)
    return function_of(relay.nn.softmax(scores))


@pytest.mark.parametrize("rows, woken", [(2, 0), (8192, 1)])
def test_steps_of_onednn(rows, woken):
    library = build(hand_placed(mlp(rows)))
    data = np.random.default_rng(0).standard_normal((rows, 64)).astype("float32")
    run(library, {"x": data})
    *steps, _memory, _end = plan_of(library).split("\n")
    assert len(steps) >= 5
    assert [step.endswith(" (one thread)") for step in steps] == [woken == 0] * len(steps)
    assert threads_woken(library, x=data) == woken


def test_a_setting_that_came_and_went_wakes_nobody():
    """Each thread follows the setting of denormals, and has its team do so where it must."""
    library = build(hand_placed(mlp(2)))
    for enabled in (True, False):
        collage.flush_denormals(enabled)
    assert threads_woken(library, x=np.ones((2, 64), "float32")) == 0


def test_what_is_large_takes_all_threads_behind_what_is_small():
    """A small step leaves the caller's number of threads as it was."""
    small = relay.nn.dense(relay.var("x", shape=(2, 64)), constant(1, 512, 64))
    wide = relay.nn.dense(relay.nn.relu(small), constant(2, 8192, 512))
    library = build(hand_placed(function_of(wide)))
    data = np.ones((2, 64), "float32")
    run(library, {"x": data})
    first, second = plan_of(library).split("\n")[:2]
    assert first.endswith(" (one thread)") and not second.endswith(" (one thread)")
    assert threads_woken(library, x=data) == 1


@T.prim_func
def twice(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    for i in T.parallel(64):
        A[i] = A[i] + A[i]


@T.prim_func
def of_unknown_extent(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (64,), "float32")
    for i in T.parallel(n):
        A[i] = A[i] + A[i]


@T.prim_func
def of_other_code(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    for i in T.parallel(64):
        A[i] = T.call_extern("float32", "sinf", A[i])


@T.prim_func
def divided_by_hand(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    T.attr("", "pragma_parallel_launch_point", 1)
    for i in T.parallel(64):
        A[i] = A[i] + A[i]


def kinds(func, are_all=False):
    mod = tvm.IRModule({"main": func})
    run_small_loops_on_one_thread(mod, are_all)
    found = []
    tir.stmt_functor.post_order_visit(
        mod["main"].body, lambda node: found.append(node.kind) if isinstance(node, tir.For) else 0
    )
    return found


@pytest.mark.parametrize(
    "func, kind",
    [
        (twice, tir.ForKind.SERIAL),
        (of_unknown_extent, tir.ForKind.PARALLEL),
        (of_other_code, tir.ForKind.PARALLEL),
        (divided_by_hand, tir.ForKind.PARALLEL),
    ],
    ids=lambda value: value.attrs["global_symbol"] if isinstance(value, tir.PrimFunc) else "",
)
def test_what_stays_parallel(func, kind):
    assert kinds(func) == [kind]


def test_all_become_serial_for_a_plan_on_one_thread_but_those_that_wait_for_each_other():
    serial, parallel = [tir.ForKind.SERIAL], [tir.ForKind.PARALLEL]
    assert kinds(of_unknown_extent, True) == kinds(of_other_code, True) == serial
    assert kinds(divided_by_hand, True) == parallel


@pytest.mark.parametrize("backend", ["", "dnnl", "cblas"])
def test_a_plan_on_one_thread_wakes_none(backend):
    prepared = prepare(tvm.IRModule.from_expr(mlp(8192)), None, "llvm")
    mod = greedy_partition(prepared, backend, None, Target(backend)) if backend else prepared
    data = np.random.default_rng(0).standard_normal((8192, 64)).astype("float32")
    usual, serial = build_library(mod, "llvm"), build_library(on_one_thread(mod), "llvm")
    assert (threads_woken(usual, x=data), threads_woken(serial, x=data)) == (1, 0)
    np.testing.assert_allclose(run(serial, {"x": data})[0], run(usual, {"x": data})[0], atol=1e-5)


@T.prim_func
def nested(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    for i in T.parallel(64):
        for j in range(10):
            A[i] = A[i] + A[i]
            if A[j] > T.float32(0):
                A[j] = T.exp(A[j])


def test_estimates_grow_with_the_work():
    """A loop in a loop multiplies; all statements count, and both ways of a choice."""
    once = nanoseconds(twice.body)
    assert 10 < once < 1000
    assert 10 * once + 640 * 8 < nanoseconds(nested.body) < 40 * once + 640 * 8


@pytest.mark.parametrize(
    ("name", "are_all", "threads"),
    [
        ("run_node", True, NONE),
        ("tell_shapes", True, NONE),
        ("run_node", False, OWN),
        ("x", True, OWN),
    ],
)
def test_with_all_loops_nodes_of_onnx_models_run_on_one_thread_too(name, are_all, threads):
    """Another packed call that looks like one stays as it is."""
    x = te.placeholder((4,), name="x")
    head = (f"collage.onnx_model.{name}", "onnxruntime", "digest", "00", OWN, 1)
    y = te.extern((4,), [x], lambda i, o: tir.call_packed(*head, *i, *o), dtype="float32")
    mod = tvm.IRModule({"main": te.create_prim_func([x, y])})
    run_small_loops_on_one_thread(mod, are_all)
    found = []

    def look(node):
        if isinstance(node, tir.Call) and node.op == tvm.ir.Op.get("tir.tvm_call_packed"):
            found.append(int(node.args[4]))

    tir.stmt_functor.post_order_visit(mod["main"].body, look)
    assert found == [threads]
