# SPDX-License-Identifier: Apache-2.0
"""Ansor's records on dense layers: weights are laid out anew, keys of workloads stay TVM's own."""

import threading

import numpy as np
import pytest
import tvm
from onednn_nets import run
from tuning_nets import TARGET, in_mode, line_in_blocks
from tvm import auto_scheduler, relay, te
from tvm.auto_scheduler.measure_record import load_record_from_string
from tvm.auto_scheduler.relay_integration import TracingEnvironment, enter_layout_rewrite
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.compile.fold_ops import EVALUATORS
from tvm.relay.collage.compile.library import stock_build
from tvm.relay.collage.tuning.ansor_kernel import kernel_of
from tvm.relay.collage.tvm_fixes.ansor import matmul_axes, with_named_axes, with_usual_names

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 32)).astype("float32")
WEIGHT = RNG.standard_normal((24, 32)).astype("float32")


def dense(x):
    return relay.nn.dense(x, relay.const(WEIGHT))


def product(x):
    return relay.nn.matmul(x, relay.const(WEIGHT.T.copy()))


def turned(x):
    return relay.nn.matmul(x, relay.const(WEIGHT), transpose_a=True, transpose_b=True)


def batched(x):
    weights = np.stack([WEIGHT, -WEIGHT])[: int(x.type_annotation.shape[0])]
    return relay.nn.batch_matmul(x, relay.const(weights))


# A layer, its input, what it gives, and the shape of its weight.
LAYERS = {
    "dense": (dense, X, X @ WEIGHT.T, (3, 32, 8)),
    "matmul": (product, X, X @ WEIGHT.T, (3, 32, 8)),
    # Of these TVM can do the first by itself.
    "two products": (batched, np.stack([X, X]), np.stack([X, -X]) @ WEIGHT.T, (3, 2, 32, 8)),
    "one product": (batched, X[None], X[None] @ WEIGHT.T, (1, *WEIGHT.shape)),
    # Relay would take the type of this one wrongly.
    "both transposed": (turned, X.T.copy(), X @ WEIGHT.T, WEIGHT.shape),
}


def module(layer, x):
    var = relay.var("x", shape=x.shape)
    body = relay.nn.relu(layer(var))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([var], body)))


def task_of(mod):
    [task], _ = auto_scheduler.extract_tasks(mod, {}, TARGET)
    return task


@pytest.mark.parametrize("name", LAYERS)
def test_a_dense_layer_has_its_weight_in_the_layout_that_its_schedule_reads(name):
    layer, x, expected, shape = LAYERS[name]
    mod = module(layer, x)
    record = load_record_from_string(line_in_blocks(task_of(mod)))
    with auto_scheduler.ApplyHistoryBest([record]), in_mode("ansor"):
        library = build_library(mod, TARGET)
    shapes = [value.shape for value in library.get_params().values()]
    assert shapes == [shape]
    [found] = run(library, {"x": x})
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-5)


def test_without_the_mend_tvm_fails_and_with_it_keys_stay_its_own():
    mod = module(dense, X)
    stock = task_of(mod)
    record = load_record_from_string(line_in_blocks(stock))
    with (
        auto_scheduler.ApplyHistoryBest([record]),
        in_mode("ansor"),
        pytest.raises(tvm.TVMError, match="name_it != name_to_arg"),
    ):
        stock_build()(mod, TARGET)
    with matmul_axes():
        mended = task_of(mod)
        assert "axisB" in str(mended.compute_dag)
    assert mended.workload_key == stock.workload_key
    assert kernel_of(mended, "") == kernel_of(stock, ""), "its class as well"
    # Nothing is left behind.
    assert "axisB" not in str(task_of(mod).compute_dag)


def test_without_ansor_nothing_changes():
    mod = module(dense, X)
    with tvm.transform.PassContext(opt_level=3), matmul_axes():
        plain = stock_build()(mod, TARGET)
    with tvm.transform.PassContext(opt_level=3):
        stock = stock_build()(mod, TARGET)
    assert plain.get_lib().get_source("asm") == stock.get_lib().get_source("asm")


def test_the_weight_is_folded_without_a_kernel_compiled_for_it(monkeypatch):
    mod = module(dense, X)
    record = load_record_from_string(line_in_blocks(task_of(mod)))
    evaluate, seen = EVALUATORS["auto_scheduler_layout_transform"], []

    def noting(*given):
        seen.append(evaluate(*given))
        return seen[-1]

    monkeypatch.setitem(EVALUATORS, "auto_scheduler_layout_transform", noting)
    with auto_scheduler.ApplyHistoryBest([record]), in_mode("ansor"):
        library = build_library(mod, TARGET)
    [weight] = library.get_params().values()
    assert len(seen) == 1
    np.testing.assert_array_equal(weight.numpy(), seen[0])


@pytest.mark.parametrize("text", ["i0", "axisI", "axisAB", "my_axisA"])
def test_other_names_stay(text):
    assert with_usual_names(text) == text


def test_names_are_put_back():
    text = with_usual_names("T(axisA, axisB) += (p0[axisA, k]*p1[axisB, k])")
    assert text == "T(i0, i1) += (p0[i0, k]*p1[i1, k])"


def test_a_weight_has_its_shape_back_also_where_the_product_fails():
    x, weight = te.placeholder((5, 32), name="x"), te.placeholder((3, 32, 8), name="w")
    seen = []

    def failing(tensor_a, tensor_b, bias=None, auto_scheduler_rewritten_layout=""):
        seen.append([int(dim) for dim in tensor_b.shape])
        raise ZeroDivisionError

    with in_mode("ansor"), pytest.raises(ZeroDivisionError):
        with_named_axes(failing)(x, weight, auto_scheduler_rewritten_layout="3axisB32k8axisB")
    assert seen == [[32, 24]] and [int(dim) for dim in weight.shape] == [3, 32, 8]


def test_a_product_of_more_axes_than_there_are_letters_is_tvms_own():
    x, weight = (te.placeholder([1] * 9, name=name) for name in "xw")

    def stock(tensor_a, tensor_b, bias=None):
        return te.compute(tensor_a.shape, lambda *at: tensor_a(*at) * tensor_b(*at))

    with in_mode("ansor"):
        assert with_named_axes(stock)(x, weight).op.axis[0].var.name == "i0"


def test_one_thread_at_a_time_builds_for_ansors_records_and_a_failure_leaves_no_trace():
    inside, ended = threading.Event(), threading.Event()

    def other():
        with in_mode("ansor"), matmul_axes():
            inside.set()
        ended.set()

    thread = threading.Thread(target=other, daemon=True)
    with in_mode("ansor"), pytest.raises(ZeroDivisionError), matmul_axes(), matmul_axes():
        thread.start()
        enter_layout_rewrite()
        # Builds for no such records do not wait.
        with tvm.transform.PassContext(), matmul_axes():
            assert not inside.wait(0.2)
        raise ZeroDivisionError
    assert TracingEnvironment.current is None
    assert inside.wait(60) and ended.wait(60)
