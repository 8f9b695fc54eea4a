# SPDX-License-Identifier: Apache-2.0
"""What the BLAS backends take of a model, and why not the rest."""

import numpy as np
import pytest
import relay_text
import tvm
from blas_nets import assert_equal, backend, require, values  # noqa: F401
from onednn_nets import build, constant, function_of, run, var
from relay_text import composites
from sessions import shared_session
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import backends

nn = relay.nn


def taken(backend, body) -> list[str]:  # noqa: F811
    """Return the composites of the greedy partition, sorted."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function_of(body)))
    return sorted(composites(backends.greedy_partition(mod, backend)))


DENSE = nn.dense(var("x", 4, 8), constant(1, 16, 8))
BATCH = nn.batch_matmul(var("x", 3, 4, 8), var("y", 1, 16, 8))


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
        (nn.bias_add(DENSE, constant(2, 4), axis=0), ["dense"]),
        (relay.add(DENSE, var("r", 4, 16)), ["dense"]),
        (relay.add(DENSE, nn.dense(var("y", 4, 8), constant(3, 16, 8))), ["dense", "dense"]),
        (relay.add(relay.add(DENSE, constant(2, 16)), constant(3, 16)), ["dense_bias"]),
        (relay.tanh(DENSE), ["dense"]),
        # No dynamic shape, no empty one, no other type.
        (nn.dense(var("x", relay.Any(), 8), constant(1, 16, 8)), []),
        (nn.dense(var("x", 0, 8), constant(1, 16, 8)), []),
        (nn.dense(var("x", 4, 8, dtype="float16"), var("w", 16, 8, dtype="float16")), []),
        (
            nn.dense(var("x", 4, 8, dtype="int8"), var("w", 16, 8, dtype="int8"), None, "int32"),
            [],
        ),
    ],
)  # fmt: skip
def test_greedy(backend, body, wanted):  # noqa: F811
    assert taken(backend, body) == [f"{backend}.{each}" for each in wanted]


def test_reasons_are_given():
    predicates = {
        name: predicate for name, _, predicate in backends.get_backend("cblas").patterns()
    }
    typed = relay.transform.InferTypeLocal
    empty = nn.dense(var("x", 0, 8), constant(1, 16, 8))
    typed(empty)
    function = tvm.IRModule.from_expr(function_of(empty))
    call = relay.transform.InferType()(function)["main"].body
    assert "shape=(0, 8) is not supported" in predicates["cblas.dense"](call)


def bert_block(rows=32, width=48, heads=4):
    """One block of an encoder, as exporters write it: attention, sums, layer norms, GELU."""
    depth = width // heads

    def linear(value, seed, columns, inner):
        product = nn.dense(value, constant(seed, columns, inner))
        return relay.add(product, constant(seed + 50, columns))

    def split(value):
        return relay.transpose(relay.reshape(value, (rows, heads, depth)), (1, 0, 2))

    def normed(value, seed):
        gamma, beta = constant(seed, width), constant(seed + 50, width)
        return nn.layer_norm(value, gamma, beta)

    x = var("x", rows, width)
    q, k, v = (split(linear(x, seed, width, width)) for seed in (1, 2, 3))
    scores = relay.divide(nn.batch_matmul(q, k), relay.const(np.float32(depth**0.5)))
    mixed = nn.batch_matmul(nn.softmax(scores), relay.transpose(v, (0, 2, 1)))
    mixed = relay.reshape(relay.transpose(mixed, (1, 0, 2)), (rows, width))
    x = normed(relay.add(x, linear(mixed, 4, width, width)), 5)
    inner = linear(x, 6, 4 * width, width)
    gelu = relay.erf(relay.divide(inner, relay.const(np.float32(2**0.5))))
    inner = relay.multiply(
        relay.multiply(inner, relay.add(gelu, relay.const(1.0))), relay.const(0.5)
    )
    return normed(relay.add(x, linear(inner, 7, width, 4 * width)), 8)


def compilers_of(mod) -> set[str]:
    """Return the backends of a module's parts."""
    attrs = [function.attrs for function in mod.functions.values()]
    return {str(each["Compiler"]) for each in attrs if each and "Compiler" in each}


@pytest.fixture(scope="module")
def bert():
    """(function, inputs, TVM's output)."""
    function = function_of(bert_block())
    inputs = {"x": values(0, (32, 48))}
    return function, inputs, run(build(tvm.IRModule.from_expr(function)), inputs)[0]


class PerCall(collage.MockCostEstimator):
    """Prices that further calls in one candidate do not lower: no region is a bargain."""

    def _price_of(self, target, counts):
        return self._target_costs[target.kind.name] * sum(counts)


def test_bert_block_on_three_backends(backend, bert):  # noqa: F811
    """With prices by which products go to BLAS and the rest to oneDNN, on the virtual machine."""
    function, inputs, wanted = bert
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    targets = [tvm.target.Target("dnnl"), tvm.target.Target(backend)]
    plan = relay_text.partition(mod, targets, PerCall({"llvm": 30, "dnnl": 20, backend: 1}))
    assert compilers_of(plan) == {"dnnl", backend}
    with tvm.transform.PassContext(opt_level=3):
        executable = relay.vm.compile(plan, target="llvm")
    machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
    assert_equal(machine.invoke("main", **inputs).numpy(), wanted)


def test_measured_build_with_three_backends():
    """relay.build(mod, target=[llvm, dnnl, cblas]) with the option: costs are measured."""
    require("cblas")
    a, b = values(1, (64, 96)), values(2, (80, 96))
    body = nn.relu(nn.dense(var("x", *a.shape), relay.const(b)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function_of(body)))
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
