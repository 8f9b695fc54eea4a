# SPDX-License-Identifier: Apache-2.0
"""x + x is written as 2 x, and a net that has many such sums keeps its size."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.collage.compile import build_library
from tvm.relay.collage.compile.doubled import double_in_place
from tvm.relay.collage.compile.fast_passes import fast_passes
from tvm.relay.collage.relay_util.walk import nodes_of

X = relay.var("x", shape=(4, 8))


def typed(body, **attributes):
    function = relay.Function(relay.analysis.free_vars(body), body)
    if attributes:
        function = function.with_attr(attributes)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))


def count(mod):
    return len(nodes_of(mod["main"].body))


def cells(number):
    """Cells like NASNet's: two poolings that are one, added, and what came before them."""
    value = X
    for _ in range(number):
        pooled = relay.tanh(value)
        value = (pooled + pooled) + relay.nn.relu(value)
    return value


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_a_sum_of_one_value_with_itself(dtype):
    body = relay.nn.relu(relay.var("x", shape=(3,), dtype=dtype))
    mod = typed(body + body)
    assert double_in_place(mod)
    wanted = typed(relay.multiply(body, relay.const(2, dtype)))
    tvm.ir.assert_structural_equal(mod["main"], wanted["main"])
    assert mod["main"].body.checked_type.dtype == dtype


@pytest.mark.parametrize(
    "dtype, sums",
    [
        ("bfloat16", [0, 2, 5, 400]),
        ("uint8", [0, 2, 4, 144]),  # modulo 256
        ("bool", [0, 1, 1, 1]),  # the sum is an "or", and the 2 is a true
    ],
)
def test_values_are_those_of_the_sum(dtype, sums):
    value = relay.cast(relay.var("x", shape=(4,)), dtype)
    mod = typed(relay.cast(value + value, "float32"))
    assert double_in_place(mod.clone())
    outputs = []
    for build in (stock_build, build_library):
        module = graph_executor.GraphModule(build(mod, "llvm")["default"](tvm.cpu()))
        module.run(x=np.array([0, 1, 2.5, 200], "float32"))
        outputs.append(module.get_output(0).numpy().tolist())
    assert outputs == [sums, sums]


def stock_build(mod, target):
    """The sum as it is written."""
    with tvm.transform.PassContext(opt_level=0):
        return relay.build(mod, target)


def test_sums_of_sums_are_all_found():
    twice = X + X
    mod = typed(twice + twice)
    assert double_in_place(mod)
    two = relay.const(2, "float32")
    wanted = typed(relay.multiply(relay.multiply(X, two), two))
    tvm.ir.assert_structural_equal(mod["main"], wanted["main"])


@pytest.mark.parametrize(
    "body",
    [
        relay.nn.relu(X) + relay.nn.relu(X),  # equal, but two nodes
        X + relay.var("y", shape=(4, 8)),
        X * X,
        X + relay.const(1.0),
    ],
)
def test_other_calls_are_left(body):
    mod = typed(body)
    before = mod["main"]
    assert not double_in_place(mod)
    assert mod["main"].same_as(before)


@pytest.mark.parametrize("attribute", ["Compiler", "Primitive", "SkipOptimization"])
def test_functions_that_passes_leave_alone_are_left(attribute):
    mod = typed(X + X, **{attribute: "dnnl" if attribute == "Compiler" else 1})
    assert not double_in_place(mod)


def test_what_is_shared_stays_shared():
    """SimplifyExpr by itself makes about 2 ** 8 copies of the first cell."""
    mod = typed(cells(8))
    size = count(mod)
    with fast_passes():
        simplified = relay.transform.SimplifyExpr()(mod)
    assert count(simplified) <= size + 8 + 1  # a constant for each sum, and the operator multiply
    assert count(relay.transform.SimplifyExpr()(typed(cells(8)))) > 100 + size, (
        "TVM has mended its pass: doubled.py is no longer needed"
    )


def test_the_library_computes_the_same():
    mod = typed(cells(3))
    data = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    module = graph_executor.GraphModule(build_library(mod, "llvm")["default"](tvm.cpu()))
    module.set_input("x", data)
    module.run()
    wanted = data
    for _ in range(3):
        wanted = 2 * np.tanh(wanted) + np.maximum(wanted, 0)
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-5)
