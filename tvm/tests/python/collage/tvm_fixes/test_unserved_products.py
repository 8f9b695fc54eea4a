# SPDX-License-Identifier: Apache-2.0
"""Products beside one that a record of Ansor's serves: TVM's own kernels, as without records."""

import json
import logging

import numpy as np
import pytest
import tvm
from onednn_nets import run
from tuning_nets import TARGET, in_mode, line_in_blocks
from tvm import auto_scheduler, relay
from tvm.auto_scheduler.dispatcher import DispatchContext
from tvm.auto_scheduler.measure_record import load_record_from_string
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.compile.library import stock_build
from tvm.relay.collage.tvm_fixes.ansor import ansors_products

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 32)).astype("float32")
SERVED = RNG.standard_normal((24, 32)).astype("float32")
OTHER = RNG.standard_normal((48, 24)).astype("float32")


def module(*weights):
    """Dense layers in a row."""
    x = relay.var("x", shape=X.shape)
    y = x
    for weight in weights:
        y = relay.nn.relu(relay.nn.dense(y, relay.const(weight)))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))


def batched():
    """A dense layer, and a product of two matrices that are computed."""
    x = relay.var("x", shape=X.shape)
    y = relay.expand_dims(relay.nn.relu(relay.nn.dense(x, relay.const(SERVED))), 0)
    y = relay.nn.batch_matmul(y, relay.exp(y))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))


def record():
    [task], _ = auto_scheduler.extract_tasks(module(SERVED), {}, TARGET)
    return load_record_from_string(line_in_blocks(task))


def kernels(library):
    nodes = json.loads(library.get_graph_json())["nodes"]
    names = [node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"]
    return [name.removeprefix("tvmgen_default_fused_") for name in names if "nn" in name]


def test_a_layer_without_a_record_is_packed_beside_one_that_has_its_own():
    mod = module(SERVED, OTHER)
    with auto_scheduler.ApplyHistoryBest([record()]), in_mode("ansor"):
        library = build_library(mod, TARGET)
    assert kernels(library) == ["nn_dense_nn_relu", "nn_contrib_dense_pack_nn_relu"]
    shapes = sorted(value.shape for value in library.get_params().values())
    assert (3, 32, 8) in shapes, "the record lays its weight out"
    [found] = run(library, {"x": X})
    hidden = np.maximum(X @ SERVED.T, 0)
    np.testing.assert_allclose(found, np.maximum(hidden @ OTHER.T, 0), rtol=1e-4, atol=1e-4)


SQUARE = RNG.standard_normal((32, 32)).astype("float32")
BIAS = RNG.standard_normal(32).astype("float32")
SERVED_BODIES = {
    "alone": lambda x: by_square(x),
    "bias": lambda x: by_square(x) + relay.const(BIAS),
    "bias before": lambda x: relay.const(BIAS) + by_square(x),
    "its own data": lambda x: by_square(x) + x,
    "its own data before": lambda x: x + by_square(x),
    "its own data and a bias before": lambda x: (x + relay.const(BIAS)) * by_square(x),
    "its own data after other": lambda x: (relay.const(X) + x + relay.const(BIAS)) * by_square(x),
    "broadcast": lambda x: by_square(x) + relay.const(RNG.standard_normal((3, 4, 32), "f4")),
}


def by_square(x):
    return relay.nn.dense(x, relay.const(SQUARE))


@pytest.mark.parametrize("body", SERVED_BODIES.values(), ids=SERVED_BODIES)
def test_a_layer_keeps_its_record_whatever_is_fused_to_it(body):
    x = relay.var("x", shape=X.shape)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body(x))))
    tasks, _ = auto_scheduler.extract_tasks(mod, {}, TARGET)
    [task] = [each for each in tasks if "dense" in each.desc]
    served = load_record_from_string(line_in_blocks(task))
    with auto_scheduler.ApplyHistoryBest([served]), in_mode("ansor"):
        [name] = [each for each in kernels(build_library(mod, TARGET)) if "dense" in each]
    assert "nn_dense" in name


def test_a_layer_has_no_record_of_a_batched_product_whose_numbers_look_like_its_own():
    batches = [relay.var(name, shape=(16, rows, 32)) for name, rows in (("a", 8), ("b", 24))]
    product = relay.Function(batches, relay.nn.batch_matmul(*batches))
    [task], _ = auto_scheduler.extract_tasks(tvm.IRModule.from_expr(product), {}, TARGET)
    data = weight = (32, 16)  # found in 16, 8, 32, 16, 24, 32, 16, 8, 24
    x = relay.var("x", shape=data)
    layer = relay.nn.dense(x, relay.const(RNG.standard_normal(weight).astype("float32")))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], layer)))
    others = load_record_from_string(line_in_blocks(task))
    with auto_scheduler.ApplyHistoryBest([others]), in_mode("ansor"):
        assert kernels(build_library(mod, TARGET)) == ["nn_contrib_dense_pack"]


def test_without_the_mend_tvm_packs_none():
    with in_mode("ansor"):
        assert kernels(stock_build()(module(SERVED, OTHER), TARGET)) == [
            "nn_dense_nn_relu",
            "nn_dense_nn_relu_1",
        ]


@pytest.mark.parametrize(
    "build, chosen", [(build_library, "batch_matmul.x86"), (stock_build(), "batch_matmul.generic")]
)
def test_a_batched_product_without_a_record_has_tvms_own_kernel(build, chosen, caplog):
    with (
        caplog.at_level(logging.INFO, "te_compiler"),
        auto_scheduler.ApplyHistoryBest([]),
        in_mode("ansor"),
    ):
        build(batched(), TARGET)
    assert any(f"Using {chosen} for nn.batch_matmul" in text for text in caplog.messages)


def test_all_products_are_kernels_that_ansor_can_search_for():
    tasks, _ = auto_scheduler.extract_tasks(module(SERVED, OTHER), {}, TARGET)
    with ansors_products():
        again, _ = auto_scheduler.extract_tasks(module(SERVED, OTHER), {}, TARGET)
    assert [each.workload_key for each in again] == [each.workload_key for each in tasks]
    assert len(tasks) == 2


class Another(DispatchContext):
    """Of somebody's own, which serves nothing here."""

    def _query_inside(self, target, workload_key, func_name):
        return None


@pytest.mark.parametrize(
    "make", [Another, lambda: auto_scheduler.ApplyHistoryBest([record()], None, True)]
)
def test_what_a_context_of_another_kind_serves_is_not_known(make):
    with make(), in_mode("ansor"):
        assert kernels(build_library(module(OTHER @ SERVED), TARGET)) == ["nn_dense_nn_relu"]


def test_without_any_record_the_net_is_as_without_ansor():
    with in_mode("ansor"):
        names = kernels(build_library(module(SERVED, OTHER), TARGET))
    assert names == ["nn_contrib_dense_pack_nn_relu", "nn_contrib_dense_pack_nn_relu_1"]
